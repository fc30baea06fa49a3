//! What the cluster agrees about, and what its leader does about it: without a socket or a clock.
//!
//! - [`ClusterState`] is what all coordinators hold alike. Committed [`Proposal`]s are applied to it one after another, and nothing else changes
//!   it: no time, no chance, no order of a hash table. [`codec`] is what proposals and snapshots are as bytes.
//! - [`Planner`] is what the leader alone has: from the state, what it [hears](Liveness) and the time it makes the commands that it should
//!   propose. It may be wrong or come late, since every command of its says what it goes by and is refused if that is not so any more.
//! - [`raft`] is the order of proposals, on every coordinator's disk.
//!
//! The algorithm is primary and backups with a configuration that is committed elsewhere (PacificA, Vertical Paxos II): a partition's members all have
//! what was acknowledged, so that any of them may become its primary, and losing what was acknowledged takes losing all of them.

mod apply;
mod ask;
mod changes;
mod class;
pub mod codec;
mod command;
mod denial;
mod history;
mod liveness;
mod node;
mod notice;
mod partition;
mod planner;
mod proposals;
pub mod raft;
mod rejection;
mod seat;
mod state;
#[cfg(test)]
mod tests;
mod timing;
mod worker;

pub use ask::{Answer, Ask, Denial, DenialKind, Introduction, Leader};
pub use changes::Changes;
pub(crate) use changes::cluster_map_of;
pub use class::PartitionRun;
pub use command::{
    Applied, ClientId, ClusterId, Command, Found, Join, Outcome, Proposal, ProposalId,
};
pub use liveness::Liveness;
pub use node::{Node, NodeDescription, Standing};
pub use notice::{Heartbeat, Notice, Update};
pub use partition::Partition;
pub use planner::{Plan, Planner, PlannerSettings};
pub use rejection::Rejection;
pub use seat::{
    Coordinator, CoordinatorSettings, Ended, ImmediateWriter, LogWriter, SeatEffects, SeatFailure,
    ThreadWriter, founding_state, serve,
};
pub use state::ClusterState;
pub use timing::{Timing, TimingError};
pub use worker::{Worker, WorkerDescription, WorkerId};
