//! What the log takes, in figures: `cargo test --release -p weft-server --lib durable::figures -- --ignored --nocapture`.
#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_protocol::{PartitionId, Version};
use weft_transport::Clock;

use super::on_files::{Acknowledged, identity};
use super::*;

fn start(folder: &tempfile::TempDir, mode: Mode) -> (Arc<CommitThread>, Arc<Acknowledged>) {
    let mut directory = Directory::open(&folder.path().join("log")).unwrap();
    let recovery = recover(&mut directory, identity(mode), &Settings::default()).unwrap();
    let log = Log::new(Settings::default(), &recovery);
    let acknowledged = Arc::new(Acknowledged::default());
    let tell = {
        let acknowledged = Arc::clone(&acknowledged);
        move |events: &[Event]| acknowledged.take(events)
    };
    let commit = CommitThread::start(log, directory, Clock::system(), tell).unwrap();
    while commit.with(|log, _| *log.state() != State::Open) {
        std::thread::yield_now();
    }
    (Arc::new(commit), acknowledged)
}

#[test]
#[ignore = "measures"]
fn appends_written_behind() {
    for entry_bytes in [104, 1024] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let (commit, _) = start(&folder, Mode::Disk);
        let partitions = 64;
        for partition in (0..partitions).map(PartitionId) {
            commit.with(|log, now| log.create(partition, 1, now)).unwrap();
        }
        let bytes = vec![7; entry_bytes];
        let total = (1 << 30) / entry_bytes as u64;
        let begin = Instant::now();
        let mut in_append = Duration::ZERO;
        for round in 0..total / 16 {
            // A batch of a partition, as one turn of a reactor has it.
            let partition = PartitionId((round % partitions as u64) as u16);
            let first = round / partitions as u64 * 16 + 1;
            while commit.with(|log, _| !log.has_room()) {
                std::thread::yield_now();
            }
            let before = Instant::now();
            commit.with(|log, now| {
                for sequence in first..first + 16 {
                    let version = Version::new(1, sequence);
                    log.append(partition, version, version, &[&bytes], now).unwrap();
                }
            });
            in_append += before.elapsed();
        }
        let elapsed = begin.elapsed();
        let rate = total as f64 / elapsed.as_secs_f64();
        println!(
            "{entry_bytes} B: {rate:.0} entries/s, {:.0} MB/s, {:.0} ns in an append",
            rate * entry_bytes as f64 / 1e6,
            in_append.as_nanos() as f64 / total as f64,
        );
        Arc::into_inner(commit).unwrap().close(Duration::from_secs(60)).unwrap();
    }
}

#[test]
#[ignore = "measures"]
fn group_commit_against_a_sync_for_each_write() {
    let time = Duration::from_secs(5);
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("bare");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let begin = Instant::now();
    let mut alone = 0_u64;
    while begin.elapsed() < time {
        file.write_all(&[7; 104]).unwrap();
        file.sync_data().unwrap();
        alone += 1;
    }
    let alone = alone as f64 / time.as_secs_f64();
    let (commit, acknowledged) = start(&folder, Mode::Fsync);
    let done = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let waiters: Vec<_> = (0..100)
        .map(|partition| {
            let (commit, acknowledged) = (Arc::clone(&commit), Arc::clone(&acknowledged));
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                let partition = PartitionId(partition);
                commit.with(|log, now| log.create(partition, 1, now)).unwrap();
                for sequence in 1.. {
                    let version = Version::new(1, sequence);
                    let appended = commit.with(|log, now| {
                        log.append(partition, version, version, &[&[7; 104]], now)
                    });
                    appended.unwrap();
                    acknowledged.wait(partition, version);
                    done.fetch_add(1, Ordering::Relaxed);
                    if begin.elapsed() > time {
                        return;
                    }
                }
            })
        })
        .collect();
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    let together = done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
    println!(
        "a sync for each write: {alone:.0}/s; 100 waiters: {together:.0}/s, {:.1} times",
        together / alone
    );
}
