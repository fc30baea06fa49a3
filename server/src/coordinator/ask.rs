//! What a coordinator can be asked, and what it answers.

use thiserror::Error;
use weft_protocol::control::v1::{ListTablesResponse, ListWorkersResponse, StatusResponse};
use weft_transport::NodeId;

use super::command::{ClusterId, Outcome, Proposal, ProposalId};
use super::raft::RaftId;

/// A question to a coordinator. Whoever does not lead names who does; nobody passes a question on but a node that was asked by an operator or a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Who is there. Every node answers, whether it has a coordinator or not, and before it is of any cluster.
    Introduce,
    /// Something is to be changed. Asked again under the same id, it is done once. What only a leader may propose is refused.
    Propose(Proposal),
    /// A node without a log of the coordinator's asks to be one of its members.
    Admit {
        /// The same in every attempt.
        id: ProposalId,
        /// The node.
        node: NodeId,
    },
    /// How the cluster is.
    Status,
    /// Which tables there are.
    Tables,
    /// Which workers are registered.
    Workers,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To [`Ask::Introduce`].
    Introduced(Introduction),
    /// What came of a proposal.
    Decided(Result<Outcome, Denial>),
    /// The node is a member, once it has written down which.
    Admitted {
        /// The cluster.
        cluster: ClusterId,
        /// The member.
        raft: RaftId,
    },
    /// To [`Ask::Status`].
    Status(Box<StatusResponse>),
    /// To [`Ask::Tables`].
    Tables(Box<ListTablesResponse>),
    /// To [`Ask::Workers`].
    Workers(Box<ListWorkersResponse>),
    /// Another leads, or nobody does as far as is known here.
    NotLeader {
        /// Where to ask.
        leader: Option<Leader>,
    },
    /// Whether something was done is not known here; to be asked again, under the same id.
    Unavailable,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The node.
    pub node: NodeId,
    /// Where it takes requests; empty if that is not known.
    pub data_address: String,
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Its id.
    pub node: NodeId,
    /// Drawn when the process started: two nodes that were given the same id have different ones, and a node knows itself by it.
    pub nonce: u64,
    /// The cluster that it is of, once it is.
    pub cluster: Option<ClusterId>,
    /// Whether it may be a coordinator.
    pub may_coordinate: bool,
    /// Who leads, if it knows.
    pub leader: Option<Leader>,
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Denial {
    /// Of which kind the reason is.
    pub kind: DenialKind,
    /// The reason, for people.
    pub message: String,
}

/// What whoever asked can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    /// Ask again later: it will be otherwise.
    NotYet,
    /// What it is about does not exist.
    NotFound,
    /// What is to be made exists.
    AlreadyExists,
    /// As things are, it cannot be done.
    Precondition,
    /// It can never be done.
    Invalid,
    /// Somebody else changed the same: look, and ask again.
    Conflict,
    /// There are as many as there can be.
    Exhausted,
}
