//! What a log does next, and what follows from what it has done.

use std::collections::BTreeMap;

use weft_protocol::PartitionId;
use weft_transport::Time;

use crate::durable::batch::Batch;
use crate::durable::disk::{DiskError, Effect};
use crate::durable::file_header::{FILE_HEADER_BYTES, FileHeader, Mode};
use crate::durable::frame::{FrameHeader, FrameKind};
use crate::durable::holdings::Position;
use crate::durable::planted::Planted;
use crate::durable::roster;
use crate::durable::sealing::Bytes;
use crate::limits::{LOG_FULL_PAUSE, LOG_WRITE_BYTES};

use super::{Event, Log, Poisoned, State};

/// So many files that nobody needs are left for when there is nothing else to do.
const OBSOLETE_LEFT: usize = 4;
/// So many batches are written before what is written is synced, though more waits.
const ROUND_BATCHES: usize = 8;

/// The file that is written to.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) number: u64,
    seed: u32,
    /// Bytes that are written.
    pub(super) len: u64,
    /// Room is kept on the disk for so many.
    pub(super) reserved: u64,
    /// So many are its head.
    pub(super) head_len: u64,
    /// Bytes that are synced.
    synced: u64,
    /// What the last frame says to be synced.
    marked: u64,
    /// Whether its name survives a crash.
    is_named: bool,
    /// Whether the last frame says that the log was closed.
    is_closed: bool,
}

/// A round of writes, which one sync follows on: what waits when it begins. What comes meanwhile waits for the next, or a
/// stream of small entries would put the sync off for ever.
#[derive(Debug, Default)]
pub(super) struct Round {
    batches_left: usize,
    has_written: bool,
}

/// What is being done.
#[derive(Debug)]
pub(super) enum Doing {
    Create { number: u64, reserved: u64, head_len: u64 },
    WriteHead,
    Write { len: u64, frames: Vec<(u64, FrameHeader)> },
    Sync,
    SyncNames,
    Trim,
    Remove,
}

impl Log {
    pub(super) fn next_effect(&mut self, now: Time) -> Option<(Doing, Effect)> {
        let Some(current) = &self.current else { return Some(self.make_file()) };
        let (number, len) = (current.number, current.len);
        let is_synced = current.synced == len;
        let sync = (Doing::Sync, Effect::Sync { file: number });
        if len == 0 {
            return Some(self.write_head(number));
        }
        if !current.is_named {
            return Some(if is_synced { (Doing::SyncNames, Effect::SyncNames) } else { sync });
        }
        if current.is_closed {
            return Some(sync);
        }
        if let Some(file) = self.untrimmed.take() {
            return Some((Doing::Trim, Effect::Trim { file }));
        }
        let obsolete = self.obsolete();
        if self.wants_file() {
            if now >= self.retry_at {
                // What nobody needs may be the room that there is none of.
                return match self.state {
                    _ if !is_synced => Some(sync),
                    State::Full if obsolete > 0 => self.remove(),
                    _ => Some(self.make_file()),
                };
            }
            if !self.keeps_ahead() {
                return None;
            }
        }
        let is_hasty = self.settings.plant.has(Planted::RemoveBeforeSync);
        if obsolete > if is_hasty { 0 } else { OBSOLETE_LEFT } {
            return self.remove();
        }
        if let Some(next) = self.commit(now) {
            return Some(next);
        }
        if obsolete > 0 { self.remove() } else { self.finish() }
    }

    /// Writes what waits, and syncs what is written.
    fn commit(&mut self, now: Time) -> Option<(Doing, Effect)> {
        if self.round.batches_left > 0 && !self.pending.is_empty() {
            self.round.batches_left -= 1;
            return self.write();
        }
        let is_write_due = !self.pending.is_empty() && self.is_pressing(now);
        let has_written = std::mem::take(&mut self.round.has_written);
        if (has_written || !is_write_due) && !self.unsynced.is_empty() {
            let current = self.current.as_ref()?;
            let unsynced_bytes = current.len - current.synced;
            // What is written in `fsync` has waited for others already.
            let is_due = self.identity.mode == Mode::Fsync || self.is_due(now);
            if is_due || unsynced_bytes >= self.settings.sync_bytes {
                return Some((Doing::Sync, Effect::Sync { file: current.number }));
            }
        }
        if !is_write_due {
            return None;
        }
        let batches_left = self.pending.batches().min(ROUND_BATCHES) - 1;
        self.round = Round { batches_left, has_written: true };
        self.group.write();
        self.write()
    }

    /// Whether what was appended is to be seen to now, and not when time has passed or more has come.
    pub(in crate::durable) fn is_pressing(&self, now: Time) -> bool {
        let is_write_due = self.is_due(now) || self.pending.bytes() >= LOG_WRITE_BYTES;
        self.is_closing || (!self.pending.is_empty() && is_write_due)
    }

    /// Whether what waits has waited long enough.
    fn is_due(&self, now: Time) -> bool {
        self.is_closing || self.waiting_since.is_some_and(|since| self.due_at(since) <= now)
    }

    /// Until when what waits since then may wait.
    pub(super) fn due_at(&self, since: Time) -> Time {
        match self.identity.mode {
            Mode::Fsync => self.group.due_at(since),
            Mode::Disk => since + self.settings.sync_interval,
        }
    }

    /// With nothing left to write and acknowledge: says on disk how much was synced, or that the log is closed.
    fn finish(&mut self) -> Option<(Doing, Effect)> {
        let current = self.current.as_mut()?;
        let is_synced = current.synced == current.len;
        if !self.pending.is_empty() || !self.unsynced.is_empty() {
            return None;
        }
        if self.is_closing {
            if !is_synced {
                return Some((Doing::Sync, Effect::Sync { file: current.number }));
            }
            current.is_closed = true;
            return self.write_frame(FrameKind::Close);
        }
        // Without it, damage to what was acknowledged last would be taken for a torn end. It is not synced: nothing waits for it, and
        // it is on disk half a minute later, or with the next sync.
        if self.identity.mode == Mode::Fsync && is_synced && current.marked < current.synced {
            return self.write_frame(FrameKind::Mark);
        }
        None
    }

    fn make_file(&mut self) -> (Doing, Effect) {
        let number = self.newest + 1;
        // What comes while the file is made goes behind the next batch, or the file would be too short for that, and the next one as well.
        self.pending.close_next();
        let head_len = self.head(number).len() as u64;
        let reserved = self.reserved_bytes(number, head_len);
        let create = Effect::Create { file: number, reserve_bytes: reserved };
        (Doing::Create { number, reserved, head_len }, create)
    }

    fn write_head(&mut self, number: u64) -> (Doing, Effect) {
        let head = self.head(number);
        (Doing::WriteHead, Effect::Write { file: number, bytes: Bytes::sealed(head) })
    }

    /// The header of a new file and its roster.
    fn head(&mut self, number: u64) -> Vec<u8> {
        let (previous_file, previous_end) = self.previous;
        let header =
            FileHeader { identity: self.identity, file: number, previous_file, previous_end };
        let roster_header = FrameHeader::new(FrameKind::Roster, PartitionId(0));
        let roster = Batch::of(roster_header, &roster::encode(&self.written));
        let seed = self.identity.seed(number);
        let mut roster = self.pending.unsealed(roster, seed, FILE_HEADER_BYTES as u64, 0);
        [&header.encode()[..], roster.get()].concat()
    }

    fn write(&mut self) -> Option<(Doing, Effect)> {
        let batch = self.pending.pop()?;
        self.write_batch(batch)
    }

    /// A frame of the file.
    fn write_frame(&mut self, kind: FrameKind) -> Option<(Doing, Effect)> {
        self.write_batch(Batch::of(FrameHeader::new(kind, PartitionId(0)), &[]))
    }

    fn write_batch(&mut self, batch: Batch) -> Option<(Doing, Effect)> {
        let current = self.current.as_mut()?;
        let doing = Doing::Write { len: batch.len(), frames: batch.standing_at(current.len) };
        let bytes = self.pending.unsealed(batch, current.seed, current.len, current.synced);
        current.marked = current.synced;
        Some((doing, Effect::Write { file: current.number, bytes }))
    }

    fn remove(&mut self) -> Option<(Doing, Effect)> {
        let (file, _) = *self.older.front()?;
        Some((Doing::Remove, Effect::Remove { file }))
    }

    /// How many of the oldest files nobody needs.
    fn obsolete(&self) -> usize {
        let needed = if self.settings.plant.has(Planted::RemoveBeforeSync) {
            self.written.oldest_needed()
        } else {
            // By what survives a crash, not by what was written: else the old files might be gone, and the snapshot that replaces them too.
            self.durable.oldest_needed()
        };
        let needed = needed.unwrap_or(u64::MAX);
        self.older.iter().take_while(|(number, _)| *number < needed).count()
    }

    pub(super) fn succeeded(&mut self, doing: Doing, now: Time) {
        match doing {
            Doing::Create { number, reserved, head_len } => self.made(number, reserved, head_len),
            Doing::WriteHead => {
                if let Some(current) = &mut self.current {
                    current.len = current.head_len;
                }
            }
            Doing::Write { len, frames } => self.wrote(len, frames),
            Doing::Sync => self.synced(now),
            Doing::SyncNames => self.named(),
            Doing::Trim => {}
            Doing::Remove => drop(self.older.pop_front()),
        }
    }

    /// There is another file, and all that waits goes there.
    fn made(&mut self, number: u64, reserved: u64, head_len: u64) {
        self.newest = number;
        let seed = self.identity.seed(number);
        let made = Current::new((number, seed), reserved, head_len);
        if let Some(before) = self.current.replace(made) {
            self.previous = (before.number, before.len);
            self.older.push_back(self.previous);
            self.untrimmed = (before.len < before.reserved).then_some(before.number);
        }
        self.retry_at = Time::ZERO;
        // Whoever asked looks once more.
        self.asked_bytes = 0;
        let had_refused = std::mem::take(&mut self.refused_bytes) > 0;
        if self.state == State::Full {
            self.state = State::Open;
            self.events.push_back(Event::Resumed);
        } else if had_refused {
            self.events.push_back(Event::MadeRoom);
        }
    }

    fn wrote(&mut self, len: u64, frames: Vec<(u64, FrameHeader)>) {
        let Some(current) = &mut self.current else { return };
        let file = current.number;
        current.len += len;
        for (offset, header) in frames {
            let at = Position { file, offset };
            self.written.apply(&header, at);
            if self.settings.plant.has(Planted::AcknowledgeBeforeSync) {
                self.tell(&header, &mut BTreeMap::new());
            }
            if header.kind.is_of_partition() {
                self.unsynced.push((header, at));
            }
        }
    }

    fn synced(&mut self, now: Time) {
        let Some(current) = &mut self.current else { return };
        current.synced = current.len;
        self.group.synced(now);
        if current.is_closed {
            self.state = State::Closed;
            self.events.push_back(Event::Closed);
        }
        let mut told = BTreeMap::new();
        for (header, at) in std::mem::take(&mut self.unsynced) {
            self.durable.apply(&header, at);
            self.ends_waiting -= usize::from(header.kind == FrameKind::SnapshotEnd);
            self.tell(&header, &mut told);
        }
        self.waiting_since = if self.pending.is_empty() { None } else { Some(now) };
        if self.settings.plant.has(Planted::SkipDirectorySync) {
            self.named();
        }
    }

    /// Tells what a frame is about, now that it is durable. `told` has where among the events the last entries of a partition are told of, unless
    /// something else of it was told since: later ones are told there, since whoever is told of an event looks after all that waits for the partition.
    fn tell(&mut self, header: &FrameHeader, told: &mut BTreeMap<PartitionId, usize>) {
        let partition = header.partition;
        let event = match header.kind {
            FrameKind::Entries => {
                let last = told.get(&partition).and_then(|index| self.events.get_mut(*index));
                if let Some(Event::Durable { version, .. }) = last {
                    *version = header.last;
                    return;
                }
                told.insert(partition, self.events.len());
                return self.events.push_back(Event::Durable { partition, version: header.last });
            }
            FrameKind::Fence => Event::Fenced { partition, epoch: header.epoch },
            FrameKind::AnewBegin => Event::BegunAnew { partition },
            FrameKind::SnapshotEnd => Event::SnapshotDurable { partition },
            _ => return,
        };
        told.remove(&partition);
        self.events.push_back(event);
    }

    fn named(&mut self) {
        let Some(current) = &mut self.current else { return };
        if std::mem::replace(&mut current.is_named, true) || self.state != State::Opening {
            return;
        }
        self.state = if self.is_closing { State::Closing } else { State::Open };
        self.events.push_back(Event::Opened);
    }

    pub(super) fn failed(&mut self, doing: &Doing, error: DiskError, now: Time) {
        match doing {
            // Nothing was written to it, so nothing is in doubt: what waits goes on waiting.
            Doing::Create { .. } if error == DiskError::Full && self.state != State::Opening => {
                self.retry_at = now + LOG_FULL_PAUSE;
                // It has not been made, so it is no reason to refuse what there is room for.
                self.asked_bytes = 0;
                if self.state == State::Open && self.wants_file_in_any_case() {
                    self.state = State::Full;
                    self.events.push_back(Event::Full);
                }
            }
            Doing::Sync if self.settings.plant.has(Planted::RetrySync) => {}
            _ => {
                self.state = State::Poisoned(Poisoned { error: error.clone() });
                self.events.push_back(Event::Poisoned { error });
            }
        }
    }
}

impl Current {
    fn new((number, seed): (u64, u32), reserved: u64, head_len: u64) -> Current {
        Current {
            number,
            seed,
            len: 0,
            reserved,
            head_len,
            synced: 0,
            marked: 0,
            is_named: false,
            is_closed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::Version;
    use weft_transport::NodeId;

    use super::*;
    use crate::durable::disk::perform;
    use crate::durable::{Directory, Identity, Settings, recover};

    const PARTITION: PartitionId = PartitionId(3);
    const FILE_BYTES: u64 = 64 << 10;
    const ENTRY_BYTES: usize = 6_000;

    /// Where more comes whenever the disk has done something, batches get longer than files.
    #[test]
    fn a_file_takes_the_batch_that_it_is_made_for_whatever_comes_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(folder.path()).unwrap();
        let identity = Identity { cluster: 1, node: NodeId(1), mode: Mode::Fsync };
        let settings = Settings { file_bytes: FILE_BYTES, ..Settings::default() };
        let recovery = recover(&mut directory, identity, &settings).unwrap();
        let mut log = Log::new(settings, &recovery);
        let (mut files, mut writes) = (0, 0);
        let mut do_next = |log: &mut Log| {
            let Some(mut effect) = log.poll(Time::ZERO) else { return false };
            match effect {
                Effect::Create { .. } => {
                    assert!(files == 0 || writes >= 2, "file {files} has nothing but its head");
                    (files, writes) = (files + 1, 0);
                }
                Effect::Write { .. } => writes += 1,
                _ => {}
            }
            let outcome = perform(&mut directory, &mut effect);
            log.done(effect, outcome, Time::ZERO);
            true
        };
        while do_next(&mut log) {}
        log.create(PARTITION, 1, Time::ZERO).unwrap();
        for sequence in 1..=200 {
            let version = Version::new(1, sequence);
            log.append(PARTITION, version, version, &[&[7; ENTRY_BYTES]], Time::ZERO).unwrap();
            if sequence > 10 {
                do_next(&mut log);
            }
        }
        while do_next(&mut log) {}
        assert_eq!(log.durable(PARTITION), Some(Version::new(1, 200)));
        assert!(files > 5, "{files}");
    }
}
