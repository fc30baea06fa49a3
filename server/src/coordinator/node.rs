//! What the cluster knows of a node.

use std::fmt;

use weft_protocol::limits::ADDRESS_MAX;
use weft_protocol::{Durability, Member};
use weft_transport::{Incarnation, NodeId};

use super::rejection::Rejection;
use crate::limits::ZONE_MAX;

/// What a node says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDescription {
    /// Where it takes requests: `host:port`, at most [`ADDRESS_MAX`] bytes.
    pub data_address: String,
    /// Where it takes calls of operators and coordinators: as long.
    pub control_address: String,
    /// What fails together with it, such as a rack; nodes without a name for that are of one zone.
    pub zone: String,
    /// Bytes that it can hold. A node of 0 holds no partitions.
    pub capacity_bytes: u64,
    /// Whether it can be a coordinator.
    pub is_coordinator: bool,
    /// It has no data directory, so that it holds no partitions of `disk` and `fsync`.
    pub is_diskless: bool,
}

impl NodeDescription {
    /// Whether the node has what tables of this kind are kept on.
    pub(super) fn keeps(&self, durability: Durability) -> bool {
        durability == Durability::Memory || !self.is_diskless
    }

    pub(super) fn check(&self) -> Result<(), Rejection> {
        let is_address = |address: &str| (1..=ADDRESS_MAX).contains(&address.len());
        if !is_address(&self.data_address) || !is_address(&self.control_address) {
            return Err(Rejection::AddressLength);
        }
        if self.zone.len() > ZONE_MAX { Err(Rejection::ZoneLength) } else { Ok(()) }
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// In which life it is.
    pub incarnation: Incarnation,
    /// What it says of itself.
    pub description: NodeDescription,
    /// The newest version of the messages between nodes that it speaks.
    pub wire_version: u16,
    /// Whether the leader hears it.
    pub is_up: bool,
    /// Whether it is to be relieved of what it holds, and forgotten then.
    pub is_leaving: bool,
    /// Whether all leases have run out that an earlier life of it may have granted. Before, it may not become anybody's primary: it has
    /// forgotten whom it promised what.
    pub is_settled: bool,
    /// The version in which it was last changed.
    pub(super) changed_at: u64,
}

impl Node {
    /// The node in its present life.
    pub const fn member(&self) -> Member {
        Member { node: self.id, incarnation: self.incarnation }
    }

    /// Whether it may be given partitions, once it is up.
    pub fn is_holder(&self) -> bool {
        self.can_hold(Durability::Memory)
    }

    /// Whether it may be given partitions of such tables, once it is up.
    pub fn can_hold(&self, durability: Durability) -> bool {
        !self.is_leaving && self.could_hold(durability)
    }

    /// The same, were it to stay.
    pub(super) fn could_hold(&self, durability: Durability) -> bool {
        self.description.capacity_bytes > 0 && self.description.keeps(durability)
    }

    /// How it stands.
    pub const fn standing(&self) -> Standing {
        match (self.is_leaving, self.is_up) {
            (true, true) => Standing::Leaving,
            (true, false) => Standing::LeavingDown,
            (false, true) => Standing::Up,
            (false, false) => Standing::Down,
        }
    }
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It is heard.
    Up,
    /// It is not heard.
    Down,
    /// It is on its way out, and heard.
    Leaving,
    /// It is on its way out, and not heard.
    LeavingDown,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Leaving => "leaving",
            Self::LeavingDown => "leaving-down",
        })
    }
}
