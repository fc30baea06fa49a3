//! What the system is asked before a write is acknowledged.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use super::disk_node::{DiskNode, FSYNC, Watch, put};

/// The folder in which the process that is watched has its logs; set by who starts it.
const WATCHED_FOLDER: &str = "WEFT_WATCHED_NODE_FOLDER";
const WRITES: usize = 20;

#[test]
#[ignore = "what the test below runs under strace"]
fn watched() {
    let Ok(folder) = std::env::var(WATCHED_FOLDER) else { return };
    let node = DiskNode::start(folder.as_ref(), 1);
    for number in 0..WRITES {
        node.put(FSYNC, &[number as u8], &[7; 200]);
        // An attempt that fails: only the call is looked for, among the others of this thread.
        let _ = std::fs::remove_dir("/acknowledged");
    }
    node.crash();
}

#[test]
fn the_system_has_synced_a_write_before_the_client_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let outcome = Command::new("strace")
        .args(["-f", "-s", "200", "-e", "trace=write,fdatasync,rmdir,openat", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "on_disk::watched::watched"])
        .env(WATCHED_FOLDER, folder.path().join("logs"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !outcome.is_ok_and(|status| status.success()) {
        println!("left out: strace is not there, or not allowed");
        return;
    }
    let trace = std::fs::read_to_string(&trace).unwrap();
    // Which threads append to the log of fsync, known by the files that they open.
    let thread = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let opens =
        trace.lines().filter(|line| line.contains("/logs/fsync/") && line.contains("O_APPEND"));
    let writers: BTreeSet<String> = opens.map(thread).collect();
    assert_eq!(writers.len(), 1, "{trace}");
    // What is longer than the header of a frame has an entry in it; what is not only says how much is synced.
    let written = |line: &str| -> u64 {
        let is_frames = line.contains("write(") && line.contains("\"frm");
        let len = line.rsplit("= ").next().and_then(|len| len.trim().parse().ok());
        len.filter(|_| is_frames).unwrap_or(0)
    };
    let (mut is_written, mut is_synced, mut acknowledged) = (false, true, 0);
    for line in trace.lines() {
        let is_writer = writers.contains(&thread(line));
        if is_writer && written(line) > 200 {
            (is_written, is_synced) = (true, false);
        } else if is_writer && line.contains("fdatasync") && line.trim_end().ends_with("= 0") {
            // Of a call in two lines, the second is its end.
            is_synced = true;
        } else if line.contains("rmdir(\"/acknowledged") {
            assert!(is_written && is_synced, "answered before it was synced:\n{trace}");
            acknowledged += 1;
            is_written = false;
        }
    }
    assert_eq!(acknowledged, WRITES, "{trace}");
}

#[test]
fn a_hundred_writers_share_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::default();
    let node = DiskNode::start_watched(folder.path(), 1, &watch);
    let before = watch.syncs.load(Ordering::Relaxed);
    let keys: Vec<Vec<u8>> =
        (0..100).map(|writer| format!("writer-{writer}").into_bytes()).collect();
    for round in 0..20 {
        let value = [round; 100];
        let replies = node.client.call_all(keys.iter().map(|key| put(FSYNC, key, &value)));
        assert!(replies.iter().all(|reply| weft_protocol::PutReply::decode(reply).is_ok()));
    }
    let syncs = watch.syncs.load(Ordering::Relaxed) - before;
    // Two thousand writes; each round waits for one sync, and for what is under way when it begins.
    assert!((20..200).contains(&syncs), "{syncs} syncs");
    assert!(keys.iter().all(|key| node.get(FSYNC, key) == Some(vec![19; 100])));
    node.crash();
}
