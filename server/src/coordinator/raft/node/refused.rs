//! What a member does not do, and why.

use weft_transport::NodeId;

use crate::coordinator::raft::identity::RaftId;
use crate::coordinator::raft::log::LogError;
use crate::coordinator::raft::state_machine::RestoreError;

/// Why a member takes no part any more, until it is started again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Its disk failed.
    #[error(transparent)]
    Disk(#[from] LogError),
    /// It was given a snapshot that it cannot read.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// raft-rs found its state impossible.
    #[error("start a member of the coordinator: {0}")]
    Impossible(String),
}

/// Why nothing was proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Another member leads, or none.
    #[error("this member does not lead the coordinator{}", node.map_or(String::new(), |node| format!("; node {} does", node.0)))]
    NotLeader {
        /// Who does.
        leader: Option<RaftId>,
        /// On which node.
        node: Option<NodeId>,
    },
    /// Too much waits to be committed or written, or leadership is being handed over: try again.
    #[error("too much waits to be committed, or leadership is being handed over; try again")]
    Busy,
    /// The command is longer than an entry may be.
    #[error("propose a command of {len} bytes: the limit is {limit}")]
    TooLong {
        /// Its length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// A change of members is under way: one at a time.
    #[error("another change of the coordinator's members is under way; try again")]
    ChangeUnderWay,
    /// With the members that live, the change would leave no majority.
    #[error(
        "change the coordinator's members: {living} of {voters} voters would live, which is no majority; bring the others back first"
    )]
    NoMajority {
        /// Voters after the change that were heard lately.
        living: usize,
        /// Voters after the change.
        voters: usize,
    },
    /// A learner has to have the log before it becomes a voter.
    #[error("make {member} a voter: it lacks {missing} entries; try again")]
    Behind {
        /// The learner.
        member: RaftId,
        /// Entries that it lacks.
        missing: u64,
    },
    /// There is no such member.
    #[error("{0} is no member of the coordinator")]
    NoMember(RaftId),
    /// Only voters can.
    #[error("{0} is no voter of the coordinator")]
    NoVoter(RaftId),
    /// A leader removes others only.
    #[error("this member leads: hand leadership over before it is removed")]
    Leads,
    /// There are as many members as there can be.
    #[error("the coordinator has {0} members, and no more are taken")]
    Full(usize),
    /// This member takes no part any more.
    #[error(transparent)]
    Failed(Failure),
}
