//! Disks that are full, damaged, or somebody else's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use weft_protocol::{Durability, ErrorCode};
use weft_server::durable::{Completeness, Incomplete, Mode, OpenError, Settings};
use weft_server::http::HttpServer;
use weft_server::limits::HTTP_BYTES;
use weft_server::logs::{LogDirectories, LogsOptions, OpenLogsError, RecoverError};
use weft_server::memory::NodeMemory;
use weft_server::monitor::Monitor;
use weft_server::store::StoreError;
use weft_transport::{NodeId, Purpose, Windows};

use super::disk_node::{DISK, DiskNode, FSYNC, Watch, options, put};
use crate::small_disk::SmallDisk;
use crate::support::{RawPeer, TABLE, ask};

fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// The files of a log, by name.
fn files(folder: &Path, log: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(log)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = ["disk", "fsync"].into_iter().flat_map(|log| files(folder, log));
    all.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_torn_end_takes_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let node = DiskNode::start(folder.path(), 1);
    for number in 0..100 {
        node.put(FSYNC, &key(number), b"acknowledged");
    }
    node.crash();
    // What a crash may leave of a write that was never synced: the beginning of a frame, then anything.
    let newest = files(folder.path(), "fsync").pop().unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let frame = bytes[72..172].to_vec();
    bytes.extend_from_slice(&frame);
    bytes.extend_from_slice(&[0xA5; 1000]);
    fs::write(&newest, bytes).unwrap();
    let node = DiskNode::start(folder.path(), 2);
    assert!(node.found().contains(&(Durability::Fsync, true)));
    assert!(!node.found().contains(&(Durability::Fsync, false)));
    assert!((0..100).all(|number| node.get(FSYNC, &key(number)).unwrap() == b"acknowledged"));
    node.stop();
}

#[test]
fn damage_in_the_middle_is_told_and_what_it_concerns_is_not_served_before_its_loss_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let node = DiskNode::start(folder.path(), 1);
    for number in 0..100 {
        node.put(FSYNC, &key(number), &[number as u8; 500]);
    }
    node.crash();
    let oldest = files(folder.path(), "fsync").remove(0);
    let mut bytes = fs::read(&oldest).unwrap();
    // A byte of a value.
    let at = bytes.windows(64).position(|window| window == [7; 64]).unwrap();
    bytes[at + 9] ^= 4;
    fs::write(&oldest, bytes).unwrap();
    let node = DiskNode::try_start(folder.path(), 2).unwrap();
    let is_damaged = |one: &Completeness| {
        matches!(one, Completeness::Incomplete { reason: Incomplete::Corrupt { .. } })
    };
    assert_eq!(node.completeness().iter().filter(|one| is_damaged(one)).count(), 1);
    let before = contents(folder.path());
    let refused = node.place(false).unwrap_err();
    assert!(matches!(refused, StoreError::PartitionIncomplete { .. }), "{refused}");
    // What is whole is served; what is not is not, empty or otherwise, and stays as it is.
    assert_eq!(node.get_refused(FSYNC, &key(7)), ErrorCode::WrongOwner);
    assert_eq!(node.put_refused(FSYNC, &key(7)), ErrorCode::WrongOwner);
    let count = (0..100).filter(|number| {
        let reply = node.client.call(put(FSYNC, &key(*number), b"new"));
        weft_protocol::PutReply::decode(&reply).is_ok()
    });
    assert!((50..100).contains(&count.count()));
    node.crash();
    for (path, bytes) in before {
        assert!(fs::read(&path).unwrap().starts_with(&bytes), "{path:?} was changed");
    }
    let node = DiskNode::start(folder.path(), 3);
    assert_eq!(node.get(FSYNC, &key(7)), None, "the loss was accepted");
    node.put(FSYNC, &key(7), b"again");
    node.crash();
    let node = DiskNode::start(folder.path(), 4);
    assert!(!node.found().contains(&(Durability::Fsync, false)), "{:?}", node.completeness());
    assert_eq!(node.get(FSYNC, &key(7)).as_deref(), Some(&b"again"[..]));
    node.stop();
}

#[test]
fn the_logs_of_somebody_else_are_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let node = DiskNode::start(folder.path(), 1);
    node.put(FSYNC, b"key", b"value");
    node.stop();
    let before = contents(folder.path());
    let memory = NodeMemory::divide(64 << 20).unwrap();
    let ours = options(&memory, Settings::default());
    for other in [
        LogsOptions { node: NodeId(5), ..ours.clone() },
        LogsOptions { cluster: 12, ..ours.clone() },
    ] {
        let refused = LogDirectories::open(folder.path(), &other).unwrap_err();
        let OpenLogsError::Recover {
            source: RecoverError::Open(OpenError::Foreign { .. }), ..
        } = refused
        else {
            panic!("{refused}");
        };
    }
    assert_eq!(contents(folder.path()), before);
    let node = DiskNode::start(folder.path(), 2);
    assert_eq!(node.get(FSYNC, b"key").as_deref(), Some(&b"value"[..]));
    let second = LogDirectories::open(folder.path(), &ours).unwrap_err();
    assert!(matches!(second, OpenLogsError::Directory(_)), "{second}");
    node.stop();
}

#[test]
fn what_waits_when_a_disk_fails_is_in_doubt_and_what_comes_later_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::default();
    let node = DiskNode::start_watched(folder.path(), 1, &watch);
    let memory = NodeMemory::divide(64 << 20).unwrap();
    let charge = memory.network.charge(HTTP_BYTES, Purpose::Session).unwrap();
    let monitor = Monitor::default();
    monitor.watch(node.handler.clone());
    let http = HttpServer::start("127.0.0.1:0".parse().unwrap(), monitor, charge).unwrap();
    node.put(FSYNC, b"before", b"durable");
    assert!(ask(http.address(), "/health").starts_with("HTTP/1.1 200 "));
    assert_eq!(node.client.stat("durable.failed.fsync"), 0);
    watch.fails.store(true, Ordering::Relaxed);
    assert_eq!(node.put_refused(FSYNC, b"meanwhile"), ErrorCode::DiskFailedMeanwhile);
    // From when all partitions know.
    node.handler.flush_log(Mode::Fsync);
    for number in 0..20 {
        assert_eq!(node.put_refused(FSYNC, &key(number)), ErrorCode::DiskFailed);
    }
    assert_eq!(node.get(FSYNC, b"before").as_deref(), Some(&b"durable"[..]));
    assert_eq!(node.get_refused(FSYNC, b"meanwhile"), ErrorCode::DiskFailedMeanwhile);
    node.put(TABLE, b"memory", b"is not concerned");
    assert_eq!(node.client.stat("durable.failed.fsync"), 1);
    assert!(ask(http.address(), "/health").starts_with("HTTP/1.1 503 "));
    assert!(ask(http.address(), "/metrics").contains("weft_durable_failed{log=\"fsync\"} 1"));
    // A later sync would succeed, and prove nothing.
    watch.fails.store(false, Ordering::Relaxed);
    assert_eq!(node.put_refused(FSYNC, b"later"), ErrorCode::DiskFailed);
    node.crash();
    let node = DiskNode::start(folder.path(), 2);
    assert_eq!(node.get(FSYNC, b"before").as_deref(), Some(&b"durable"[..]));
    assert_eq!(node.get(FSYNC, b"later"), None);
    node.stop();
}

/// Nobody was told of what waits for room in a log of `fsync`, so it keeps neither the node nor its log of `disk` from ending in good order.
#[test]
fn a_node_that_is_stopped_while_writes_wait_for_room_has_its_log_of_disk_closed() {
    let Some(disk) = SmallDisk::mount(3) else { return };
    let path = disk.path();
    let node = DiskNode::start(path, 1);
    node.put(DISK, b"kept", b"in order");
    let ballast = path.join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let mut writer = RawPeer::greeted_at(node.address(), Windows::default());
    let is_full = || !node.handler.logs().unwrap().journal(Mode::Fsync).has_room();
    for id in 1..1_000 {
        if is_full() {
            break;
        }
        writer.request(id, put(FSYNC, &key(id as usize), &[7; 8 << 10]));
        std::thread::yield_now();
    }
    while !is_full() {
        std::thread::yield_now();
    }
    node.stop();
    fs::remove_file(&ballast).unwrap();
    let node = DiskNode::start(path, 2);
    assert_eq!(node.get(DISK, b"kept").as_deref(), Some(&b"in order"[..]));
    assert!(node.found().iter().all(|(_, is_complete)| *is_complete));
    node.stop();
}

#[test]
fn a_full_disk_refuses_writes_until_it_has_room_and_reads_go_on() {
    let Some(disk) = SmallDisk::mount(3) else { return };
    let path = disk.path();
    let node = DiskNode::start(path, 1);
    let ballast = path.join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let mut acknowledged = 0;
    let is_full = || !node.handler.logs().unwrap().journal(Mode::Fsync).has_room();
    let has_been_full = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The one that finds no room waits for it, like all that the log has taken before it knew.
        let writer = scope.spawn(|| {
            while !has_been_full.load(Ordering::Relaxed) {
                node.put(FSYNC, &key(acknowledged), &[acknowledged as u8; 8 << 10]);
                acknowledged += 1;
            }
        });
        while !is_full() {
            std::thread::yield_now();
        }
        has_been_full.store(true, Ordering::Relaxed);
        // From when all partitions know.
        node.handler.flush_log(Mode::Fsync);
        let other = crate::support::Client::at(node.address());
        let refused = |table| other.refused(put(table, b"refused", b"refused")).code;
        assert_eq!(refused(FSYNC), ErrorCode::DiskBehind);
        other.call(put(TABLE, b"memory", b"is not concerned"));
        assert_eq!(node.get(FSYNC, &key(0)), Some(vec![0; 8 << 10]));
        fs::remove_file(&ballast).unwrap();
        writer.join().unwrap();
    });
    while is_full() {
        std::thread::yield_now();
    }
    assert!(acknowledged > 10);
    // It may still have to be told to the partition.
    while weft_protocol::PutReply::decode(&node.client.call(put(FSYNC, b"last", b"last"))).is_err()
    {
    }
    node.crash();
    let node = DiskNode::start(path, 2);
    assert!(
        (0..acknowledged).all(|number| node.get(FSYNC, &key(number)).unwrap().len() == 8 << 10)
    );
    assert_eq!(node.get(FSYNC, b"last").as_deref(), Some(&b"last"[..]));
    assert_eq!(node.get(DISK, b"nothing"), None);
    node.stop();
}

/// A write to a partition that nobody else holds is answered when it is made: there has to be room for it before, also while it is not known whether the
/// disk is full.
#[test]
fn what_is_answered_while_a_file_is_being_made_for_which_there_is_no_room_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::default();
    let node = DiskNode::start_watched(folder.path(), 1, &watch);
    let value = vec![7; 50_000];
    watch.makes_none.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    let mut numbers = 0..;
    loop {
        let keys: Vec<_> = numbers.by_ref().take(16).map(key).collect();
        let replies = node.client.call_all(keys.iter().map(|key| put(DISK, key, &value)));
        let before = acknowledged.len();
        let is_taken = |reply: &Vec<u8>| weft_protocol::PutReply::decode(reply).is_ok();
        let taken = keys.into_iter().zip(&replies).filter(|(_, reply)| is_taken(reply));
        acknowledged.extend(taken.map(|(key, _)| key));
        if acknowledged.len() == before {
            break;
        }
    }
    assert!(!acknowledged.is_empty());
    watch.makes_full.store(true, Ordering::Relaxed);
    watch.makes_none.store(false, Ordering::Relaxed);
    assert_eq!(node.client.refused(put(DISK, &key(0), &value)).code, ErrorCode::DiskBehind);
    node.stop();

    let node = DiskNode::start(folder.path(), 2);
    assert!(!node.found().contains(&(Durability::Disk, false)));
    let lost = acknowledged.iter().filter(|key| node.get(DISK, key).as_ref() != Some(&value));
    assert_eq!(lost.count(), 0);
    node.stop();
}
