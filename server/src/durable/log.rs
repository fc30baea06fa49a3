//! The log of a node for one mode: takes entries of many partitions, and says what to write, to sync and to remove.
//!
//! One thing is done at a time: [`Log::poll`] gives an [`Effect`], [`Log::done`] takes its outcome. What is appended meanwhile waits and is
//! written together afterwards, so the slower the disk, the more entries one sync is for.
//!
//! A file is made, headed, synced and named before any entry goes into it, and synced to its end before the next one is made. So a torn
//! end can only be in the newest file.

mod admission;
mod commit;
mod group;
mod room;

use std::collections::VecDeque;
use std::time::Duration;

use weft_protocol::{PartitionId, Version};
use weft_transport::Time;

use crate::limits::{
    LOG_BACKLOG_MAX, LOG_FILE_BYTES, LOG_FIRST_FILE_BYTES, LOG_SLACK_FILES, LOG_SYNC_BYTES,
    LOG_SYNC_INTERVAL,
};

use super::batch::Pending;
use super::disk::{DiskError, Effect};
use super::file_header::Identity;
use super::frame::FrameHeader;
use super::holdings::{Held, Holdings, Position};
use super::planted::Plant;
#[cfg(any(test, feature = "planted-bugs"))]
use super::planted::Planted;
use super::recovery::Recovery;

use self::commit::{Current, Doing, Round};
use self::group::Group;

pub use self::admission::{AppendError, Snapshot};

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A file of this many bytes is followed by the next; the first ones are shorter.
    pub file_bytes: u64,
    /// Bytes that may wait to be written. From half of that on there is [no room](Log::has_room).
    pub backlog_bytes: usize,
    /// In [`Mode::Disk`](super::Mode::Disk): how long an entry waits to be synced, at most.
    pub sync_interval: Duration,
    /// In [`Mode::Disk`](super::Mode::Disk): what is written is synced from this many bytes on.
    pub sync_bytes: u64,
    pub(super) plant: Plant,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            file_bytes: LOG_FILE_BYTES,
            backlog_bytes: LOG_BACKLOG_MAX,
            sync_interval: LOG_SYNC_INTERVAL,
            sync_bytes: LOG_SYNC_BYTES,
            plant: Plant::NONE,
        }
    }
}

impl Settings {
    /// After how many bytes the file of this number, of which the first has 1, is followed by the next.
    pub(super) fn bytes_of_file(&self, number: u64) -> u64 {
        let doublings = number.saturating_sub(1).min(u64::from(LOG_FILE_BYTES.ilog2()));
        self.file_bytes.min(LOG_FIRST_FILE_BYTES << doublings)
    }

    pub(super) fn plant(&self) -> Plant {
        self.plant
    }

    /// Plants a bug.
    #[cfg(any(test, feature = "planted-bugs"))]
    #[must_use]
    pub fn planted(self, bug: Planted) -> Settings {
        Settings { plant: Plant::new(bug), ..self }
    }
}

/// What became so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The log takes entries.
    Opened,
    /// Entries of a partition up to this one survive a crash.
    Durable {
        /// The partition.
        partition: PartitionId,
        /// Its last entry that does.
        version: Version,
    },
    /// So does that it takes nothing of a lower epoch.
    Fenced {
        /// The partition.
        partition: PartitionId,
        /// The epoch.
        epoch: u32,
    },
    /// So does that it begins anew: what became durable of it before is void.
    BegunAnew {
        /// The partition.
        partition: PartitionId,
    },
    /// So does a whole snapshot: what was before it is not needed any more.
    SnapshotDurable {
        /// The partition.
        partition: PartitionId,
    },
    /// The disk is full: what was appended waits, and nothing is lost. To be tried again until there is room.
    Full,
    /// There was room again.
    Resumed,
    /// There is room for what was refused for want of it.
    MadeRoom,
    /// The log is closed; another process finds it complete.
    Closed,
    /// A write or sync failed. Nothing that is not durable yet ever will be.
    Poisoned {
        /// What failed.
        error: DiskError,
    },
}

/// A write or a sync failed, and with it the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log failed and takes nothing any more; check the disk and restart the node: {error}")]
pub struct Poisoned {
    /// What failed first.
    pub error: DiskError,
}

/// What a log is up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It makes the file that entries go to, and takes none yet.
    Opening,
    /// It takes entries.
    Open,
    /// It waits for room on the disk to make the next file.
    Full,
    /// It writes what it has and takes no more.
    Closing,
    /// It is closed.
    Closed,
    /// Something failed, for good.
    Poisoned(Poisoned),
}

impl State {
    /// Whether nothing will ever be written any more.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Closed | Self::Poisoned(_))
    }
}

/// The log. See the [module](super).
#[derive(Debug)]
pub struct Log {
    identity: Identity,
    settings: Settings,
    state: State,
    doing: Option<Doing>,
    round: Round,
    group: Group,
    /// The file that is written to.
    current: Option<Current>,
    /// The newest file's number.
    newest: u64,
    /// The newest file before `current` that has frames, and where they end.
    previous: (u64, u64),
    /// Files before the one that is written to, oldest first, with their bytes.
    older: VecDeque<(u64, u64)>,
    pending: Pending,
    /// What the log was given, what of it is in files, and what of that survives a crash.
    given: Holdings,
    written: Holdings,
    durable: Holdings,
    /// Frames that are written and not synced.
    unsynced: Vec<(FrameHeader, Position)>,
    /// Ends of snapshots that are not synced.
    ends_waiting: usize,
    /// When the first of what is not synced yet was given.
    waiting_since: Option<Time>,
    /// The longest frame that was refused for want of room in the file; 0 if there is none.
    refused_bytes: u64,
    /// The longest frame that was to be made, and was not for want of room; 0 if there is none.
    asked_bytes: u64,
    /// Bytes of frames that are about to be appended, and for which room is kept.
    promised_bytes: u64,
    /// The file before the one that is written to, if room is kept for it that it does not need any more.
    untrimmed: Option<u64>,
    /// When a file is to be tried to be made again.
    retry_at: Time,
    is_closing: bool,
    events: VecDeque<Event>,
}

impl Log {
    /// Goes on from what [`recover`](super::recover) found, in a new file: what is there is not touched.
    pub fn new(settings: Settings, recovery: &Recovery) -> Log {
        let mut given = recovery.holdings().clone();
        given.end_life();
        let (written, durable) = (given.clone(), given.clone());
        Log {
            identity: recovery.identity(),
            settings,
            state: State::Opening,
            doing: None,
            round: Round::default(),
            group: Group::default(),
            current: None,
            newest: recovery.newest(),
            previous: recovery.previous(),
            older: recovery.files().collect(),
            pending: Pending::default(),
            given,
            written,
            durable,
            unsynced: Vec::new(),
            ends_waiting: 0,
            waiting_since: None,
            refused_bytes: 0,
            asked_bytes: 0,
            promised_bytes: 0,
            untrimmed: None,
            retry_at: Time::ZERO,
            is_closing: false,
            events: VecDeque::new(),
        }
    }

    /// Whose log it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// What it is up to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether entries can be appended without filling the memory for what waits. Who is told that there is no room is to take no writes
    /// for a while.
    pub fn has_room(&self) -> bool {
        matches!(self.state, State::Open) && self.pending.bytes() < self.settings.backlog_bytes / 2
    }

    /// Bytes that wait to be written.
    pub fn backlog_bytes(&self) -> usize {
        self.pending.bytes()
    }

    /// The last entry of a partition that survives a crash; `None` if the log does not have it.
    pub fn durable(&self, partition: PartitionId) -> Option<Version> {
        self.durable.get(partition).map(|held| held.last)
    }

    /// Since when the first of what is not synced yet waits.
    pub(super) fn waiting_since(&self) -> Option<Time> {
        self.waiting_since
    }

    /// Bytes in all files.
    pub fn bytes(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |current| current.len);
        self.older.iter().map(|(_, bytes)| bytes).sum::<u64>() + current
    }

    /// Which partition is to be written anew, if any: that whose frames begin in the oldest file, as soon as the log is longer than twice what is
    /// live in it, `live_bytes` for all of its partitions, and [`LOG_SLACK_FILES`] files. One at a time: so a log never
    /// has more than that, one partition, and what is written while that is walked.
    pub fn snapshot_wanted(&self, live_bytes: u64) -> Option<PartitionId> {
        let bytes_max = 2 * live_bytes + LOG_SLACK_FILES * self.settings.file_bytes;
        let is_own = |held: &Held| held.begun.is_some() && held.broken.is_none();
        let is_busy = self.ends_waiting > 0 || self.given.iter().any(|(_, held)| is_own(held));
        if !matches!(self.state, State::Open) || is_busy || self.bytes() <= bytes_max {
            return None;
        }
        let current = self.current.as_ref()?.number;
        let (oldest, held) = self.durable.iter().min_by_key(|(_, held)| held.base)?;
        let is_whole = self.given.get(oldest).is_some_and(|held| held.broken.is_none());
        // What is broken in the oldest file has to begin anew or be forgotten first: writing another partition would free nothing.
        (is_whole && held.broken.is_none() && held.base.file < current).then_some(oldest)
    }

    /// Takes no more, writes what it has, and marks the log as complete.
    pub fn close(&mut self) {
        self.is_closing = true;
        if matches!(self.state, State::Open | State::Full) {
            self.state = State::Closing;
        }
    }

    /// What became so since this was called last, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next thing to be done, if any; the one before has to be [`done`](Self::done).
    pub fn poll(&mut self, now: Time) -> Option<Effect> {
        if self.doing.is_some() || self.state.is_final() {
            return None;
        }
        let (doing, effect) = self.next_effect(now)?;
        if let Effect::Sync { .. } = effect {
            self.group.begin_sync(now);
        }
        self.doing = Some(doing);
        Some(effect)
    }

    /// When [`poll`](Self::poll) may have something that it has not now, though nothing is appended.
    pub fn next_at(&self) -> Option<Time> {
        if self.doing.is_some() || self.state.is_final() {
            return None;
        }
        let due_at = self.waiting_since.map(|since| self.due_at(since));
        if !self.wants_file() {
            return due_at;
        }
        // Of a file that is made for want of room in the one before, that has some for what waits.
        let due_at = due_at.filter(|_| self.keeps_ahead() && self.current.is_some());
        Some(due_at.map_or(self.retry_at, |due_at| due_at.min(self.retry_at)))
    }

    /// Takes the outcome of an effect.
    pub fn done(&mut self, effect: Effect, outcome: Result<(), DiskError>, now: Time) {
        let Some(doing) = self.doing.take() else { return };
        match outcome {
            Ok(()) => self.succeeded(doing, now),
            Err(error) => self.failed(&doing, error, now),
        }
        if let Effect::Write { bytes, .. } = effect {
            self.pending.recycle(bytes);
        }
    }
}
