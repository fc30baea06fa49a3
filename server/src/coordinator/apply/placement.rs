//! Partitions that begin empty: those of a new class, and those whose loss was accepted.

use weft_protocol::{Configuration, Member, PartitionId, Slot, TableClass};

use crate::coordinator::class::PartitionRun;
use crate::coordinator::command::{Applied, Outcome};
use crate::coordinator::partition::{Partition, are_distinct};
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;

impl ClusterState {
    pub(super) fn place(&mut self, class: TableClass, partitions: &[Vec<Member>]) -> Applied {
        if self.classes.get(&class) != Some(&None) {
            return Err(Rejection::ClassPlaced);
        }
        let count = self.partitions_per_class;
        if partitions.len() != usize::from(count) {
            return Err(Rejection::PartitionCount { count: partitions.len() });
        }
        for members in partitions {
            self.check_holders(class, members)?;
        }
        let min_in_sync = Self::min_in_sync_possible(class, self.holder_count_of(class.durability));
        let version = self.next_version();
        // There are at most as many classes as have room: see `limits`.
        let first = PartitionId(self.partitions.len() as u16);
        for (index, members) in (0..count).zip(partitions) {
            let (first_slot, last_slot) = slots(index, count);
            let configuration = Configuration {
                epoch: 1,
                primary: members.first().copied(),
                members: members.clone(),
                learners: Vec::new(),
                min_in_sync,
                is_lost: false,
            };
            let (changed_at, primary_since) = (version, version);
            let partition = Partition {
                class,
                first_slot,
                last_slot,
                configuration,
                born_in: 1,
                changed_at,
                primary_since,
            };
            self.partitions.push(partition);
        }
        self.classes.insert(class, Some(PartitionRun { first, count }));
        Ok(Outcome::Done)
    }

    pub(super) fn accept_loss(
        &mut self,
        id: PartitionId,
        expected_epoch: u32,
        members: &[Member],
    ) -> Applied {
        let partition = self.existing(id)?;
        let mut next = partition.next_after(expected_epoch)?;
        if !next.is_lost {
            return Err(Rejection::NotLost);
        }
        let class = partition.class;
        self.check_holders(class, members)?;
        next.is_lost = false;
        next.primary = members.first().copied();
        next.members = members.to_vec();
        let holders = self.holder_count_of(class.durability);
        next.min_in_sync = Self::min_in_sync_possible(class, holders);
        let born_in = next.epoch;
        let outcome = self.install(id, next);
        self.partitions[usize::from(id.0)].born_in = born_in;
        Ok(outcome)
    }

    /// Whether `members` can be given an empty partition.
    fn check_holders(&self, class: TableClass, members: &[Member]) -> Result<(), Rejection> {
        if members.is_empty() || members.len() > usize::from(class.replicas) {
            return Err(Rejection::ReplicaCount);
        }
        if !are_distinct(members) {
            return Err(Rejection::Twice);
        }
        for &member in members {
            let node = self.current(member)?;
            if !node.is_up || !node.is_holder() {
                return Err(Rejection::NotAHolder { node: node.id });
            }
        }
        Ok(())
    }
}

/// The first and the last slot of one of `count` partitions, whose sizes differ by one slot at most.
fn slots(index: u16, count: u16) -> (Slot, Slot) {
    let begin = |index: u16| {
        let number = u32::from(index) * u32::from(Slot::COUNT) / u32::from(count);
        number as u16
    };
    let slot = |number| Slot::from_number(number).expect("partitions end at the last slot");
    (slot(begin(index)), slot(begin(index + 1) - 1))
}
