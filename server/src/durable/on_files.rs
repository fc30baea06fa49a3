//! The log on the system's files: what was told to be durable was synced before, and is there afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weft_protocol::{PartitionId, Version};
use weft_transport::{Clock, NodeId};

use super::*;

pub(super) fn identity(mode: Mode) -> Identity {
    Identity { cluster: 11, node: NodeId(4), mode }
}

/// What a thread waits for: how far each partition is durable.
#[derive(Default)]
pub(super) struct Acknowledged {
    durable: Mutex<BTreeMap<PartitionId, Version>>,
    changed: Condvar,
}

impl Acknowledged {
    pub(super) fn take(&self, events: &[Event]) {
        let mut durable = self.durable.lock();
        for event in events {
            if let Event::Durable { partition, version } = event {
                durable.insert(*partition, *version);
            }
        }
        self.changed.notify_all();
    }

    pub(super) fn wait(&self, partition: PartitionId, version: Version) {
        let mut durable = self.durable.lock();
        while durable.get(&partition).is_none_or(|durable| *durable < version) {
            self.changed.wait(&mut durable);
        }
    }
}

/// A log in this directory, on a disk that `wrap` makes of it; and its events.
fn start<D: Disk + Send + 'static>(
    path: &Path,
    mode: Mode,
    wrap: impl FnOnce(Directory) -> D,
) -> (CommitThread, Recovery, Receiver<Event>) {
    let mut directory = Directory::open(path).unwrap();
    let settings = Settings { file_bytes: 64 << 10, ..Settings::default() };
    let recovery = recover(&mut directory, identity(mode), &settings).unwrap();
    let (sender, events) = channel();
    let log = Log::new(settings, &recovery);
    let tell = move |told: &[Event]| told.iter().for_each(|event| drop(sender.send(event.clone())));
    let commit = CommitThread::start(log, wrap(directory), Clock::system(), tell).unwrap();
    assert_eq!(events.recv(), Ok(Event::Opened));
    (commit, recovery, events)
}

fn append(commit: &CommitThread, partition: u16, sequence: u64) {
    let version = Version::new(1, sequence);
    let bytes = entry(partition, sequence);
    let appended = commit
        .with(|log, now| log.append(PartitionId(partition), version, version, &[&bytes], now));
    appended.unwrap();
}

fn entry(partition: u16, sequence: u64) -> Vec<u8> {
    vec![(u64::from(partition) * 31 + sequence) as u8; 8 + sequence as usize % 50 * 8]
}

fn create(commit: &CommitThread, partition: u16) {
    commit.with(|log, now| log.create(PartitionId(partition), 1, now)).unwrap();
}

fn wait_for(events: &Receiver<Event>, awaited: &Event) {
    while events.recv().unwrap() != *awaited {}
}

fn replayed(path: &Path, recovery: &Recovery) -> Vec<(PartitionId, Vec<u8>)> {
    let mut directory = Directory::open(path).unwrap();
    let mut bytes: BTreeMap<PartitionId, Vec<u8>> = BTreeMap::new();
    let mut visit = |replayed: Replayed<'_>| match replayed {
        Replayed::Entries { partition, entries, .. } => {
            bytes.entry(partition).or_default().extend_from_slice(entries);
        }
        Replayed::Piece { .. } => panic!("no snapshot was made"),
        Replayed::Base { .. } | Replayed::BaseEnd { .. } => {}
    };
    recovery.replay(&mut directory, &mut |_| true, &mut visit).unwrap();
    bytes.into_iter().collect()
}

#[test]
fn what_was_durable_is_there_when_the_node_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (commit, recovery, events) = start(&path, Mode::Fsync, |directory| directory);
    assert_eq!(recovery.partitions().count(), 0);
    (0..8).for_each(|partition| create(&commit, partition));
    for sequence in 1..=200 {
        (0..8).for_each(|partition| append(&commit, partition, sequence));
        if sequence % 20 == 0 {
            let (partition, version) = (PartitionId(7), Version::new(1, sequence));
            wait_for(&events, &Event::Durable { partition, version });
        }
    }
    let version = Version::new(1, 200);
    drop(commit);
    let (commit, recovery, _) = start(&path, Mode::Fsync, |directory| directory);
    drop(commit);
    assert!(!recovery.is_clean());
    for partition in recovery.partitions() {
        assert_eq!(partition.completeness, Completeness::CompleteFsync);
        assert_eq!((partition.last, partition.epoch), (version, 1));
    }
    let expected = |partition: u16| (1..=200).flat_map(|at| entry(partition, at)).collect();
    let expected: Vec<(PartitionId, Vec<u8>)> =
        (0..8).map(|partition| (PartitionId(partition), expected(partition))).collect();
    assert_eq!(replayed(&path, &recovery), expected);
    let names = Directory::open(&path).unwrap().names().unwrap();
    assert!(names.len() > 5, "{names:?}");
}

#[test]
fn a_log_that_was_closed_is_complete_and_one_that_was_written_behind_and_not_closed_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (commit, _, _events) = start(folder.path(), Mode::Disk, |directory| directory);
    create(&commit, 1);
    append(&commit, 1, 1);
    commit.close(Duration::from_secs(60)).unwrap();
    let (commit, recovery, _events) = start(folder.path(), Mode::Disk, |directory| directory);
    let found = recovery.partition(PartitionId(1));
    assert_eq!(found.completeness, Completeness::CompleteClean);
    assert_eq!(found.last, Version::new(1, 1));
    append(&commit, 1, 2);
    drop(commit);
    let (_commit, recovery, _events) = start(folder.path(), Mode::Disk, |directory| directory);
    let reason = Incomplete::NotClosed;
    let found = recovery.partition(PartitionId(1));
    assert_eq!(found.completeness, Completeness::Incomplete { reason });
}

#[test]
fn a_directory_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = Directory::open(folder.path()).unwrap();
    let second = Directory::open(folder.path());
    assert!(matches!(second, Err(DirectoryError::InUse { .. })), "{second:?}");
    drop(first);
    assert!(Directory::open(folder.path()).is_ok());
}

/// What was done, in order.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Wrote { bytes: usize },
    Synced,
    Told(Event),
}

/// Writes down what is done on a disk.
struct Recorder {
    directory: Directory,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Disk for Recorder {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        self.directory.names()
    }
    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError> {
        self.directory.create(name, reserve_bytes)
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.directory.append(name, bytes)?;
        self.steps.lock().push(Step::Wrote { bytes: bytes.len() });
        Ok(())
    }
    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        self.directory.sync(name)?;
        self.steps.lock().push(Step::Synced);
        Ok(())
    }
    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.directory.sync_names()
    }
    fn trim(&mut self, name: &str) -> Result<(), DiskError> {
        self.directory.trim(name)
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.directory.remove(name)
    }
    fn settle(&mut self, name: &str) -> Result<(), DiskError> {
        self.directory.settle(name)
    }
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.directory.read_at(name, offset, into)
    }
}

#[test]
fn nothing_is_told_to_be_durable_before_the_sync_that_follows_its_write() {
    let folder = tempfile::tempdir().unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let mut directory = Directory::open(folder.path()).unwrap();
    let recovery = recover(&mut directory, identity(Mode::Fsync), &Settings::default()).unwrap();
    let log = Log::new(Settings::default(), &recovery);
    let recorder = Recorder { directory, steps: Arc::clone(&steps) };
    let (sender, events) = channel();
    let tell = {
        let steps = Arc::clone(&steps);
        move |told: &[Event]| {
            steps.lock().extend(told.iter().cloned().map(Step::Told));
            told.iter().for_each(|event| drop(sender.send(event.clone())));
        }
    };
    let commit = CommitThread::start(log, recorder, Clock::system(), tell).unwrap();
    assert_eq!(events.recv(), Ok(Event::Opened));
    create(&commit, 0);
    let partition = PartitionId(0);
    wait_for(&events, &Event::SnapshotDurable { partition });
    for sequence in 1..=50 {
        // One at a time, so that each has a write and a sync of its own.
        append(&commit, 0, sequence);
        wait_for(&events, &Event::Durable { partition, version: Version::new(1, sequence) });
    }
    commit.close(Duration::from_secs(60)).unwrap();
    let steps = steps.lock();
    let told = |step: &Step| matches!(step, Step::Told(Event::Durable { .. }));
    let mut syncs = 0;
    for (index, _) in steps.iter().enumerate().filter(|(_, step)| told(step)) {
        let before: Vec<&Step> =
            steps[..index].iter().rev().take_while(|step| !told(step)).collect();
        // Backwards from the acknowledgement: a sync, and then the write.
        let sync = before.iter().position(|step| **step == Step::Synced).unwrap();
        let is_entry = |step: &&Step| matches!(step, Step::Wrote { bytes } if *bytes > 48);
        let write = before.iter().position(is_entry).unwrap();
        assert!(sync < write, "{before:?}");
        syncs += 1;
    }
    assert_eq!(syncs, 50);
}

#[test]
fn files_are_short_at_first_and_then_as_long_as_they_may_be() {
    let settings = Settings::default();
    let mib: Vec<u64> = (1..8).map(|number| settings.bytes_of_file(number) >> 20).collect();
    assert_eq!(mib, [4, 8, 16, 32, 64, 64, 64]);
    assert_eq!(settings.bytes_of_file(u64::MAX), settings.file_bytes);
    let short = Settings { file_bytes: 64 << 10, ..settings };
    assert_eq!(short.bytes_of_file(1), 64 << 10);
}

/// Each life makes a file, with room for much more than it may come to write.
#[test]
#[expect(clippy::disallowed_methods, reason = "what the files take is the system's to say")]
fn room_that_a_life_has_not_used_is_given_back_when_the_next_one_starts() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::default();
    let lives = 6;
    for life in 0..lives {
        let mut directory = Directory::open(folder.path()).unwrap();
        let recovery = recover(&mut directory, identity(Mode::Fsync), &settings).unwrap();
        let (sender, events) = channel();
        let tell = move |told: &[Event]| {
            told.iter().for_each(|event| drop(sender.send(event.clone())));
        };
        let log = Log::new(settings.clone(), &recovery);
        let commit = CommitThread::start(log, directory, Clock::system(), tell).unwrap();
        assert_eq!(events.recv(), Ok(Event::Opened));
        create(&commit, life);
        wait_for(&events, &Event::SnapshotDurable { partition: PartitionId(life) });
    }
    let mut directory = Directory::open(folder.path()).unwrap();
    let recovery = recover(&mut directory, identity(Mode::Fsync), &settings).unwrap();
    assert_eq!(recovery.holdings().iter().count(), usize::from(lives));
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap());
    let taken: u64 = files.map(|file| file.metadata().unwrap().blocks() * 512).sum();
    assert!(taken < 1 << 20, "{taken} bytes");
}
