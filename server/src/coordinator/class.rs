//! Which tables share partitions.

use weft_protocol::{Durability, PartitionId, TableOptions};

/// Tables of as many replicas and one durability. They share partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// On how many nodes each partition is to be, from 1 to [`TableOptions::REPLICAS_MAX`].
    pub replicas: u8,
    /// What outlives the processes.
    pub durability: Durability,
}

impl Class {
    /// The class of a table with these options.
    pub const fn of(options: &TableOptions) -> Self {
        Self { replicas: options.replicas, durability: options.durability }
    }

    /// With how many members in sync a partition of the class takes writes, once it ever had as many: one copy of what was acknowledged may be lost.
    pub const fn min_in_sync(self) -> u8 {
        if self.replicas >= 2 { 2 } else { 1 }
    }
}

/// The partitions of a class: numbers that follow one another, in the order of their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRun {
    /// The first.
    pub first: PartitionId,
    /// How many there are.
    pub count: u16,
}

impl PartitionRun {
    /// Their numbers.
    pub fn ids(self) -> impl Iterator<Item = PartitionId> {
        (0..self.count).map(move |index| PartitionId(self.first.0 + index))
    }

    /// Where in the list of all partitions they are.
    pub(super) fn positions(self) -> std::ops::Range<usize> {
        let first = usize::from(self.first.0);
        first..first + usize::from(self.count)
    }
}
