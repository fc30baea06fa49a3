//! The log where the system is watched, or made to run out of room. What a machine does not allow is left out, and said so.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the tools that watch, and itself under them"
)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use weft_protocol::{PartitionId, Version};
use weft_transport::Clock;

use super::on_files::identity;
use super::*;
use crate::small_disk::SmallDisk;

/// The folder in which the process that is watched has its log; set by who starts it.
const WATCHED_FOLDER: &str = "WEFT_WATCHED_FOLDER";
/// So many times entries of several partitions are given together, for one sync.
const GROUPS: u64 = 20;
const PARTITIONS: u16 = 3;
const TOGETHER: u64 = 4;
const ENTRY_BYTES: usize = 200;

#[test]
#[ignore = "what the test below runs under strace"]
fn watched() {
    let Ok(folder) = std::env::var(WATCHED_FOLDER) else { return };
    let mut directory = Directory::open(folder.as_ref()).unwrap();
    let recovery = recover(&mut directory, identity(Mode::Fsync), &Settings::default()).unwrap();
    let log = Log::new(Settings::default(), &recovery);
    let (sender, events) = channel();
    let acknowledged = format!("{folder}/acknowledged");
    let tell = move |told: &[Event]| {
        for event in told {
            if matches!(event, Event::Durable { .. }) {
                // An attempt that fails: only the call is looked for, among the others of this thread.
                let _ = std::fs::remove_dir(&acknowledged);
            }
            sender.send(event.clone()).unwrap();
        }
    };
    let commit = CommitThread::start(log, directory, Clock::system(), tell).unwrap();
    while events.recv() != Ok(Event::Opened) {}
    let partitions = || (0..PARTITIONS).map(PartitionId);
    commit.with(|log, now| partitions().for_each(|id| log.create(id, 1, now).unwrap()));
    for group in 1..=GROUPS {
        let (first, last) = (1 + (group - 1) * TOGETHER, group * TOGETHER);
        commit.with(|log, now| {
            for version in (first..=last).map(|sequence| Version::new(1, sequence)) {
                partitions().for_each(|id| {
                    log.append(id, version, version, &[&[7; ENTRY_BYTES]], now).unwrap();
                });
            }
        });
        let version = Version::new(1, last);
        let told = partitions().map(|partition| Event::Durable { partition, version });
        for awaited in told {
            while events.recv() != Ok(awaited.clone()) {}
        }
    }
}

#[test]
fn the_system_has_synced_a_group_of_entries_before_they_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let outcome = Command::new("strace")
        .args(["-f", "-s", "8", "-e", "trace=write,fdatasync,rmdir", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "durable::under_watch::watched"])
        .env(WATCHED_FOLDER, folder.path().join("log"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !outcome.is_ok_and(|status| status.success()) {
        println!("left out: strace is not there, or not allowed");
        return;
    }
    let trace = std::fs::read_to_string(&trace).unwrap();
    // What is as long as a group's entries has them in it; what is not makes partitions, or says how much is synced.
    let group_bytes = u64::from(PARTITIONS) * TOGETHER * ENTRY_BYTES as u64;
    let written = |line: &str| -> u64 {
        let is_frames = line.contains("write(") && line.contains("\"frm");
        let len = line.rsplit("= ").next().and_then(|len| len.trim().parse().ok());
        len.filter(|_| is_frames).unwrap_or(0)
    };
    // Groups that were written, and those that were synced.
    let (mut written_groups, mut synced_groups, mut acknowledged, mut syncs) = (0, 0, 0, 0);
    for line in trace.lines() {
        if written(line) >= group_bytes {
            written_groups += 1;
        } else if line.contains("fdatasync(") || line.contains("fdatasync resumed") {
            // Of a call in two lines, the second is its end.
            if line.trim_end().ends_with("= 0") {
                (synced_groups, syncs) = (written_groups, syncs + 1);
            }
        } else if line.contains("rmdir(") {
            let is_synced = acknowledged / u64::from(PARTITIONS) < synced_groups;
            assert!(is_synced, "acknowledged before it was synced:\n{trace}");
            acknowledged += 1;
        }
    }
    assert_eq!(acknowledged, GROUPS * u64::from(PARTITIONS), "{trace}");
    assert_eq!(written_groups, GROUPS, "{trace}");
    // Each group takes one; the file's head and name take a few more.
    assert!((GROUPS..GROUPS + 8).contains(&syncs), "{syncs}:\n{trace}");
}

#[test]
fn a_full_disk_stops_the_log_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let path = disk.path().join("log");
    let mut directory = Directory::open(&path).unwrap();
    let settings = Settings { file_bytes: 256 << 10, ..Settings::default() };
    let recovery = recover(&mut directory, identity(Mode::Fsync), &settings).unwrap();
    let log = Log::new(settings.clone(), &recovery);
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 300 << 10]).unwrap();
    let (sender, events) = channel();
    let tell = move |told: &[Event]| told.iter().for_each(|event| drop(sender.send(event.clone())));
    let commit = Arc::new(CommitThread::start(log, directory, Clock::system(), tell).unwrap());
    let partition = PartitionId(0);
    while events.recv() != Ok(Event::Opened) {}
    commit.with(|log, now| log.create(partition, 1, now)).unwrap();
    let mut version = Version::new(1, 0);
    // Until there is no room for the next file.
    loop {
        version = version.next().unwrap();
        let bytes = [7; 8 << 10];
        commit.with(|log, now| log.append(partition, version, version, &[&bytes], now)).unwrap();
        let event = events
            .iter()
            .find(|event| *event == Event::Full || *event == Event::Durable { partition, version });
        if event == Some(Event::Full) {
            break;
        }
        assert!(version.sequence() < 1000);
    }
    assert!(commit.with(|log, _| !log.has_room()));
    std::fs::remove_file(&ballast).unwrap();
    while events.recv() != Ok(Event::Durable { partition, version }) {}
    drop(commit);
    let mut directory = Directory::open(&path).unwrap();
    let found = recover(&mut directory, identity(Mode::Fsync), &settings).unwrap();
    let found = found.partition(partition);
    assert_eq!((found.last, found.completeness), (version, Completeness::CompleteFsync));
}

#[test]
fn who_closes_a_log_on_a_full_disk_does_not_wait_for_ever() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let mut directory = Directory::open(&disk.path().join("log")).unwrap();
    let settings = Settings { file_bytes: 256 << 10, ..Settings::default() };
    let recovery = recover(&mut directory, identity(Mode::Fsync), &settings).unwrap();
    let log = Log::new(settings.clone(), &recovery);
    std::fs::write(disk.path().join("ballast"), vec![1; 600 << 10]).unwrap();
    let (sender, events) = channel();
    let tell = move |told: &[Event]| told.iter().for_each(|event| drop(sender.send(event.clone())));
    let commit = CommitThread::start(log, directory, Clock::system(), tell).unwrap();
    let partition = PartitionId(0);
    while events.recv() != Ok(Event::Opened) {}
    commit.with(|log, now| log.create(partition, 1, now)).unwrap();
    for sequence in 1..100 {
        let version = Version::new(1, sequence);
        let bytes = [7; 8 << 10];
        commit.with(|log, now| log.append(partition, version, version, &[&bytes], now)).unwrap();
    }
    while events.recv() != Ok(Event::Full) {}
    assert_eq!(commit.close(Duration::from_millis(50)), Err(CloseError::Late));
}
