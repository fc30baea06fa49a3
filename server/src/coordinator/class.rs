//! Which partitions a class of tables has.

use weft_protocol::PartitionId;

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
