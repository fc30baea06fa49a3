//! A table by the number of a partition.
//!
//! The log looks up several things for every entry that it is given, under a lock that all reactors share; there they count. Numbers are given out from 0, class
//! by class, so the table is hardly longer than what is in it, and never longer than the 65,536 that there can be.

use weft_protocol::PartitionId;

/// Something of each of some partitions, in the order of their numbers.
#[derive(Debug, Clone)]
pub(super) struct ByPartition<T> {
    slots: Vec<Option<T>>,
}

impl<T> Default for ByPartition<T> {
    fn default() -> ByPartition<T> {
        ByPartition { slots: Vec::new() }
    }
}

impl<T> ByPartition<T> {
    #[inline]
    pub(super) fn get(&self, partition: PartitionId) -> Option<&T> {
        self.slots.get(usize::from(partition.0))?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, partition: PartitionId) -> Option<&mut T> {
        self.slots.get_mut(usize::from(partition.0))?.as_mut()
    }

    /// The slot of a partition, whether there is something in it or not.
    pub(super) fn slot(&mut self, partition: PartitionId) -> &mut Option<T> {
        let index = usize::from(partition.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        &mut self.slots[index]
    }

    pub(super) fn remove(&mut self, partition: PartitionId) -> Option<T> {
        self.slots.get_mut(usize::from(partition.0))?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PartitionId, &T)> {
        let numbered = (0..=u16::MAX).map(PartitionId).zip(&self.slots);
        numbered.filter_map(|(partition, slot)| Some((partition, slot.as_ref()?)))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Keeps those of which `is_kept` says so.
    pub(super) fn retain(&mut self, is_kept: impl Fn(PartitionId) -> bool) {
        for (partition, slot) in (0..=u16::MAX).map(PartitionId).zip(&mut self.slots) {
            if !is_kept(partition) {
                *slot = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_comes_in_the_order_of_numbers_up_to_the_last_there_can_be() {
        let mut table = ByPartition::default();
        for number in [u16::MAX, 3, 0, 700] {
            *table.slot(PartitionId(number)) = Some(number);
        }
        assert_eq!(table.remove(PartitionId(700)), Some(700));
        assert_eq!(table.remove(PartitionId(701)), None);
        let numbers: Vec<_> =
            table.iter().map(|(partition, value)| (partition.0, *value)).collect();
        assert_eq!(numbers, [(0, 0), (3, 3), (u16::MAX, u16::MAX)]);
        table.retain(|partition| partition.0 != 3);
        assert_eq!((table.get(PartitionId(3)), table.get(PartitionId(0))), (None, Some(&0)));
        assert_eq!(ByPartition::<u16>::default().get(PartitionId(9)), None);
    }
}
