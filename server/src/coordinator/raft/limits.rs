//! The bounds on what a member can make another hold, and how they hang together.

/// The longest command, in bytes. The coordinator's are some hundred bytes long; the longest name many partitions at once. Less than a
/// message of entries, so that each fits one.
pub const COMMAND_BYTES_MAX: usize = 512 << 10;

/// Entries that one message carries, in bytes: long enough to catch up in few round trips, short enough to send beside heartbeats.
pub(super) const ENTRIES_BYTES_A_MESSAGE: u64 = 1 << 20;

/// Proposals that are not committed yet, in bytes, past which further ones are refused: a leader that lost its followers must not fill its
/// memory.
pub(super) const UNCOMMITTED_BYTES_MAX: u64 = 64 << 20;

/// Entries that are applied at a time, in bytes: a restart with a long log stays responsive.
pub(super) const COMMITTED_BYTES_A_READY: u64 = 16 << 20;

/// Messages of entries on their way to one member.
pub(super) const MESSAGES_IN_FLIGHT_MAX: usize = 64;

/// The longest snapshot of the state machine, in bytes: it is sent as one message and held in memory. A thousand nodes and all 65,536
/// partitions take some ten megabytes.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;

/// The longest message, in bytes: a snapshot and what is around it.
pub const MESSAGE_BYTES_MAX: usize = SNAPSHOT_BYTES_MAX + (1 << 20);

/// Members, learners included. Every entry goes to each of them, and beyond 7 voters Raft is slower and no safer.
pub const MEMBERS_MAX: usize = 16;

/// Terms and indices that no cluster lives to see: 2^48 elections or commands, at a thousand a second, are nine thousand years. raft-rs
/// adds to them unchecked.
pub(super) const INDEX_MAX: u64 = 1 << 48;

/// Bytes of a read's context that a member may send. Ours have 24.
pub(super) const READ_CONTEXT_BYTES_MAX: usize = 64;

/// Reads that wait on one node; further ones are refused.
pub(super) const READS_WAITING_MAX: usize = 4096;
