//! What of a partition is on its way to the node's log on disk, in the order in which it happened.
//!
//! All that a partition goes through is queued under its lock, and handed to the log before anything is told of it. What the log has
//! no room for waits here: nobody acknowledges what is not handed over, but for a primary that nobody follows, and takes no writes as soon as it hears of that.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_protocol::{ErrorCode, ErrorReply, PartitionId, Version};
use weft_transport::Time;

use crate::durable::{AppendError, Event, Journal, Log, Mode, Snapshot};
use crate::limits::{LOG_ROOM_KEPT_BYTES, LOG_UNASKED_BYTES, LOG_WRITE_BYTES};
use crate::store::Gathered;

/// The memory of entries is kept for the next ones up to this: a partition that is idle is small.
const KEPT_BYTES: usize = 4 << 10;

/// Something for the log.
#[derive(Debug)]
enum Op {
    /// What the log has of the partition is void.
    Anew {
        epoch: u32,
        last: Version,
    },
    Piece(Vec<u8>),
    End,
    Fence {
        epoch: u32,
    },
    Forget,
    Entries {
        first: Version,
        last: Version,
        bytes: Vec<u8>,
    },
}

/// What the log has of the partition, once it has what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing.
    Nowhere,
    /// What is left of it, which is of no use to anybody.
    Remains,
    /// A part of a snapshot that another node gives.
    Learning,
    /// All of it.
    Whole,
}

/// How often something was appended, and how often it has become durable.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    appended: u64,
    durable: u64,
}

/// What became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// Entries up to this sequence.
    Entries(u64),
    /// A snapshot that another node gave.
    Snapshot,
}

/// What came of going on with writing a partition anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// A piece was written.
    GoesOn,
    /// Nothing was: there is no room now.
    NoRoom,
    /// All of it was, or nothing of it ever will be.
    Over,
}

/// A partition's way to the log.
#[derive(Debug)]
pub(crate) struct Logged {
    journal: Arc<Journal>,
    id: PartitionId,
    queue: VecDeque<Op>,
    /// The memory of entries that were handed over.
    spare: Vec<u8>,
    place: Place,
    /// The log knows that nothing of a lower epoch is taken.
    epoch: u32,
    /// The last sequence that the log was given.
    taken: u64,
    anew: Count,
    ends: Count,
    /// Which end is that of the snapshot that another node gave.
    end_awaited: u64,
    /// Which of its own snapshots is being written, if one is.
    rewriting: Option<u64>,
    rewrites: u64,
    /// Room in the log that is kept for the entry that is about to be made.
    promised_bytes: u64,
    /// The log cannot take what happens here any more.
    has_failed: bool,
    failure_told: Option<u32>,
}

impl Logged {
    /// A partition of which the log has nothing, or nothing that is of use.
    pub(crate) fn new(journal: Arc<Journal>, id: PartitionId, has_remains: bool) -> Logged {
        let place = if has_remains { Place::Remains } else { Place::Nowhere };
        Logged {
            journal,
            id,
            queue: VecDeque::new(),
            spare: Vec::new(),
            place,
            epoch: 0,
            taken: 0,
            anew: Count::default(),
            ends: Count::default(),
            end_awaited: 0,
            rewriting: None,
            rewrites: 0,
            promised_bytes: 0,
            has_failed: false,
            failure_told: None,
        }
    }

    /// A partition of which the log has all, up to `last`.
    pub(crate) fn recovered(
        journal: Arc<Journal>,
        id: PartitionId,
        epoch: u32,
        last: Version,
    ) -> Logged {
        let new = Logged::new(journal, id, false);
        Logged { place: Place::Whole, epoch, taken: last.sequence(), ..new }
    }

    /// Whether all that has happened was handed over.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// What is promised of entries.
    pub(crate) fn mode(&self) -> Mode {
        self.journal.mode()
    }

    /// The last sequence that the log was given.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the log has failed, or cannot take what happens here.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed || self.journal.has_failed()
    }

    /// Whether the disk has no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.journal.is_full()
    }

    /// Whether writes are to be refused.
    pub(super) fn refuses(&self) -> bool {
        !self.queue.is_empty() || !self.journal.has_room() || self.has_failed()
    }

    /// The same; if they are, the partition is looked at again when there may be room.
    pub(super) fn refuses_for_now(&self) -> bool {
        if !self.refuses() {
            return false;
        }
        self.journal.await_room();
        // There may have been some just before that was said.
        self.refuses()
    }

    /// What they are told then.
    pub(super) fn refusal(&self) -> ErrorReply<'static> {
        let has_failed = self.has_failed();
        ErrorReply::new(if has_failed { ErrorCode::DiskFailed } else { ErrorCode::DiskBehind })
    }

    /// Whether the coordinator is to be told of a failure in this epoch, which it has not been.
    pub(super) fn is_failure_due(&mut self, epoch: u32) -> bool {
        self.has_failed() && self.failure_told.replace(epoch) != Some(epoch)
    }

    /// The partition begins anew, behind `last`, with what another node gives.
    pub(super) fn begin_anew(&mut self, epoch: u32, last: Version) {
        // What was not appended yet is void as well.
        self.queue.clear();
        self.queue.push_back(Op::Anew { epoch, last });
        (self.place, self.taken, self.rewriting) = (Place::Learning, last.sequence(), None);
        self.epoch = self.epoch.max(epoch);
    }

    /// The partition is there, with nothing in it that was not told yet.
    pub(super) fn create(&mut self, epoch: u32, last: Version) {
        self.begin_anew(epoch, last);
        self.end();
    }

    /// Whether the log has nothing of it yet that is of use.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.place, Place::Nowhere | Place::Remains)
    }

    /// Whether the log has remains of it.
    pub(super) fn has_remains(&self) -> bool {
        self.place == Place::Remains
    }

    /// Whether a snapshot that another node gives has not ended.
    pub(super) fn is_learning(&self) -> bool {
        self.place == Place::Learning
    }

    /// A piece of the snapshot.
    pub(super) fn piece(&mut self, records: &[u8]) {
        self.queue.push_back(Op::Piece(records.to_vec()));
    }

    /// All pieces were told.
    pub(super) fn end(&mut self) {
        self.queue.push_back(Op::End);
        self.place = Place::Whole;
        let waiting = self.queue.iter().filter(|op| matches!(op, Op::End)).count() as u64;
        self.end_awaited = self.ends.appended + waiting;
    }

    /// The node does not hold the partition any more, and neither does anybody else: what the log has of it stays there.
    pub(super) fn abandon(&mut self) {
        self.queue.clear();
        (self.place, self.rewriting) = (Place::Remains, None);
    }

    /// The node does not hold the partition any more.
    pub(super) fn forget(&mut self) {
        self.queue.clear();
        (self.place, self.rewriting) = (Place::Nowhere, None);
        self.queue.push_back(Op::Forget);
    }

    /// Nothing below this epoch is taken any more.
    pub(super) fn fence(&mut self, epoch: u32) {
        if epoch > self.epoch && !self.is_absent() {
            self.epoch = epoch;
            self.queue.push_back(Op::Fence { epoch });
        }
    }

    /// The next entry, whose bytes `write` adds to what it is given. Returns them.
    pub(super) fn entry(&mut self, version: Version, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let has_room =
            |op: &Op| matches!(op, Op::Entries { bytes, .. } if bytes.len() < LOG_WRITE_BYTES);
        if !self.queue.back().is_some_and(has_room) {
            let (first, last) = (version, version);
            let bytes = std::mem::take(&mut self.spare);
            self.queue.push_back(Op::Entries { first, last, bytes });
        }
        let Some(Op::Entries { last, bytes, .. }) = self.queue.back_mut() else {
            unreachable!("it was pushed if it was not there");
        };
        *last = version;
        let start = bytes.len();
        write(bytes);
        &bytes[start..]
    }

    /// Whether the log has room for an entry of up to `len` bytes, which is then kept until the entry is [handed over](Self::hand_over), or the room
    /// [given back](Self::give_back_room). For who is alone with a partition of [`Mode::Disk`]: such an entry is answered when it is made.
    #[inline]
    pub(super) fn keeps_room_for(&mut self, len: usize) -> bool {
        let is_ample = self.journal.room_bytes() >= 2 * LOG_ROOM_KEPT_BYTES;
        if len <= LOG_UNASKED_BYTES && is_ample && self.journal.has_room() {
            return true;
        }
        self.ask_for_room(len)
    }

    #[cold]
    fn ask_for_room(&mut self, len: usize) -> bool {
        let promised = self.journal.with(|log, _| log.promise(len));
        self.promised_bytes = promised.unwrap_or(0);
        promised.is_some()
    }

    /// No entry was made of that which room was kept for.
    #[inline]
    pub(super) fn give_back_room(&mut self) {
        if self.promised_bytes > 0 {
            let bytes = std::mem::take(&mut self.promised_bytes);
            self.journal.with(|log, _| log.give_back(bytes));
        }
    }

    /// Hands the next entry over at once, if nothing waits before it and the log takes it. Returns whether it did.
    pub(super) fn hand_over(&mut self, version: Version, entry: &Gathered<'_>) -> bool {
        if self.place != Place::Whole || !self.queue.is_empty() || self.has_failed() {
            return false;
        }
        // There may be others before the one that room is kept for, of what was removed to make it.
        let Logged { journal, id, promised_bytes, .. } = self;
        let mut append = |entry: &[&[u8]]| journal.append_made(*id, version, entry, promised_bytes);
        let appended = match entry.in_one_piece() {
            Some(bytes) => append(&[bytes]),
            None => append(&entry.pieces().map(|piece| piece.bytes()).collect::<Vec<_>>()),
        };
        let is_taken = appended.is_ok();
        if is_taken {
            self.taken = version.sequence();
        }
        is_taken
    }

    /// Hands over what is queued, as far as the log takes it.
    pub(super) fn flush(&mut self, now: Time) {
        if self.has_failed() {
            // It would be kept for nobody.
            self.queue.clear();
        }
        if self.queue.is_empty() {
            return;
        }
        let journal = Arc::clone(&self.journal);
        let refused = journal.with_at(now, |log, now| {
            while let Some(op) = self.queue.front() {
                let appended = append(log, self.id, op, now);
                match appended {
                    Ok(()) => self.appended(),
                    Err(error) => return Some(error),
                }
            }
            None
        });
        match refused {
            None => {}
            Some(AppendError::Opening | AppendError::Backlog { .. }) => self.journal.await_room(),
            // The node is told of the one, and stops with the other.
            Some(AppendError::Poisoned(_) | AppendError::Closed) => {}
            Some(error) => {
                tracing::error!(partition = self.id.0, %error, "the log does not take what a replica holds");
                self.has_failed = true;
            }
        }
    }

    fn appended(&mut self) {
        match self.queue.pop_front() {
            Some(Op::Entries { last, mut bytes, .. }) => {
                self.taken = last.sequence();
                if bytes.capacity() <= KEPT_BYTES {
                    bytes.clear();
                    self.spare = bytes;
                }
            }
            Some(Op::Anew { .. }) => self.anew.appended += 1,
            Some(Op::End) => self.ends.appended += 1,
            Some(Op::Piece(_) | Op::Fence { .. } | Op::Forget) | None => {}
        }
    }

    /// What the log tells. What became durable of before the partition began anew says nothing.
    pub(super) fn told(&mut self, event: &Event) -> Option<Durable> {
        match event {
            Event::BegunAnew { .. } => self.anew.durable += 1,
            Event::SnapshotDurable { .. } => {
                self.ends.durable += 1;
                let is_awaited = self.place == Place::Whole
                    && self.end_awaited != 0
                    && self.ends.durable >= self.end_awaited;
                if is_awaited {
                    self.end_awaited = 0;
                    return Some(Durable::Snapshot);
                }
            }
            Event::Durable { version, .. } => {
                let waits_for_anew = self.queue.iter().any(|op| matches!(op, Op::Anew { .. }));
                let is_void = waits_for_anew || self.anew.durable < self.anew.appended;
                return (!is_void).then_some(Durable::Entries(version.sequence()));
            }
            _ => {}
        }
        None
    }

    /// Begins to write the partition anew, with `head` as the first piece, if the log has all of it. Returns by which number the snapshot goes.
    pub(super) fn begin_rewrite(&mut self, head: &[u8]) -> Option<u64> {
        if self.place != Place::Whole || !self.takes_piece() {
            return None;
        }
        let begun = self.journal.with(|log, now| {
            // One that begins and has no first piece would be waited for.
            if !log.has_room_to_begin(head.len()) {
                return None;
            }
            log.begin_snapshot(self.id, Snapshot::Own, now).ok()?;
            log.append_piece(self.id, &[head], now).ok()
        });
        begun?;
        self.rewrites += 1;
        self.rewriting = Some(self.rewrites);
        self.rewriting
    }

    /// Whether the snapshot of this number is still being written: it is not when the partition has begun anew meanwhile.
    pub(super) fn is_rewriting(&self, number: u64) -> bool {
        self.rewriting == Some(number) && !self.has_failed()
    }

    /// Whether a piece of a snapshot can be appended now, behind all that has happened.
    pub(super) fn takes_piece(&mut self) -> bool {
        self.flush(self.journal.now());
        !self.refuses()
    }

    /// Appends a piece of the partition as it is now, or the end of the snapshot.
    pub(super) fn rewrite(&mut self, piece: Option<&[u8]>) -> Rewritten {
        let appended = self.journal.with(|log, now| match piece {
            Some(piece) => log.append_piece(self.id, &[piece], now),
            None => log.end_snapshot(self.id, now),
        });
        match (appended, piece) {
            (Err(AppendError::Backlog { .. }), _) => Rewritten::NoRoom,
            (Ok(()), Some(_)) => Rewritten::GoesOn,
            (appended, _) => {
                self.rewriting = None;
                self.ends.appended += u64::from(appended.is_ok());
                Rewritten::Over
            }
        }
    }
}

fn append(log: &mut Log, id: PartitionId, op: &Op, now: Time) -> Result<(), AppendError> {
    match op {
        Op::Anew { epoch, last } => {
            log.begin_snapshot(id, Snapshot::Anew { epoch: *epoch, last: *last }, now)
        }
        Op::Piece(records) => log.append_piece(id, &[records], now),
        Op::End => log.end_snapshot(id, now),
        Op::Fence { epoch } => log.fence(id, *epoch, now),
        Op::Forget => log.forget(id, now),
        Op::Entries { first, last, bytes } => log.append(id, *first, *last, &[bytes], now),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use weft_transport::{Clock, NodeId};

    use super::*;
    use crate::durable::{Directory, Identity, Settings, perform, recover};

    const PARTITION: PartitionId = PartitionId(3);

    struct Driven {
        journal: Arc<Journal>,
        directory: Directory,
        _folder: tempfile::TempDir,
    }

    impl Driven {
        fn new() -> Driven {
            let folder = tempfile::tempdir().unwrap();
            let mut directory = Directory::open(folder.path()).unwrap();
            let identity = Identity { cluster: 1, node: NodeId(1), mode: Mode::Fsync };
            let recovery = recover(&mut directory, identity, &Settings::default()).unwrap();
            let log = Log::new(Settings::default(), &recovery);
            let journal = Arc::new(Journal::new(log, Clock::system()));
            Driven { journal, directory, _folder: folder }
        }

        /// Does all that the log asks for, and tells of it.
        fn go_on(&mut self, logged: &mut Logged) -> Vec<Durable> {
            let mut told = Vec::new();
            while let Some(mut effect) = self.journal.poll(Waker::noop()) {
                let outcome = perform(&mut self.directory, &mut effect);
                self.journal.done(effect, outcome);
                let events = self.journal.take_events();
                told.extend(events.iter().filter_map(|event| logged.told(event)));
            }
            told
        }
    }

    fn enter(logged: &mut Logged, sequences: std::ops::RangeInclusive<u64>) {
        for sequence in sequences {
            logged.entry(Version::new(1, sequence), |bytes| bytes.extend_from_slice(&[7; 16]));
        }
        logged.flush(Time::ZERO);
    }

    #[test]
    fn what_was_durable_before_a_partition_began_anew_says_nothing_of_it() {
        let mut driven = Driven::new();
        let mut logged = Logged::new(Arc::clone(&driven.journal), PARTITION, false);
        driven.go_on(&mut logged);
        logged.create(1, Version::NONE);
        enter(&mut logged, 1..=9);
        // Nothing of it is on disk yet, when a primary says that what is here is not what the others have.
        logged.begin_anew(1, Version::new(1, 4));
        logged.piece(b"");
        enter(&mut logged, 5..=6);
        assert_eq!(driven.go_on(&mut logged), [Durable::Entries(6)]);
        logged.end();
        logged.flush(Time::ZERO);
        assert_eq!(driven.go_on(&mut logged), [Durable::Snapshot]);
    }

    #[test]
    fn what_the_log_does_not_take_yet_waits_and_nothing_is_written_meanwhile() {
        let mut driven = Driven::new();
        let mut logged = Logged::new(Arc::clone(&driven.journal), PARTITION, false);
        logged.create(1, Version::NONE);
        enter(&mut logged, 1..=3);
        // The log is not open yet.
        assert!(logged.refuses() && !logged.is_flushed());
        assert_eq!((logged.taken(), logged.refusal().code), (0, ErrorCode::DiskBehind));
        assert!(driven.go_on(&mut logged).is_empty());
        assert!(driven.journal.take_awaited());
        logged.flush(Time::ZERO);
        assert!(!logged.refuses() && logged.is_flushed());
        assert_eq!(logged.taken(), 3);
        assert_eq!(driven.go_on(&mut logged), [Durable::Snapshot, Durable::Entries(3)]);
    }

    #[test]
    fn what_is_forgotten_is_not_in_the_log() {
        let mut driven = Driven::new();
        let mut logged = Logged::new(Arc::clone(&driven.journal), PARTITION, false);
        driven.go_on(&mut logged);
        logged.create(1, Version::NONE);
        enter(&mut logged, 1..=3);
        logged.forget();
        logged.flush(Time::ZERO);
        driven.go_on(&mut logged);
        assert_eq!(driven.journal.with(|log, _| log.durable(PARTITION)), None);
    }
}
