//! What is there when a node starts again.

use weft_protocol::limits::UPLOAD_PIECE_BYTES;
use weft_protocol::{
    CompleteUpload, Delete, Durability, PutReply, Target, Truncate, TruncateReply, UploadEffect,
    UploadPiece, Version,
};

use super::disk_node::{DISK, DiskNode, FSYNC};
use crate::support::{TABLE, noise, target};

fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn value(number: usize, life: u64) -> Vec<u8> {
    let len = noise().nth(number).unwrap() as usize % 3000;
    vec![(number as u64 + life) as u8; len]
}

#[test]
fn all_that_fsync_acknowledged_is_there_after_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = Version::NONE;
    for life in 1..=4 {
        let node = DiskNode::start(folder.path(), life);
        let found = node.found();
        if life > 1 {
            assert_eq!(found.iter().filter(|one| **one == (Durability::Fsync, true)).count(), 4);
            // Of these, what was written behind may or may not be there yet; it is not all in any case.
            assert!(!found.contains(&(Durability::Disk, true)), "{found:?}");
        }
        for number in 0..200 {
            let expected = (life > 1 && number % 7 != 0).then(|| value(number, life - 1));
            assert_eq!(node.get(FSYNC, &key(number)), expected, "{number} in life {life}");
            assert_eq!(node.get(DISK, &key(number)), None);
            assert_eq!(node.get(TABLE, &key(number)), None);
        }
        for number in 0..200 {
            let version = node.put(FSYNC, &key(number), &value(number, life));
            if number == 0 {
                assert!(version > last, "versions go on");
                last = version;
            }
            node.put(DISK, &key(number), &value(number, life));
            node.put(TABLE, &key(number), &value(number, life));
            if number % 7 == 0 {
                let key = key(number);
                node.client.call(Delete { target: Target { table: FSYNC, ..target(&key) } });
            }
        }
        node.crash();
    }
}

/// Their first entry makes the table, at the moment when the log begins.
#[test]
fn partitions_that_are_made_for_a_table_are_there_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    for life in 1..=3 {
        let node = DiskNode::start_with_tables(folder.path(), life);
        for number in 0..100 {
            let expected = (life > 1).then(|| value(number, life - 1));
            assert_eq!(node.get(FSYNC, &key(number)), expected, "{number} in life {life}");
            node.put(FSYNC, &key(number), &value(number, life));
        }
        match life {
            1 => node.stop(),
            _ => node.crash(),
        }
    }
}

#[test]
fn all_is_there_after_an_orderly_stop() {
    let folder = tempfile::tempdir().unwrap();
    for life in 1..=3 {
        let node = DiskNode::start(folder.path(), life);
        for table in [FSYNC, DISK] {
            for number in 0..100 {
                let expected = (life > 1).then(|| value(number, life - 1));
                assert_eq!(node.get(table, &key(number)), expected, "{number} in life {life}");
                node.put(table, &key(number), &value(number, life));
            }
        }
        assert!(node.found().iter().all(|(_, is_complete)| *is_complete));
        node.stop();
    }
}

#[test]
fn a_table_that_was_emptied_and_a_value_that_came_in_pieces_are_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let node = DiskNode::start(folder.path(), 1);
    for number in 0..50 {
        node.put(FSYNC, &key(number), b"gone");
    }
    let reply = node.client.call(Truncate { table: FSYNC, map_epoch: 1 });
    assert_eq!(TruncateReply::decode(&reply).unwrap().removed, 50);
    let long: Vec<u8> = (0..3 * UPLOAD_PIECE_BYTES + 5).map(|at| (at / 7) as u8).collect();
    let target = Target { table: FSYNC, ..target(b"long") };
    let piece = |(number, bytes)| UploadPiece {
        target,
        expires_at_ms: None,
        upload: 7,
        value_len: long.len() as u32,
        offset: (number * UPLOAD_PIECE_BYTES) as u64,
        copied_from: Version::NONE,
        keeps_expiry: false,
        copied_len: 0,
        bytes,
    };
    node.client.call_all(long.chunks(UPLOAD_PIECE_BYTES).enumerate().map(piece));
    let effect = UploadEffect::Put;
    let reply = node.client.call(CompleteUpload { target, upload: 7, effect });
    PutReply::decode(&reply).unwrap();
    node.crash();
    let node = DiskNode::start(folder.path(), 2);
    assert_eq!(node.get(FSYNC, b"long"), Some(long));
    assert!((0..50).all(|number| node.get(FSYNC, &key(number)).is_none()));
    node.stop();
}

#[test]
fn partitions_are_written_anew_and_files_go_while_writes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let files = |log: &str| std::fs::read_dir(folder.path().join(log)).unwrap().count();
    let node = DiskNode::start(folder.path(), 1);
    // Thirty times what a log of one object a key has.
    for round in 0..30_u64 {
        for number in 0..100 {
            node.put(DISK, &key(number), &vec![round as u8; 4000]);
        }
        // The thread that writes the log may be behind: a partition is written anew once the one before it is on disk.
        while node.handler.clean() || files("disk") >= 20 {
            std::thread::yield_now();
        }
    }
    node.put(FSYNC, b"other", b"log");
    node.stop();
    let node = DiskNode::start(folder.path(), 2);
    assert!(node.found().iter().all(|(_, is_complete)| *is_complete), "{:?}", node.completeness());
    assert!((0..100).all(|number| node.get(DISK, &key(number)) == Some(vec![29; 4000])));
    assert_eq!(node.get(FSYNC, b"other").as_deref(), Some(&b"log"[..]));
    node.stop();
}

#[test]
fn a_log_with_more_than_memory_has_room_for_is_taken_in() {
    let folder = tempfile::tempdir().unwrap();
    let node = DiskNode::start(folder.path(), 1);
    // A hundred megabytes on a node of sixty-four, of which two are live. They are not written anew: nobody calls for that.
    for round in 0..50_u64 {
        for number in 0..100 {
            node.put(DISK, &key(number), &vec![round as u8; 20_000]);
        }
    }
    node.stop();
    let node = DiskNode::start(folder.path(), 2);
    assert!(node.found().iter().all(|(_, is_complete)| *is_complete), "{:?}", node.completeness());
    assert!((0..100).all(|number| node.get(DISK, &key(number)) == Some(vec![49; 20_000])));
    node.stop();
}
