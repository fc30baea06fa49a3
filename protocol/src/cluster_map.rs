//! Who serves which slots: the one thing a client has to know before it can ask for a key.

mod difference;
mod encoding;

use thiserror::Error;
use weft_transport::{Incarnation, NodeId};

pub use self::difference::MapDifference;

use crate::configuration::{Configuration, PartitionId};
use crate::limits::{ADDRESS_MAX, MEMBERS_MAX, NODES_MAX, PARTITIONS_MAX};
use crate::slot::Slot;
use crate::table::TableClass;

/// The nodes of a cluster and, for each class of tables, the partition of the slots among them, as of an epoch.
///
/// A map is consistent by construction: partitions of a class do not overlap, no two of all have one number, and their members are nodes
/// of the map. Slots may be left out; nobody serves them. A map with a higher epoch replaces one
/// with a lower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMap {
    epoch: u64,
    nodes: Vec<NodeEntry>,
    /// By class, and by slot within one.
    partitions: Vec<PartitionEntry>,
    /// Where in `nodes` the primary of each partition is, or [`NOBODY`].
    primaries: Vec<u16>,
    /// Which of the partitions are of which class.
    classes: Vec<ClassRun>,
    default_class: TableClass,
}

/// In the place of the primary of a partition that has none.
const NOBODY: u16 = u16::MAX;

const _: () = assert!(NODES_MAX < NOBODY as usize);

/// The partitions of a class, from `first` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClassRun {
    class: TableClass,
    first: usize,
    end: usize,
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

/// A run of slots, of one class of tables, that move and fail together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEntry {
    /// Its number, which no other partition of any class has.
    pub id: PartitionId,
    /// Whose slots they are.
    pub class: TableClass,
    /// The first slot.
    pub first_slot: Slot,
    /// The last slot, which belongs to it too.
    pub last_slot: Slot,
    /// As of which of its own epochs this is so; see [`Configuration::epoch`].
    pub epoch: u32,
    /// The member that serves it. Nobody while none can.
    pub primary: Option<NodeId>,
    /// Who has all of it, the primary included: at most [`MEMBERS_MAX`].
    pub members: Vec<NodeId>,
    /// Whether all that it held is gone; see [`Configuration::is_lost`].
    pub is_lost: bool,
}

impl PartitionEntry {
    /// Whether `slot` is one of its own.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
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
    /// A map cannot have so many partitions, or be split into so many.
    #[error("{count} partitions are not 1 to {PARTITIONS_MAX}")]
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
    /// A partition ends before it begins, or has a slot of another one of its class.
    #[error("{id} at slot {first_slot} has no slots, or some of another partition")]
    PartitionOverlap {
        /// Its number.
        id: PartitionId,
        /// Its first slot.
        first_slot: Slot,
    },
    /// Two partitions have one number.
    #[error("{id} is in the cluster map twice")]
    DuplicatePartition {
        /// The number.
        id: PartitionId,
    },
    /// A partition's epoch is 0 or above [`Configuration::EPOCH_MAX`].
    #[error("{id} has epoch {epoch}, not 1 to {}", Configuration::EPOCH_MAX)]
    PartitionEpoch {
        /// Its number.
        id: PartitionId,
        /// The epoch.
        epoch: u32,
    },
    /// A partition is of a class that no table is of.
    #[error("{id} is of a class with {replicas} replicas")]
    PartitionClass {
        /// Its number.
        id: PartitionId,
        /// What the class is to have.
        replicas: u8,
    },
    /// A partition has too many members, one of them twice, or a primary that is none of them.
    #[error("{id} has more than {MEMBERS_MAX} members, one twice, or another primary")]
    Members {
        /// Its number.
        id: PartitionId,
    },
    /// A member of a partition is not in the map.
    #[error("a member of {id} is {node}, which is not in the cluster map")]
    UnknownMember {
        /// The partition's number.
        id: PartitionId,
        /// The unknown node.
        node: NodeId,
    },
    /// A difference is one to another map.
    #[error("the difference is to a cluster map of epoch {base}, not {epoch}")]
    OtherBase {
        /// The epoch of the map that it is to.
        base: u64,
        /// The epoch of the map that it was to be applied to.
        epoch: u64,
    },
}

impl ClusterMap {
    /// A map of `nodes` and `partitions`, both in any order.
    ///
    /// # Errors
    ///
    /// [`MapError`] if they contradict each other.
    pub fn new(
        epoch: u64,
        mut nodes: Vec<NodeEntry>,
        mut partitions: Vec<PartitionEntry>,
    ) -> Result<Self, MapError> {
        if epoch == 0 {
            return Err(MapError::NoEpoch);
        }
        check_nodes(&mut nodes)?;
        if partitions.len() > PARTITIONS_MAX {
            return Err(MapError::PartitionCount { count: partitions.len() });
        }
        partitions.sort_unstable_by_key(|partition| (partition.class, partition.first_slot));
        check_numbers(&partitions)?;
        let mut primaries = Vec::with_capacity(partitions.len());
        let mut classes = Vec::<ClassRun>::new();
        let mut next_slot = 0;
        for (index, partition) in partitions.iter().enumerate() {
            let &PartitionEntry { id, class, first_slot, last_slot, epoch, .. } = partition;
            if !class.is_supported() {
                return Err(MapError::PartitionClass { id, replicas: class.replicas });
            }
            match classes.last_mut() {
                Some(run) if run.class == class => run.end = index + 1,
                _ => {
                    classes.push(ClassRun { class, first: index, end: index + 1 });
                    next_slot = 0;
                }
            }
            if first_slot.number() < next_slot || last_slot < first_slot {
                return Err(MapError::PartitionOverlap { id, first_slot });
            }
            next_slot = last_slot.number() + 1;
            if !(1..=Configuration::EPOCH_MAX).contains(&epoch) {
                return Err(MapError::PartitionEpoch { id, epoch });
            }
            primaries.push(primary_among(partition, &nodes)?);
        }
        let first = partitions.iter().find(|partition| partition.id == PartitionId(0));
        let default_class = first.map_or(TableClass::DEFAULT, |partition| partition.class);
        Ok(Self { epoch, nodes, partitions, primaries, classes, default_class })
    }

    /// A map in which `nodes` share `partitions` of the [usual class](TableClass::DEFAULT) evenly, each alone serving a run of them in the order of
    /// ids: sizes differ by one partition, and partitions by one slot. With more nodes than
    /// partitions some nodes serve none.
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
        let entries = (0..partitions).map(|index| {
            let node = nodes[usize::from(index) * nodes.len() / usize::from(partitions)].id;
            PartitionEntry {
                id: PartitionId(index),
                class: TableClass::DEFAULT,
                first_slot: slot(begin(index)),
                last_slot: slot(begin(index + 1) - 1),
                epoch: 1,
                primary: Some(node),
                members: vec![node],
                is_lost: false,
            }
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

    /// The partitions, by class, and by slot within one.
    #[inline]
    pub fn partitions(&self) -> &[PartitionEntry] {
        &self.partitions
    }

    /// The partitions of `class`, by slot.
    pub fn partitions_of(&self, class: TableClass) -> &[PartitionEntry] {
        match self.run(class) {
            Some(run) => &self.partitions[run.first..run.end],
            None => &[],
        }
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&NodeEntry> {
        let index = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.nodes[index])
    }

    /// The node that serves `slot` of the tables of `class`.
    #[inline]
    pub fn primary_of(&self, class: TableClass, slot: Slot) -> Option<&NodeEntry> {
        Some(&self.nodes[self.primary_index(class, slot)?])
    }

    /// Where in [`nodes`](Self::nodes) the node that serves `slot` of the tables of `class` is.
    #[inline]
    pub fn primary_index(&self, class: TableClass, slot: Slot) -> Option<usize> {
        let primary = self.primaries[self.partition_of(class, slot)?];
        (primary != NOBODY).then_some(usize::from(primary))
    }

    /// The class of the table that is always there: that of the partition with the number 0, since its partitions are placed first.
    #[inline]
    pub fn default_class(&self) -> TableClass {
        self.default_class
    }

    /// The node that serves `slot` of the [table that is always there](Self::default_class).
    pub fn owner_of(&self, slot: Slot) -> Option<&NodeEntry> {
        self.primary_of(self.default_class, slot)
    }

    /// Where in [`nodes`](Self::nodes) that node is.
    pub fn owner_index(&self, slot: Slot) -> Option<usize> {
        self.primary_index(self.default_class, slot)
    }

    /// Where in [`partitions`](Self::partitions) the partition of `slot` is, for tables of `class`. The partition is
    /// guessed, as if all were of one size, and searched for only if the guess is wrong.
    #[inline]
    pub fn partition_of(&self, class: TableClass, slot: Slot) -> Option<usize> {
        let ClassRun { first, end, .. } = self.run(class)?;
        let guess = first + usize::from(slot.number()) * (end - first) / usize::from(Slot::COUNT);
        match self.partitions.get(guess) {
            Some(partition) if partition.contains(slot) => Some(guess),
            _ => self.search(first, end, slot),
        }
    }

    /// There are few classes, and most tables are of the first one that is looked at.
    #[inline]
    fn run(&self, class: TableClass) -> Option<ClassRun> {
        self.classes.iter().find(|run| run.class == class).copied()
    }

    fn search(&self, first: usize, end: usize, slot: Slot) -> Option<usize> {
        let of_class = &self.partitions[first..end];
        let index = of_class.partition_point(|partition| partition.last_slot < slot);
        of_class.get(index)?.contains(slot).then_some(first + index)
    }
}

/// Where among `nodes` the primary of `partition` is, whose members are checked.
fn primary_among(partition: &PartitionEntry, nodes: &[NodeEntry]) -> Result<u16, MapError> {
    let PartitionEntry { id, primary, members, .. } = partition;
    let is_twice = |place: usize| members[..place].contains(&members[place]);
    let is_member = primary.is_none_or(|primary| members.contains(&primary));
    if members.len() > MEMBERS_MAX || !is_member || (0..members.len()).any(is_twice) {
        return Err(MapError::Members { id: *id });
    }
    let mut found = NOBODY;
    for member in members {
        let Ok(index) = nodes.binary_search_by_key(member, |node| node.id) else {
            return Err(MapError::UnknownMember { id: *id, node: *member });
        };
        if Some(*member) == *primary {
            found = index as u16;
        }
    }
    Ok(found)
}

fn check_numbers(partitions: &[PartitionEntry]) -> Result<(), MapError> {
    let mut numbers: Vec<_> = partitions.iter().map(|partition| partition.id).collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(MapError::DuplicatePartition { id: pair[0] }),
        None => Ok(()),
    }
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
