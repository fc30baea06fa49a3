//! Whose log it is: what keeps a disk from speaking for another node, another cluster, or a member that it no longer is.
//!
//! A member of the coordinator is known by its raft id. Ids are handed out once: a member promises by its disk (votes, entries), so a node that
//! lost its disk is not the member that it was, and must not be able to say that it is. A node therefore never chooses its id. It is told
//! one by the leader that admits it, writes it down with the cluster's id before it says a word, and is asked for a new one when
//! there is none on its disk. The number of times that the disk was opened comes with it, so that messages of an earlier life are
//! told apart.

use std::fmt;

use prost::Message;
use weft_transport::NodeId;

/// A cluster, drawn when it is founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A member of the coordinator: from 1, never used again after the member is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RaftId(pub u64);

impl fmt::Display for RaftId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.0)
    }
}

/// Who writes into a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The member that the node is for as long as it has this log.
    pub raft: RaftId,
}

/// The record of an identity, as it is stored.
#[derive(Clone, PartialEq, Message)]
struct IdentityRecord {
    #[prost(fixed64, tag = "1")]
    cluster_high: u64,
    #[prost(fixed64, tag = "2")]
    cluster_low: u64,
    #[prost(uint64, tag = "3")]
    node: u64,
    #[prost(uint64, tag = "4")]
    raft: u64,
}

impl Identity {
    /// The bytes that [`decode`](Self::decode) reads.
    pub(super) fn encode(&self) -> Vec<u8> {
        let record = IdentityRecord {
            cluster_high: (self.cluster.0 >> 64) as u64,
            cluster_low: self.cluster.0 as u64,
            node: self.node.0,
            raft: self.raft.0,
        };
        record.encode_to_vec()
    }

    /// `None` if the bytes are no identity.
    pub(super) fn decode(bytes: &[u8]) -> Option<Identity> {
        let record = IdentityRecord::decode(bytes).ok()?;
        let cluster = u128::from(record.cluster_high) << 64 | u128::from(record.cluster_low);
        let identity = Identity {
            cluster: ClusterId(cluster),
            node: NodeId(record.node),
            raft: RaftId(record.raft),
        };
        (record.raft != 0).then_some(identity)
    }
}
