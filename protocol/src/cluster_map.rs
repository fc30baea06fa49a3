//! Who owns which slots: the one thing a client has to know before it can ask for a key.

use thiserror::Error;
use weft_transport::{Incarnation, NodeId};

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::limits::{ADDRESS_MAX, NODES_MAX};
use crate::slot::Slot;

/// The nodes of a cluster and the partition of the slots among them, as of an epoch.
///
/// A map is consistent by construction: partitions are in order, do not overlap, and belong to nodes
/// of the map. Slots may be left out; they have no owner. A map with a higher epoch replaces one
/// with a lower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMap {
    epoch: u64,
    nodes: Vec<NodeEntry>,
    partitions: Vec<PartitionEntry>,
    /// Where in `nodes` the owner of each partition is.
    owners: Vec<u16>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node's id.
    pub id: NodeId,
    /// Which life of the node this is.
    pub incarnation: Incarnation,
    /// Where it takes requests: `host:port`, at most [`ADDRESS_MAX`] bytes.
    pub address: String,
}

/// A run of slots that move and fail together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionEntry {
    /// The first slot.
    pub first_slot: Slot,
    /// The last slot, which belongs to it too.
    pub last_slot: Slot,
    /// The node that serves it.
    pub owner: NodeId,
}

impl PartitionEntry {
    fn contains(&self, slot: Slot) -> bool {
        self.first_slot <= slot && slot <= self.last_slot
    }
}

/// What can be wrong with a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MapError {
    /// The epoch is 0, which is what a client without a map says it knows.
    #[error("cluster map has epoch 0")]
    NoEpoch,
    /// There are no nodes, or more than [`NODES_MAX`].
    #[error("cluster map has {count} nodes, not 1 to {NODES_MAX}")]
    NodeCount {
        /// How many there are.
        count: usize,
    },
    /// Two entries have one id.
    #[error("{id} is in the cluster map twice")]
    DuplicateNode {
        /// The id.
        id: NodeId,
    },
    /// An address is empty or longer than [`ADDRESS_MAX`].
    #[error("address of {id} is empty or longer than {ADDRESS_MAX} bytes")]
    AddressLength {
        /// The node.
        id: NodeId,
    },
    /// A map cannot be split into this many partitions.
    #[error("{count} partitions are not 1 to 16384")]
    PartitionCount {
        /// How many were asked for.
        count: usize,
    },
    /// A slot's number is 16384 or more.
    #[error("slot {number} is not below 16384")]
    SlotRange {
        /// The number.
        number: u16,
    },
    /// A partition ends before it begins, or begins before its predecessor ends.
    #[error("partition at slot {first_slot} is out of order or overlaps another")]
    PartitionOrder {
        /// Its first slot.
        first_slot: Slot,
    },
    /// A partition belongs to a node that is not in the map.
    #[error("partition at slot {first_slot} belongs to {owner}, which is not in the cluster map")]
    UnknownOwner {
        /// Its first slot.
        first_slot: Slot,
        /// The unknown node.
        owner: NodeId,
    },
}

impl ClusterMap {
    /// A map of `nodes` in any order and `partitions` in the order of their slots.
    ///
    /// # Errors
    ///
    /// [`MapError`] if they contradict each other.
    pub fn new(
        epoch: u64,
        mut nodes: Vec<NodeEntry>,
        partitions: Vec<PartitionEntry>,
    ) -> Result<Self, MapError> {
        if epoch == 0 {
            return Err(MapError::NoEpoch);
        }
        check_nodes(&mut nodes)?;
        if partitions.len() > usize::from(Slot::COUNT) {
            return Err(MapError::PartitionCount { count: partitions.len() });
        }
        let mut owners = Vec::with_capacity(partitions.len());
        let mut next_slot = 0;
        for &PartitionEntry { first_slot, last_slot, owner } in &partitions {
            if first_slot.number() < next_slot || last_slot < first_slot {
                return Err(MapError::PartitionOrder { first_slot });
            }
            next_slot = last_slot.number() + 1;
            match nodes.binary_search_by_key(&owner, |node| node.id) {
                Ok(index) => owners.push(index as u16),
                Err(_) => return Err(MapError::UnknownOwner { first_slot, owner }),
            }
        }
        Ok(Self { epoch, nodes, partitions, owners })
    }

    /// A map in which `nodes` share `partitions` evenly, each owning a run of them in the order of
    /// ids: sizes differ by one partition, and partitions by one slot. With more nodes than
    /// partitions some nodes own none.
    ///
    /// # Errors
    ///
    /// [`MapError`] if there are no nodes, two have one id, or `partitions` is not 1 to 16384.
    pub fn even(mut nodes: Vec<NodeEntry>, partitions: u16, epoch: u64) -> Result<Self, MapError> {
        if partitions == 0 || partitions > Slot::COUNT {
            return Err(MapError::PartitionCount { count: usize::from(partitions) });
        }
        check_nodes(&mut nodes)?;
        // Partition `i` begins at slot `i * 16384 / partitions`, and belongs to node
        // `i * nodes / partitions`.
        let begin =
            |index: u16| (u32::from(index) * u32::from(Slot::COUNT) / u32::from(partitions)) as u16;
        let slot = |number| Slot::from_number(number).expect("partitions end at the last slot");
        let entries = (0..partitions).map(|index| PartitionEntry {
            first_slot: slot(begin(index)),
            last_slot: slot(begin(index + 1) - 1),
            owner: nodes[usize::from(index) * nodes.len() / usize::from(partitions)].id,
        });
        let entries = entries.collect();
        Self::new(epoch, nodes, entries)
    }

    /// The map's epoch, from 1 on.
    #[inline]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch's low 32 bits, which requests carry.
    #[inline]
    pub const fn epoch_low(&self) -> u32 {
        self.epoch as u32
    }

    /// The nodes, by id.
    #[inline]
    pub fn nodes(&self) -> &[NodeEntry] {
        &self.nodes
    }

    /// The partitions, by slot.
    #[inline]
    pub fn partitions(&self) -> &[PartitionEntry] {
        &self.partitions
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&NodeEntry> {
        let index = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.nodes[index])
    }

    /// The node that serves `slot`.
    #[inline]
    pub fn owner_of(&self, slot: Slot) -> Option<&NodeEntry> {
        Some(&self.nodes[self.owner_index(slot)?])
    }

    /// Where in [`nodes`](Self::nodes) the node that serves `slot` is.
    #[inline]
    pub fn owner_index(&self, slot: Slot) -> Option<usize> {
        Some(usize::from(self.owners[self.partition_of(slot)?]))
    }

    /// Where in [`partitions`](Self::partitions) the partition of `slot` is. The partition is
    /// guessed, as if all were of one size, and searched for only if the guess is wrong.
    #[inline]
    pub fn partition_of(&self, slot: Slot) -> Option<usize> {
        let guess = usize::from(slot.number()) * self.partitions.len() / usize::from(Slot::COUNT);
        match self.partitions.get(guess) {
            Some(partition) if partition.contains(slot) => Some(guess),
            _ => self.search(slot),
        }
    }

    fn search(&self, slot: Slot) -> Option<usize> {
        let index = self.partitions.partition_point(|partition| partition.last_slot < slot);
        self.partitions.get(index)?.contains(slot).then_some(index)
    }
}

/// `node count u32 | partition count u32 | nodes | partitions`, of which a node is
/// `id u64 | incarnation u64 | address length u16 | address` and a partition
/// `first slot u16 | last slot u16 | owner u64`. The epoch is in the reply's head.
impl ClusterMap {
    pub(crate) fn encoded_len(&self) -> usize {
        let addresses: usize = self.nodes.iter().map(|node| node.address.len()).sum();
        let nodes = self.nodes.len() * NODE_LEN_MIN + addresses;
        COUNTS_LEN + nodes + self.partitions.len() * PARTITION_LEN
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.nodes.len() as u32);
        writer.u32(self.partitions.len() as u32);
        for node in &self.nodes {
            writer.u64(node.id.0);
            writer.u64(node.incarnation.0);
            writer.u16(node.address.len() as u16);
            writer.bytes(node.address.as_bytes());
        }
        for partition in &self.partitions {
            writer.u16(partition.first_slot.number());
            writer.u16(partition.last_slot.number());
            writer.u64(partition.owner.0);
        }
    }

    pub(crate) fn decode(epoch: u64, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let node_count = reader.u32()? as usize;
        let partition_count = reader.u32()? as usize;
        if node_count > NODES_MAX {
            return Err(MapError::NodeCount { count: node_count }.into());
        }
        if partition_count > usize::from(Slot::COUNT) {
            return Err(MapError::PartitionCount { count: partition_count }.into());
        }
        let mut nodes = Vec::with_capacity(node_count.min(reader.rest().len() / NODE_LEN_MIN));
        for _ in 0..node_count {
            nodes.push(decode_node(&mut reader)?);
        }
        let left = reader.rest().len() / PARTITION_LEN;
        let mut partitions = Vec::with_capacity(partition_count.min(left));
        for _ in 0..partition_count {
            partitions.push(decode_partition(&mut reader)?);
        }
        reader.finish()?;
        Ok(Self::new(epoch, nodes, partitions)?)
    }
}

/// Bytes of the two counts.
const COUNTS_LEN: usize = 4 + 4;

/// Bytes of a node without an address.
const NODE_LEN_MIN: usize = 8 + 8 + 2;

/// Bytes of a partition.
const PARTITION_LEN: usize = 2 + 2 + 8;

fn decode_node(reader: &mut Reader<'_>) -> Result<NodeEntry, DecodeError> {
    let id = NodeId(reader.u64()?);
    let incarnation = Incarnation(reader.u64()?);
    let address_len = reader.u16()?;
    let address = reader.text(address_len, "address")?.to_owned();
    Ok(NodeEntry { id, incarnation, address })
}

fn decode_partition(reader: &mut Reader<'_>) -> Result<PartitionEntry, DecodeError> {
    let first_slot = reader.slot()?;
    let last_slot = reader.slot()?;
    Ok(PartitionEntry { first_slot, last_slot, owner: NodeId(reader.u64()?) })
}

/// Brings `nodes` into the order of their ids.
fn check_nodes(nodes: &mut [NodeEntry]) -> Result<(), MapError> {
    if nodes.is_empty() || nodes.len() > NODES_MAX {
        return Err(MapError::NodeCount { count: nodes.len() });
    }
    nodes.sort_unstable_by_key(|node| node.id);
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(MapError::DuplicateNode { id: pair[0].id });
    }
    match nodes.iter().find(|node| !(1..=ADDRESS_MAX).contains(&node.address.len())) {
        Some(node) => Err(MapError::AddressLength { id: node.id }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
