//! What the cluster knows of a partition.

use weft_protocol::{Configuration, Member, Slot, TableClass};
use weft_transport::NodeId;

use super::rejection::Rejection;

/// A run of slots of a class, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Of which tables.
    pub class: TableClass,
    /// Its first slot.
    pub first_slot: Slot,
    /// Its last slot, which belongs to it too.
    pub last_slot: Slot,
    /// Who holds it.
    pub configuration: Configuration,
    /// The epoch in which it began empty: the first, or that in which its loss was accepted. What a node has of it from an epoch below is no part of
    /// it.
    pub born_in: u32,
    /// The version in which it was last changed.
    pub(super) changed_at: u64,
    /// That in which it got its present primary, or came to have none.
    pub(super) primary_since: u64,
}

impl Partition {
    /// The epoch after the present one.
    pub(super) fn next_epoch(&self) -> Result<u32, Rejection> {
        match self.configuration.epoch {
            Configuration::EPOCH_MAX => Err(Rejection::EpochsExhausted),
            epoch => Ok(epoch + 1),
        }
    }

    /// The present configuration in the next epoch, if `expected` is the present one: what a change begins with.
    pub(super) fn next_after(&self, expected: u32) -> Result<Configuration, Rejection> {
        if self.configuration.epoch != expected {
            return Err(Rejection::EpochMismatch { current: self.configuration.epoch });
        }
        Ok(Configuration { epoch: self.next_epoch()?, ..self.configuration.clone() })
    }

    /// Whether the node has to do with it, in whatever life.
    pub fn involves(&self, node: NodeId) -> bool {
        let Configuration { members, learners, .. } = &self.configuration;
        members.iter().chain(learners).any(|member| member.node == node)
    }
}

/// Whether no node is in `members` twice.
pub(super) fn are_distinct(members: &[Member]) -> bool {
    let is_first = |(index, member): (usize, &Member)| {
        members[..index].iter().all(|other| other.node != member.node)
    };
    members.iter().enumerate().all(is_first)
}
