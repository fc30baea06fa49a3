//! The coordinator's log: one order of commands, agreed among the nodes that have the role, that outlives any minority of them.
//!
//! The algorithm is Raft (Ongaro and Ousterhout, ATC 2014) as raft-rs has it. That crate decides, and leaves all that is hard to forget
//! to its caller: what must be on disk before which message goes out, what goes into one batch, when an answer may be given. Those rules
//! are here, and docs/raft.md names the place and the test of each.
//!
//! - [`RaftNode`] is the core: it is given messages, the time, proposals, and word of finished writes; [`RaftNode::poll`] gives back what
//!   is to be sent, written and answered. It does no I/O.
//! - [`RaftLog`] is the disk: [`RocksLog`] a real one, [`MemoryLog`] one that forgets and fails when told to.
//! - [`StateMachine`] is what the commands are for.
//!
//! A shell owns one log and one node: it hands each [`Write`] to the log, in order, and says so by [`RaftNode::on_written`]. It may do that on
//! a thread of its own, so that a slow disk delays no heartbeat; messages that must wait for the disk do not leave the node before.

mod envelope;
mod identity;
mod inspection;
mod jitter;
mod limits;
mod log;
mod node;
mod planted;
mod roster;
mod state_machine;
mod view;

#[cfg(test)]
mod world;

pub use self::envelope::Dropped;
pub use self::identity::{ClusterId, Identity, RaftId};
pub use self::inspection::Unfit;
pub use self::limits::{COMMAND_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, SNAPSHOT_BYTES_MAX};
pub use self::log::{
    Batch, Fault, LogError, MemoryLog, Position, RaftLog, Recovered, RocksLog, StoredLog,
    begin_life,
};
pub use self::node::{
    Decided, Effects, Failure, Leadership, Outcome, Outgoing, RaftNode, ReadOutcome, Refused,
    Settings, Write,
};
pub use self::planted::PlantedBug;
pub use self::roster::{MemberRole, RaftMember};
pub use self::state_machine::{ProposalId, RestoreError, StateMachine};
