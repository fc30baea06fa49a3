//! What the disk keeps room for.
//!
//! In [`Mode::Fsync`] nothing is acknowledged before it is on disk, so it is enough that a file has room for what is written to it. In
//! [`Mode::Disk`] entries are acknowledged when the log has taken them, and are written behind: it takes none for which there is no
//! room in the file that is written to, behind all that waits. So whatever it has taken is on disk when it is closed, be the disk full by
//! then or not.

use crate::durable::file_header::Mode;
use crate::durable::frame::{FRAME_HEADER_BYTES, frame_len};
use crate::limits::{LOG_ROOM_KEPT_BYTES, LOG_UNASKED_BYTES, REACTORS_MAX};

use super::commit::{Current, Doing};
use super::{Log, State};

/// What may follow on the last batch of a file: a frame that says what is synced, and one that says that the log is closed.
pub(super) const TAIL_BYTES: u64 = 2 * FRAME_HEADER_BYTES as u64;
/// So many times as long as a file is what may wait behind it, up to what may wait at all: a log with little in it takes little of the disk.
const AHEAD_FILES: u64 = 4;
/// The part of that which is left to entries that are made without asking for room, at most.
const KEPT_SHARE: u64 = 4;

const _: () = assert!(
    frame_len(LOG_UNASKED_BYTES) * REACTORS_MAX <= LOG_ROOM_KEPT_BYTES as usize,
    "each reactor may make one entry without asking"
);

impl Log {
    /// Whether room is kept for what waits, too.
    pub(super) fn keeps_ahead(&self) -> bool {
        self.identity.mode == Mode::Disk
    }

    /// Room that is kept in a file of this number for what waits when it is as long as it should be.
    fn ahead_bytes(&self, number: u64) -> u64 {
        if !self.keeps_ahead() {
            return 0;
        }
        let bytes = AHEAD_FILES * self.settings.bytes_of_file(number);
        bytes.min(self.settings.backlog_bytes as u64)
    }

    /// What is to be kept for a file of this number, which begins with `head_bytes`.
    pub(super) fn reserved_bytes(&self, number: u64, head_bytes: u64) -> u64 {
        let ahead_bytes = self.ahead_bytes(number);
        // A full disk is met when a file is made, where nothing is in doubt, and by no write: not by that of a batch longer than a file either.
        let waiting_bytes = match self.keeps_ahead() {
            true => {
                let waiting_bytes = self.pending.bytes() as u64 + self.promised_bytes;
                // A file that is wanted in any case is not to fail for want of room for what was only asked for, which is asked for again.
                let asked_bytes = if self.wants_file_in_any_case() { 0 } else { self.asked_bytes };
                waiting_bytes + self.refused_bytes.max(asked_bytes) + ahead_bytes
            }
            false => self.pending.next_len() as u64,
        };
        let needed_bytes = head_bytes + waiting_bytes + TAIL_BYTES;
        (self.settings.bytes_of_file(number) + ahead_bytes).max(needed_bytes)
    }

    /// Room behind all that waits, and all that was promised some.
    pub(in crate::durable) fn room_bytes(&self) -> u64 {
        let Some(current) = self.current.as_ref().filter(|_| self.keeps_ahead()) else {
            return u64::MAX;
        };
        let (under_way, next) = match self.doing {
            Some(Doing::Write { len, .. }) => (len, None),
            // Whatever waits when it is made goes there.
            Some(Doing::Create { reserved, head_len, .. }) => (0, Some(reserved - head_len)),
            _ => (0, None),
        };
        let left = current.left().saturating_sub(under_way);
        let left = next.map_or(left, |next| left.min(next));
        left.saturating_sub(self.pending.bytes() as u64 + self.promised_bytes + TAIL_BYTES)
    }

    /// Room that is left to entries that are made without asking for it.
    fn kept_bytes(&self) -> u64 {
        let of_file = self.current.as_ref().map_or(0, |current| self.ahead_bytes(current.number));
        LOG_ROOM_KEPT_BYTES.min(of_file / KEPT_SHARE)
    }

    /// Whether a frame with a body of `len` bytes, which can wait, has room there. If not, a file is made that has.
    pub(super) fn has_room_for(&mut self, len: usize) -> bool {
        let kept_bytes = self.kept_bytes();
        self.has_room_of(frame_len(len) as u64 + kept_bytes)
    }

    /// The same for one that cannot wait.
    pub(super) fn has_room_at_last(&mut self, len: usize) -> bool {
        self.has_room_of(frame_len(len) as u64)
    }

    fn has_room_of(&mut self, bytes: u64) -> bool {
        let has_room = bytes <= self.room_bytes();
        if !has_room {
            self.refused_bytes = self.refused_bytes.max(bytes);
        }
        has_room
    }

    /// Keeps room for an entry of up to `len` bytes that is about to be made and cannot be taken back, if there is some beside what is made without
    /// asking. Returns how much, which is for whoever [appends](Self::append_made) the entry, or to be [given back](Self::give_back) if there is none.
    pub(crate) fn promise(&mut self, len: usize) -> Option<u64> {
        let bytes = frame_len(len) as u64;
        if !self.has_room() {
            return None;
        }
        let needed = bytes + self.kept_bytes();
        if needed > self.room_bytes() {
            self.asked_bytes = self.asked_bytes.max(needed);
            return None;
        }
        self.promised_bytes += bytes;
        Some(bytes)
    }

    /// Takes back room that was promised.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.promised_bytes -= bytes;
    }

    /// Whether a snapshot may begin, with a piece of `len` bytes.
    pub(crate) fn has_room_to_begin(&mut self, len: usize) -> bool {
        self.has_room() && self.has_room_for(FRAME_HEADER_BYTES + len)
    }

    /// Whether what is to be written next goes to the next file.
    pub(super) fn wants_file(&self) -> bool {
        self.wants_file_in_any_case() || self.asked_bytes > 0 && !self.is_closing
    }

    /// The same without what was only asked for.
    pub(super) fn wants_file_in_any_case(&self) -> bool {
        let Some(current) = &self.current else { return true };
        let next = self.pending.next_len() as u64;
        if self.keeps_ahead() {
            // What is closed has room for all, and needs no other file.
            let is_long = current.len + next > self.settings.bytes_of_file(current.number);
            let is_full = next > 0 && is_long && current.len > current.head_len;
            // On a full disk, what there was may all be written by now; it is tried until there is room.
            let is_awaited = self.refused_bytes > 0 || self.state == State::Full;
            return !self.is_closing && (is_full || is_awaited);
        }
        next > 0 && next + TAIL_BYTES > current.left()
    }
}

impl Current {
    /// Bytes for which room is kept and that nothing was written to yet.
    fn left(&self) -> u64 {
        self.reserved - self.len.max(self.head_len)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_protocol::{PartitionId, Version};
    use weft_transport::{NodeId, Time};

    use super::*;
    use crate::durable::disk::{DiskError, Effect, perform};
    use crate::durable::{
        AppendError, Completeness, Directory, Event, Identity, Settings, recover,
    };

    const PARTITION: PartitionId = PartitionId(3);
    const FILE_BYTES: u64 = 64 << 10;
    const IDENTITY: Identity = Identity { cluster: 1, node: NodeId(1), mode: Mode::Disk };

    struct Driven {
        log: Log,
        directory: Directory,
        folder: tempfile::TempDir,
        is_full: bool,
        /// What is left of the room that is kept for the newest file.
        room_bytes: u64,
        now: Time,
    }

    fn settings() -> Settings {
        Settings { file_bytes: FILE_BYTES, ..Settings::default() }
    }

    impl Driven {
        fn new() -> Driven {
            let folder = tempfile::tempdir().unwrap();
            let mut directory = Directory::open(folder.path()).unwrap();
            let recovery = recover(&mut directory, IDENTITY, &settings()).unwrap();
            let log = Log::new(settings(), &recovery);
            let mut driven =
                Driven { log, directory, folder, is_full: false, room_bytes: 0, now: Time::ZERO };
            driven.go_on();
            driven.log.create(PARTITION, 1, Time::ZERO).unwrap();
            driven
        }

        /// Does all that the log asks for within a second; a disk that is full makes no file.
        fn go_on(&mut self) {
            self.now = self.now + Duration::from_secs(1);
            while let Some(mut effect) = self.log.poll(self.now) {
                let outcome = match effect {
                    Effect::Create { .. } if self.is_full => Err(DiskError::Full),
                    _ => self.perform(&mut effect),
                };
                self.log.done(effect, outcome, self.now);
            }
        }

        /// On a disk that has no more room than is kept.
        fn perform(&mut self, effect: &mut Effect) -> Result<(), DiskError> {
            match effect {
                Effect::Create { reserve_bytes, .. } => self.room_bytes = *reserve_bytes,
                Effect::Write { bytes, .. } => {
                    let left = self.room_bytes.checked_sub(bytes.get().len() as u64);
                    self.room_bytes = left.expect("more is written than room is kept for");
                }
                _ => {}
            }
            perform(&mut self.directory, effect)
        }

        /// Appends entries of `len` bytes from `first` on for as long as they are taken. Returns the last that was.
        fn append_all(&mut self, first: u64, len: usize) -> u64 {
            for sequence in first.. {
                let version = Version::new(1, sequence);
                let entry = vec![sequence as u8; len];
                match self.log.append(PARTITION, version, version, &[&entry], self.now) {
                    Ok(()) => {}
                    Err(AppendError::Backlog { .. }) => return sequence - 1,
                    Err(error) => panic!("{error}"),
                }
            }
            unreachable!()
        }

        fn events(&mut self) -> Vec<Event> {
            std::iter::from_fn(|| self.log.next_event()).collect()
        }

        /// Closes it. Returns the last entry that the next process finds, if it finds the log complete.
        fn close(mut self) -> Option<u64> {
            self.log.close();
            self.go_on();
            assert_eq!(*self.log.state(), State::Closed);
            drop(self.directory);
            let mut directory = Directory::open(self.folder.path()).unwrap();
            let recovery = recover(&mut directory, IDENTITY, &settings()).unwrap();
            let found = recovery.partition(PARTITION);
            let is_complete = found.completeness == Completeness::CompleteClean;
            is_complete.then_some(found.last.sequence())
        }
    }

    /// Of whatever length, and whatever was written before.
    #[test]
    fn whatever_was_taken_is_on_disk_when_the_log_is_closed_though_the_disk_is_full() {
        for len in [1, 100, 5_000, 60_000, 200_000] {
            for written in [0, 1, 7] {
                let mut driven = Driven::new();
                let mut last = 0;
                for _ in 0..written {
                    last = driven.append_all(last + 1, len);
                    driven.go_on();
                }
                driven.is_full = true;
                loop {
                    let before = last;
                    last = driven.append_all(last + 1, len);
                    driven.go_on();
                    if last == before {
                        break;
                    }
                }
                assert_eq!(*driven.log.state(), State::Full, "{len} after {written}");
                assert!(last > 0 || len as u64 > FILE_BYTES, "{len} after {written}");
                assert_eq!(driven.close(), Some(last), "{len} after {written}");
            }
        }
    }

    /// Though nothing waits for it: what there was has been written behind meanwhile.
    #[test]
    fn a_log_whose_disk_was_full_goes_on_when_there_is_room() {
        let mut driven = Driven::new();
        driven.is_full = true;
        let mut last = 0;
        // Nothing is refused for want of room: who is would ask for a file.
        while *driven.log.state() != State::Full {
            last += 1;
            let version = Version::new(1, last);
            let entry = vec![7; 5_000];
            driven.log.append(PARTITION, version, version, &[&entry], driven.now).unwrap();
            driven.go_on();
        }
        (0..3).for_each(|_| driven.go_on());
        assert!(!driven.log.has_room());
        assert!(driven.log.next_at().is_some(), "it is tried again");
        driven.is_full = false;
        driven.go_on();
        assert!(driven.log.has_room());
        assert!(driven.events().contains(&Event::Resumed));
        assert!(driven.append_all(last + 1, 5_000) > last);
    }

    #[test]
    fn an_entry_longer_than_what_there_is_room_for_gets_a_file_of_its_own_size() {
        let mut driven = Driven::new();
        driven.go_on();
        driven.events();
        let len = 20 * FILE_BYTES as usize;
        assert_eq!(driven.append_all(1, len), 0);
        driven.go_on();
        assert_eq!(driven.events().last(), Some(&Event::MadeRoom));
        let version = Version::new(1, 1);
        let entry = vec![1; len];
        driven.log.append(PARTITION, version, version, &[&entry], driven.now).unwrap();
        assert_eq!(driven.close(), Some(1));
    }

    /// While a file is made, what is taken has room in that, too: it is where all that waits goes.
    #[test]
    fn what_comes_while_a_file_is_made_has_room_in_it() {
        let mut driven = Driven::new();
        let mut last = driven.append_all(1, 1_000);
        let mut effect = driven.log.poll(driven.now);
        while !matches!(effect, Some(Effect::Create { .. })) {
            let mut done = effect.expect("it makes a file");
            let outcome = driven.perform(&mut done);
            driven.log.done(done, outcome, driven.now);
            effect = driven.log.poll(driven.now);
        }
        let mut create = effect.unwrap();
        last = driven.append_all(last + 1, 10);
        let outcome = driven.perform(&mut create);
        driven.log.done(create, outcome, driven.now);
        driven.is_full = true;
        driven.log.close();
        assert_eq!(driven.close(), Some(last));
    }

    /// Room that was kept for what may have waited, and did not, is the disk's again when the next file is there.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "what the files take is the system's to say")]
    fn a_file_that_is_not_written_to_any_more_takes_what_it_has() {
        use std::os::unix::fs::MetadataExt as _;
        let mut driven = Driven::new();
        let mut last = 0;
        for _ in 0..40 {
            last += 1;
            let version = Version::new(1, last);
            let entry = vec![7; 20_000];
            driven.log.append(PARTITION, version, version, &[&entry], driven.now).unwrap();
            driven.go_on();
        }
        let files = std::fs::read_dir(driven.folder.path()).unwrap();
        let metadata: Vec<_> = files.map(|file| file.unwrap().metadata().unwrap()).collect();
        let taken: u64 = metadata.iter().map(|file| file.blocks() * 512).sum();
        let long: u64 = metadata.iter().map(|file| file.len()).sum();
        assert!(metadata.len() > 5, "{}", metadata.len());
        assert!(taken < long + 6 * FILE_BYTES, "{taken} bytes for {long}");
    }

    /// Entries that cannot be taken back once they are made are asked room for before, but for short ones, for which some is left.
    #[test]
    fn what_was_promised_room_is_taken_though_the_disk_is_full() {
        for len in [100, 5_000, 30_000] {
            let mut driven = Driven::new();
            driven.go_on();
            driven.is_full = true;
            let promised: Vec<u64> = std::iter::from_fn(|| driven.log.promise(len)).collect();
            assert!(promised.len() > 4, "{}", promised.len());
            let mut sequence = 0;
            let mut append = |driven: &mut Driven, len: usize, mut promised: u64| {
                sequence += 1;
                let version = Version::new(1, sequence);
                let entry = vec![7; len];
                let now = driven.now;
                driven.log.append_made(PARTITION, version, &[&entry], &mut promised, now).unwrap();
                assert_eq!(promised, 0);
            };
            for _ in 0..driven.log.kept_bytes() >> 10 {
                append(&mut driven, LOG_UNASKED_BYTES, 0);
            }
            // Nobody else may take what is kept for these.
            let version = Version::new(1, 1);
            let refused = driven.log.append(PARTITION, version, version, &[&[7]], driven.now);
            assert!(matches!(refused, Err(AppendError::Backlog { .. })), "{refused:?}");
            for bytes in promised {
                append(&mut driven, len, bytes);
            }
            let last = sequence;
            assert_eq!(driven.close(), Some(last), "{len}");
        }
    }

    /// Nothing is there for which it would be needed: what was asked is no reason to refuse all that there is room for.
    #[test]
    fn a_disk_without_room_for_what_was_only_asked_for_is_not_full() {
        let mut driven = Driven::new();
        driven.go_on();
        driven.is_full = true;
        assert_eq!(driven.log.promise(100_000_000), None);
        driven.go_on();
        assert_eq!(*driven.log.state(), State::Open);
        assert!(driven.log.promise(1000).is_some());
        // A file is made for it as soon as there is room, if it is asked for again.
        driven.is_full = false;
        assert_eq!(driven.log.promise(280_000), None);
        driven.go_on();
        assert!(driven.log.promise(280_000).is_some());
        assert!(!driven.events().contains(&Event::Full));
    }
}
