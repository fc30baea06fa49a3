//! What a node keeps of its partitions on disk: a log of frames in append-only files, one log for each
//! [`Mode`] that it has partitions of.
//!
//! **One log for many partitions.** A disk makes a few hundred to a few thousand syncs a second, however little each of
//! them writes. With a file for each partition, a moment in which sixty partitions have something to acknowledge
//! takes sixty syncs; in one file, whose frames say which partition they are of, it takes one. The price is that
//! a file goes only when no partition needs it any more, so partitions are written anew in turn (see [`Log::snapshot_wanted`]).
//!
//! From the outside in:
//!
//! - [`Journal`] is a log as those see it who append to it; [`CommitThread`], the shell: the thread that does for it on a disk what it asks.
//! - [`Log`] is the core, without I/O and clock: it takes entries, says what to write and sync ([`Effect`]), and is told
//!   when that is done. What was synced it tells by [`Event`]s. So "acknowledged before synced" can be seen in simulation.
//! - [`recover`] reads all files and says of each partition how complete it is; [`Recovery::replay`] gives its entries.
//! - [`Disk`] is what files can do: [`Directory`] has the system's, the simulator its own.
//!
//! `docs/storage-format.md` draws the files, `docs/durability.md` says what is promised.
//!
//! Group commit is from DeWitt et al., "Implementation techniques for main memory database systems" (SIGMOD 1984); how a torn
//! end is told from damage is after Alagappan et al., "Protocol-aware recovery for consensus-based storage" (FAST 2018);
//! that a failed sync is final, after Rebello et al., "Can applications recover from fsync failures?" (ATC 2020).

mod appending;
mod batch;
mod by_partition;
mod commit_thread;
mod completeness;
mod directory;
mod disk;
mod file_header;
mod frame;
mod holdings;
mod journal;
mod log;
mod planted;
mod recovery;
mod replay;
mod roster;
mod scan;
mod sealing;

pub use commit_thread::{CloseError, CommitThread};
pub use completeness::{Completeness, Incomplete};
pub use directory::{Directory, DirectoryError};
pub use disk::{Disk, DiskError, Effect, perform};
pub use file_header::{Identity, Mode};
pub use frame::{FrameHeader, FrameKind};
pub use journal::Journal;
pub use log::{AppendError, Event, Log, Poisoned, Settings, Snapshot, State};
pub use planted::Planted;
pub use recovery::{OpenError, PartitionFound, Recovery, recover};
pub use replay::{ReplayError, Replayed};
pub use scan::read_file;
pub use sealing::Bytes;

#[cfg(test)]
mod figures;
#[cfg(test)]
mod on_files;
#[cfg(test)]
mod under_watch;
