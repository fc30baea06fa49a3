//! The bytes of a map.
//!
//! ```text
//! map        node count u32 | partition count u32 | nodes | partitions, members as places of nodes, u16
//! node       id u64 | incarnation u64 | address length u16 | address
//! partition  number u16 | first slot u16 | last slot u16 | replicas u8 | durability u8 | flags u8 | member count u8 |
//!            primary's place among the members u8, 255 for none | 0 u8 | epoch u32 | members
//! ```
//!
//! The epoch is in the reply's head.

use weft_transport::{Incarnation, NodeId};

use super::{ClusterMap, MapError, NodeEntry, PartitionEntry};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;
use crate::limits::{MEMBERS_MAX, NODES_MAX, PARTITIONS_MAX};
use crate::table::{Durability, TableClass};

/// Bytes of the two counts.
const COUNTS_LEN: usize = 4 + 4;

/// Bytes of a node without an address.
pub(super) const NODE_LEN_MIN: usize = 8 + 8 + 2;

/// Bytes of a partition without members.
pub(super) const PARTITION_LEN_MIN: usize = 3 * 2 + 6 + 4;

/// The flag of a partition that is lost.
const LOST: u8 = 1 << 0;

/// In the place of a primary: there is none.
const NO_PRIMARY: u8 = u8::MAX;

const _: () = assert!(MEMBERS_MAX < NO_PRIMARY as usize);

impl ClusterMap {
    pub(crate) fn encoded_len(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(node_len).sum();
        let partitions = self.partitions.iter().map(|partition| partition_len(partition, 2));
        COUNTS_LEN + nodes + partitions.sum::<usize>()
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.nodes.len() as u32);
        writer.u32(self.partitions.len() as u32);
        for node in &self.nodes {
            encode_node(node, writer);
        }
        let place = |node: NodeId| self.nodes.binary_search_by_key(&node, |entry| entry.id);
        for partition in &self.partitions {
            encode_partition(partition, writer, |node, writer| {
                writer.u16(place(node).expect("members are nodes of the map") as u16);
            });
        }
    }

    pub(crate) fn decode(epoch: u64, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let node_count = reader.u32()? as usize;
        let partition_count = reader.u32()? as usize;
        check_counts(node_count, partition_count)?;
        let mut nodes = Vec::with_capacity(node_count.min(reader.rest().len() / NODE_LEN_MIN));
        for _ in 0..node_count {
            nodes.push(decode_node(&mut reader)?);
        }
        let left = reader.rest().len() / PARTITION_LEN_MIN;
        let mut partitions = Vec::with_capacity(partition_count.min(left));
        for _ in 0..partition_count {
            partitions.push(decode_partition(&mut reader, |id, reader| {
                let node = nodes.get(usize::from(reader.u16()?));
                Ok(node.map(|node| node.id).ok_or(MapError::Members { id })?)
            })?);
        }
        reader.finish()?;
        Ok(Self::new(epoch, nodes, partitions)?)
    }
}

/// Before anything is allocated for so many.
pub(super) fn check_counts(nodes: usize, partitions: usize) -> Result<(), DecodeError> {
    if nodes > NODES_MAX {
        return Err(MapError::NodeCount { count: nodes }.into());
    }
    if partitions > PARTITIONS_MAX {
        return Err(MapError::PartitionCount { count: partitions }.into());
    }
    Ok(())
}

pub(super) fn node_len(node: &NodeEntry) -> usize {
    NODE_LEN_MIN + node.address.len()
}

pub(super) fn encode_node(node: &NodeEntry, writer: &mut Writer<'_>) {
    writer.u64(node.id.0);
    writer.u64(node.incarnation.0);
    writer.u16(node.address.len() as u16);
    writer.bytes(node.address.as_bytes());
}

pub(super) fn decode_node(reader: &mut Reader<'_>) -> Result<NodeEntry, DecodeError> {
    let id = NodeId(reader.u64()?);
    let incarnation = Incarnation(reader.u64()?);
    let address_len = reader.u16()?;
    let address = reader.text(address_len, "address")?.to_owned();
    Ok(NodeEntry { id, incarnation, address })
}

/// Bytes of a partition of which each member takes `member_len`.
pub(super) fn partition_len(partition: &PartitionEntry, member_len: usize) -> usize {
    PARTITION_LEN_MIN + partition.members.len() * member_len
}

/// Writes a partition, its members by `encode_member`.
pub(super) fn encode_partition(
    partition: &PartitionEntry,
    writer: &mut Writer<'_>,
    encode_member: impl Fn(NodeId, &mut Writer<'_>),
) {
    let PartitionEntry { id, class, first_slot, last_slot, epoch, primary, members, is_lost } =
        partition;
    let primary = primary.and_then(|primary| members.iter().position(|node| *node == primary));
    writer.u16(id.0);
    writer.u16(first_slot.number());
    writer.u16(last_slot.number());
    writer.bytes(&[
        class.replicas,
        class.durability.number(),
        if *is_lost { LOST } else { 0 },
        members.len() as u8,
        primary.map_or(NO_PRIMARY, |place| place as u8),
        0,
    ]);
    writer.u32(*epoch);
    for member in members {
        encode_member(*member, writer);
    }
}

/// Reads a partition, its members by `decode_member`.
pub(super) fn decode_partition<'a>(
    reader: &mut Reader<'a>,
    decode_member: impl Fn(PartitionId, &mut Reader<'a>) -> Result<NodeId, DecodeError>,
) -> Result<PartitionEntry, DecodeError> {
    let id = PartitionId(reader.u16()?);
    let (first_slot, last_slot) = (reader.slot()?, reader.slot()?);
    let [replicas, durability, flags, member_count, place, reserved] = reader.array()?;
    let epoch = reader.u32()?;
    if flags & !LOST != 0 || reserved != 0 {
        return Err(DecodeError::ReservedField { field: "partition flags" });
    }
    let Some(durability) = Durability::from_number(durability) else {
        return Err(DecodeError::ReservedField { field: "durability" });
    };
    let member_count = usize::from(member_count);
    if member_count > MEMBERS_MAX || (place != NO_PRIMARY && usize::from(place) >= member_count) {
        return Err(MapError::Members { id }.into());
    }
    let mut members = Vec::with_capacity(member_count);
    for _ in 0..member_count {
        members.push(decode_member(id, reader)?);
    }
    let primary = members.get(usize::from(place)).copied();
    let (class, is_lost) = (TableClass { replicas, durability }, flags & LOST != 0);
    Ok(PartitionEntry { id, class, first_slot, last_slot, epoch, primary, members, is_lost })
}
