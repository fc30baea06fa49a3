//! Who holds a partition: what only the coordinator decides, and every replica goes by.

use std::fmt;

use weft_transport::{Incarnation, NodeId};

use crate::version::Version;

/// A partition's number, one of its own in the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}", self.0)
    }
}

/// A node in one of its lives. One that was started anew and has lost what it held is another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
}

/// The configuration of a partition, as of an epoch. It exists as a committed entry of the coordinator and nowhere else (PacificA; Vertical
/// Paxos): replicas propose, and go by what was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Every change raises it by 1. From 1 to [`Version::EPOCH_MAX`].
    pub epoch: u32,
    /// Who orders writes: one of the members. Nobody while all of them are down, or when the partition is lost.
    pub primary: Option<Member>,
    /// Whose acknowledgement every write needs; each has all that was ever acknowledged.
    pub members: Vec<Member>,
    /// Who is being given what there is, to become a member.
    pub learners: Vec<Member>,
    /// With fewer members, writes are refused.
    pub min_in_sync: u8,
    /// Whether all that it held is gone, and an operator has not accepted that yet.
    pub is_lost: bool,
}

impl Configuration {
    /// The largest epoch that versions have room for.
    pub const EPOCH_MAX: u32 = Version::EPOCH_MAX;

    /// Whether `member` is in sync.
    pub fn has_member(&self, member: Member) -> bool {
        self.members.contains(&member)
    }

    /// Whether there are as many members as writes need.
    pub fn takes_writes(&self) -> bool {
        self.primary.is_some() && self.members.len() >= usize::from(self.min_in_sync)
    }
}
