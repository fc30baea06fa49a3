//! What has changed from one map to another, so that a change of one partition does not cost the whole map.
//!
//! ```text
//! epoch of the map that it is to u64 | counts u32: removed nodes, nodes, removed partitions, partitions |
//! ids u64 | nodes | numbers u16 | partitions, members as ids of nodes, u64
//! ```

use weft_transport::NodeId;

use super::encoding::{
    NODE_LEN_MIN, PARTITION_LEN_MIN, check_counts, decode_node, decode_partition, encode_node,
    encode_partition, node_len, partition_len,
};
use super::{ClusterMap, MapError, NodeEntry, PartitionEntry};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;

/// What makes a map of one that is older: nodes and partitions that are not there any more, and those that are new or other than
/// they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapDifference {
    base: u64,
    epoch: u64,
    removed_nodes: Vec<NodeId>,
    nodes: Vec<NodeEntry>,
    removed_partitions: Vec<PartitionId>,
    partitions: Vec<PartitionEntry>,
}

/// Bytes of the epoch and the four counts.
const HEAD_LEN: usize = 8 + 4 * 4;

impl MapDifference {
    /// What makes `new` of `old`.
    pub fn between(old: &ClusterMap, new: &ClusterMap) -> Self {
        let is_gone = |node: &&NodeEntry| new.node(node.id).is_none();
        let is_other = |node: &&NodeEntry| old.node(node.id) != Some(*node);
        let (before, after) = (by_number(old), by_number(new));
        let removed = before.iter().filter(|partition| find(&after, partition.id).is_none());
        let changed =
            after.iter().filter(|partition| find(&before, partition.id) != Some(**partition));
        Self {
            base: old.epoch,
            epoch: new.epoch,
            removed_nodes: old.nodes.iter().filter(is_gone).map(|node| node.id).collect(),
            nodes: new.nodes.iter().filter(is_other).cloned().collect(),
            removed_partitions: removed.map(|partition| partition.id).collect(),
            partitions: changed.map(|&partition| partition.clone()).collect(),
        }
    }

    /// The epoch of the map that it makes.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch of the map that it is to be applied to.
    pub const fn base_epoch(&self) -> u64 {
        self.base
    }

    /// The map that it makes of `old`.
    ///
    /// # Errors
    ///
    /// [`MapError::OtherBase`] if it is a difference to another map, and what is wrong with the map that would come of it.
    pub fn apply(&self, old: &ClusterMap) -> Result<ClusterMap, MapError> {
        if self.base != old.epoch {
            return Err(MapError::OtherBase { base: self.base, epoch: old.epoch });
        }
        let is_node_same = |node: &&NodeEntry| {
            !self.removed_nodes.contains(&node.id)
                && !self.nodes.iter().any(|changed| changed.id == node.id)
        };
        let nodes = old.nodes.iter().filter(is_node_same).chain(&self.nodes).cloned().collect();
        let mut replaced = self.removed_partitions.clone();
        replaced.extend(self.partitions.iter().map(|partition| partition.id));
        replaced.sort_unstable();
        let is_same = |entry: &&PartitionEntry| replaced.binary_search(&entry.id).is_err();
        let kept = old.partitions.iter().filter(is_same);
        ClusterMap::new(self.epoch, nodes, kept.chain(&self.partitions).cloned().collect())
    }

    pub(crate) fn encoded_len(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(node_len).sum();
        let partitions = self.partitions.iter().map(|partition| partition_len(partition, 8));
        HEAD_LEN
            + self.removed_nodes.len() * 8
            + nodes
            + self.removed_partitions.len() * 2
            + partitions.sum::<usize>()
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.base);
        for count in [
            self.removed_nodes.len(),
            self.nodes.len(),
            self.removed_partitions.len(),
            self.partitions.len(),
        ] {
            writer.u32(count as u32);
        }
        self.removed_nodes.iter().for_each(|node| writer.u64(node.0));
        self.nodes.iter().for_each(|node| encode_node(node, writer));
        self.removed_partitions.iter().for_each(|partition| writer.u16(partition.0));
        for partition in &self.partitions {
            encode_partition(partition, writer, |node, writer| writer.u64(node.0));
        }
    }

    pub(crate) fn decode(epoch: u64, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let base = reader.u64()?;
        let [removed_nodes, nodes, removed_partitions, partitions] = [
            reader.u32()? as usize,
            reader.u32()? as usize,
            reader.u32()? as usize,
            reader.u32()? as usize,
        ];
        check_counts(removed_nodes.max(nodes), removed_partitions.max(partitions))?;
        Ok(Self {
            base,
            epoch,
            removed_nodes: list(&mut reader, removed_nodes, 8, |reader| Ok(NodeId(reader.u64()?)))?,
            nodes: list(&mut reader, nodes, NODE_LEN_MIN, decode_node)?,
            removed_partitions: list(&mut reader, removed_partitions, 2, |reader| {
                Ok(PartitionId(reader.u16()?))
            })?,
            partitions: list(&mut reader, partitions, PARTITION_LEN_MIN, |reader| {
                decode_partition(reader, |_, reader| Ok(NodeId(reader.u64()?)))
            })?,
        })
        .and_then(|difference| reader.finish().map(|()| difference))
    }
}

/// Reads `count` elements of `len_min` bytes or more, and takes memory for no more than are there.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    count: usize,
    len_min: usize,
    mut decode: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut elements = Vec::with_capacity(count.min(reader.rest().len() / len_min));
    for _ in 0..count {
        elements.push(decode(reader)?);
    }
    Ok(elements)
}

/// The partitions of a map by number.
fn by_number(map: &ClusterMap) -> Vec<&PartitionEntry> {
    let mut partitions: Vec<_> = map.partitions.iter().collect();
    partitions.sort_unstable_by_key(|partition| partition.id);
    partitions
}

fn find<'m>(partitions: &[&'m PartitionEntry], id: PartitionId) -> Option<&'m PartitionEntry> {
    let place = partitions.binary_search_by_key(&id, |partition| partition.id).ok()?;
    Some(partitions[place])
}
