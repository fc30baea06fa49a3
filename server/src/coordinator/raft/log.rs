//! What a member must not forget, and where it is kept.
//!
//! A log is a set of records under keys, and a [`Batch`] changes some of them together or none. It holds
//!
//! | record | what | changed by |
//! |---|---|---|
//! | format, identity | whose log it is | making it |
//! | life | how often it was opened | opening it |
//! | hard state | term, vote, commit index | elections, commits |
//! | snapshot | the applied index, its term, the members as of it, the state | the leader's snapshot, or our own |
//! | start | index and term of the entry before the first that is kept | compaction |
//! | entries | the log | appends |
//!
//! That the applied index, the members and the state are one record is what makes them agree after a crash: what was applied since is applied again.
//! Everything is read once, when a node starts; a running node reads only memory, so that raft-rs, which panics where its storage
//! fails, never meets a storage that does.

mod extent;
mod memory;
mod record;
mod recovery;
mod rocks;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it damages files, as disks do")]
mod conformance;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it damages files, as disks do")]
mod damage;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "it looks at the files")]
mod full;

use std::ops::Range;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot, SnapshotMetadata};
use weft_transport::NodeId;

pub use self::memory::{Fault, MemoryLog};
pub use self::recovery::Recovered;
pub use self::rocks::{RocksLog, StoredLog};
use super::identity::{ClusterId, Identity, RaftId};
use super::roster::{Roster, StateRecord};

/// A disk for one member's log.
///
/// Once a write has failed, what is on the disk is unknown: a log refuses everything from then on (the system may have thrown away what it
/// could not write, and would call the next sync a success), and only opening it anew tells what it holds.
pub trait RaftLog {
    /// Reads everything, and checks that it hangs together.
    ///
    /// # Errors
    /// [`LogError::Missing`] if there is no log; another [`LogError`] if there is one that cannot be used. Nothing is changed.
    fn recover(&mut self) -> Result<Recovered, LogError>;

    /// Makes the changes of a batch, all or none. If the batch [must be synced](Batch::must_sync), it and all before it survive a loss
    /// of power once this has returned; else they survive the end of the process only.
    ///
    /// # Errors
    /// [`LogError::Write`]; after one, always [`LogError::Poisoned`].
    fn write(&mut self, batch: &Batch) -> Result<(), LogError>;
}

impl<L: RaftLog + ?Sized> RaftLog for Box<L> {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        (**self).recover()
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        (**self).write(batch)
    }
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The entry's index; 0 is before the first.
    pub index: u64,
    /// The term in which it was proposed.
    pub term: u64,
}

/// Changes that become durable together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Only when a log is made.
    pub identity: Option<Identity>,
    /// How often the log was opened.
    pub life: Option<u64>,
    /// Term, vote and commit index.
    pub hard_state: Option<HardState>,
    /// State, applied index and members as of it.
    pub snapshot: Option<Snapshot>,
    /// The entry before the first that is kept.
    pub start: Option<Position>,
    /// Indices of entries that go, before `entries` are put.
    pub removed: Vec<Range<u64>>,
    /// Entries that come.
    pub entries: Vec<Entry>,
    /// Whether the disk is waited for.
    pub must_sync: bool,
}

/// Why a log cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is none.
    #[error("no raft log in {place}")]
    Missing {
        /// The folder.
        place: String,
    },
    /// A log was to be made where one is.
    #[error(
        "make a raft log in {place}: there is one already; nothing was changed; start without founding or joining, or choose another folder"
    )]
    Occupied {
        /// The folder.
        place: String,
    },
    /// Another process has it.
    #[error(
        "open the raft log in {place}: another process has it open ({detail}); stop that one first"
    )]
    InUse {
        /// The folder.
        place: String,
        /// What the disk said.
        detail: String,
    },
    /// The disk cannot be read, or has no room for what is made when a log is opened.
    #[error("open the raft log in {place}: {detail}{}", if *.is_full { "; nothing was lost: free space, then start the node again" } else { "" })]
    Open {
        /// The folder.
        place: String,
        /// What the disk said.
        detail: String,
        /// Whether there was no room.
        is_full: bool,
    },
    /// It was written by another node.
    #[error(
        "the raft log in {place} belongs to node {found}, and this is node {expected}; nothing was changed; give this node its own folder"
    )]
    OtherNode {
        /// The folder.
        place: String,
        /// Whose it is.
        found: u64,
        /// Who asks.
        expected: u64,
    },
    /// It was written in another cluster.
    #[error(
        "the raft log in {place} belongs to cluster {found}, not to {expected}; nothing was changed; give each cluster its own folder"
    )]
    OtherCluster {
        /// The folder.
        place: String,
        /// Whose it is.
        found: ClusterId,
        /// Who asks.
        expected: ClusterId,
    },
    /// It is of a version that this program does not know.
    #[error(
        "the raft log in {place} has format {found}, and this program reads {supported}; nothing was changed; use the version of the program that wrote it"
    )]
    Format {
        /// The folder.
        place: String,
        /// The format of the log.
        found: u32,
        /// The format of this program.
        supported: u32,
    },
    /// What is there was not written like that.
    #[error(
        "the raft log in {place} is damaged: {detail}; nothing was changed; the other coordinators have all that it had, and do without this one: keep the \
         folder for those who look into it, move it away, and start the node with --join, which makes it a new member; if this node is the only coordinator, \
         keep the folder where it is: there is no other copy"
    )]
    Corrupt {
        /// The folder.
        place: String,
        /// Which record or file, and what is wrong with it.
        detail: String,
    },
    /// The disk did not take a batch.
    #[error("write the raft log in {place}: {detail}{}", if *.is_full { "; free space, then start the node again" } else { "; the node takes no part until it is started again" })]
    Write {
        /// The folder.
        place: String,
        /// What the disk said.
        detail: String,
        /// Whether there was no room.
        is_full: bool,
    },
    /// A write has failed before.
    #[error(
        "the raft log in {place} is not written any more since a write failed; start the node again"
    )]
    Poisoned {
        /// The folder.
        place: String,
    },
}

impl LogError {
    /// A log cannot be opened, because of what the disk said.
    fn opening(place: String, detail: String) -> LogError {
        let is_full = says_full(&detail);
        LogError::Open { place, detail, is_full }
    }
}

/// Whether the disk has said that it has no room: RocksDB passes it on in words only.
fn says_full(detail: &str) -> bool {
    detail.contains("No space left") || detail.contains("quota exceeded")
}

impl Batch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        let Batch { identity, life, hard_state, snapshot, start, removed, entries, must_sync: _ } =
            self;
        identity.is_none()
            && life.is_none()
            && hard_state.is_none()
            && snapshot.is_none()
            && start.is_none()
            && removed.is_empty()
            && entries.is_empty()
    }

    /// The log of a member that founds a cluster, with the same members and the same state for each of them. The state is a snapshot at index 1,
    /// so that whoever joins later gets the members with it: no entry of the log says who founded.
    ///
    /// Only for the very first start of all of `members`: a founder that lost its disk is to join.
    pub fn founding(identity: Identity, members: &[(RaftId, NodeId)], state: Vec<u8>) -> Batch {
        let voters = members.iter().map(|(raft_id, _)| raft_id.0).collect();
        let conf_state = Some(ConfState { voters, ..ConfState::default() });
        let data = StateRecord::encode(&Roster::founding(members), state);
        let snapshot =
            Snapshot { data, metadata: Some(SnapshotMetadata { conf_state, index: 1, term: 1 }) };
        Batch {
            identity: Some(identity),
            life: Some(0),
            hard_state: Some(hard_state(1, 1)),
            snapshot: Some(snapshot),
            start: Some(Position { index: 1, term: 1 }),
            must_sync: true,
            ..Batch::default()
        }
    }

    /// The log of a member that the leader has just admitted as a learner under `identity.raft`: empty, so that it gets a snapshot first.
    pub fn joining(identity: Identity) -> Batch {
        Batch {
            identity: Some(identity),
            life: Some(0),
            // Not term 0: raft-rs panics when it has to refuse a vote in that.
            hard_state: Some(hard_state(1, 0)),
            must_sync: true,
            ..Batch::default()
        }
    }
}

fn hard_state(term: u64, commit: u64) -> HardState {
    HardState { term, vote: raft::INVALID_ID, commit }
}

/// Opens a member's log for another life: checks whose it is, and writes down that the life began before anything is said in it.
///
/// # Errors
/// What [`RaftLog::recover`], [`Recovered::check_owner`] and [`RaftLog::write`] have.
pub fn begin_life(
    log: &mut dyn RaftLog,
    node: NodeId,
    cluster: Option<ClusterId>,
) -> Result<Recovered, LogError> {
    let mut recovered = log.recover()?;
    recovered.check_owner(node, cluster)?;
    recovered.life += 1;
    log.write(&Batch { life: Some(recovered.life), must_sync: true, ..Batch::default() })?;
    Ok(recovered)
}
