//! A log on a disk that is full, or nearly: whatever it was doing when the room ended, it says so, and has all that was acknowledged when there is
//! room again. Each of these tests is a process that RocksDB would abort, where its assertions are built in.

use std::path::Path;

use raft::eraftpb::Entry;

use super::conformance::{founding, hard_state};
use super::{Batch, LogError, RaftLog, Recovered, RocksLog};
use crate::small_disk::SmallDisk;

/// A batch of this is 20 times in the memory that RocksDB makes a file of.
const ENTRY_BYTES: usize = 100 << 10;

/// Committed in term 1.
fn appended(index: u64, bytes: usize) -> Batch {
    let mut entry = Entry::default();
    (entry.index, entry.term, entry.data) = (index, 1, vec![index as u8; bytes]);
    Batch {
        entries: vec![entry],
        hard_state: hard_state(1, 1, index),
        must_sync: true,
        ..Batch::default()
    }
}

fn opened(folder: &Path) -> Result<Recovered, LogError> {
    RocksLog::open(folder)?.recover()
}

fn last_index(found: &Recovered) -> u64 {
    found.entries.last().map_or(1, |entry| entry.index)
}

fn assert_says_what_to_do(error: &LogError) {
    let told = error.to_string();
    assert!(told.contains("No space left") && told.contains("free space, then start"), "{told}");
}

/// With no room at all, with some for a part of what it makes, and with enough.
fn rooms_of_an_opening() -> impl Iterator<Item = u64> {
    (0..=128).step_by(4).map(|kibibytes| kibibytes << 10)
}

#[test]
fn a_disk_that_fills_up_while_the_log_is_written_costs_nothing_that_was_acknowledged() {
    let rooms = [0, 4, 64, 128, 1 << 10, 2304, 3 << 10];
    for leave_bytes in rooms.map(|kibibytes| kibibytes << 10) {
        // What is written, what starts that fail leave, and as much again when it is free.
        let Some(disk) = SmallDisk::mount(24) else { return };
        let folder = disk.path().join("log");
        let mut log = RocksLog::create(&folder, &founding()).unwrap();
        disk.fill(leave_bytes);
        let mut last = 1;
        let full = loop {
            match log.write(&appended(last + 1, ENTRY_BYTES)) {
                Ok(()) => last += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, LogError::Write { is_full: true, .. }), "{full}");
        assert_says_what_to_do(&full);
        let refused = log.write(&appended(last + 1, 1));
        assert!(matches!(refused, Err(LogError::Poisoned { .. })), "{refused:?}");
        drop(log);
        // What was being written may be there, and need not.
        let is_whole = |found: Recovered| (last..=last + 1).contains(&last_index(&found));
        for _ in 0..3 {
            match opened(&folder) {
                Ok(found) => assert!(is_whole(found), "with {leave_bytes} bytes"),
                Err(error) => assert_says_what_to_do(&error),
            }
        }
        disk.free();
        assert!(is_whole(opened(&folder).unwrap()), "with {leave_bytes} bytes");
    }
}

#[test]
fn a_log_is_opened_on_a_full_disk_or_is_left_as_good_as_it_was() {
    let (mut whole, mut refused) = (0, 0);
    for leave_bytes in rooms_of_an_opening() {
        let Some(disk) = SmallDisk::mount(8) else { return };
        let folder = disk.path().join("log");
        let mut log = RocksLog::create(&folder, &founding()).unwrap();
        (2..50).for_each(|index| log.write(&appended(index, 1 << 10)).unwrap());
        drop(log);
        disk.fill(leave_bytes);
        for _ in 0..10 {
            match opened(&folder) {
                Ok(found) => {
                    assert_eq!(last_index(&found), 49);
                    whole += 1;
                }
                Err(error) => {
                    assert_says_what_to_do(&error);
                    refused += 1;
                }
            }
        }
        // However often it is tried.
        assert!(folder.read_dir().unwrap().count() < 30);
        disk.free();
        let mut log = RocksLog::open(&folder).unwrap();
        assert_eq!(last_index(&log.recover().unwrap()), 49);
        log.write(&appended(50, 1)).unwrap();
    }
    assert!(whole > 0 && refused > 0, "{whole} and {refused}");
}

#[test]
fn a_log_is_made_on_a_full_disk_or_can_be_when_there_is_room() {
    let (mut made, mut refused) = (0, 0);
    for leave_bytes in rooms_of_an_opening() {
        let Some(disk) = SmallDisk::mount(8) else { return };
        let folder = disk.path().join("log");
        disk.fill(leave_bytes);
        match RocksLog::create(&folder, &founding()) {
            Ok(_) => made += 1,
            Err(error) => {
                assert_says_what_to_do(&error);
                refused += 1;
            }
        }
        disk.free();
        match RocksLog::create(&folder, &founding()) {
            Ok(_) | Err(LogError::Occupied { .. }) => {}
            Err(error) => panic!("with {leave_bytes} bytes: {error}"),
        }
        assert_eq!(last_index(&opened(&folder).unwrap()), 1);
    }
    assert!(made > 0 && refused > 0, "{made} and {refused}");
}
