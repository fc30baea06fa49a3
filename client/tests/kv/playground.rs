//! What `kv playground` leaves alone: files and directories of others, and the variables of whoever starts it; and what is left of one that is killed.

use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use crate::cluster::{self, Cluster, Ran, finish, kv, start_kv};

/// `kv playground` with nodes that stay.
fn starting(dir: &Path, nodes: u32) -> Command {
    let (server, nodes) = (cluster::server(), nodes.to_string());
    let start = ["playground", "--detach", "--memory", "64MiB", "--nodes", &nodes];
    let mut command = start_kv(&start);
    command.arg("--dir").arg(dir).arg("--server-binary").arg(server).stdin(Stdio::null());
    command
}

fn start(dir: &Path, nodes: u32) -> Ran {
    finish(&mut starting(dir, nodes))
}

fn stop(dir: &Path) -> Ran {
    kv(&["playground", "stop", "--dir", dir.to_str().unwrap()])
}

#[test]
fn nodes_go_by_no_variable_that_is_the_users() {
    let elsewhere = TempDir::new().unwrap();
    let data = elsewhere.path().join("data");
    let variables = [
        ("WEFT_DATA_DIR", data.to_str().unwrap()),
        ("WEFT_ZONE", "attic"),
        ("WEFT_WHATEVER_COMES", "1"),
        ("WEFT_REACTORS", "1"),
        ("WEFT_POLL", "park"),
    ];
    let cluster = Cluster::start_under(1, &[], &variables);
    let node = cluster.pids()[0];
    let environment = fs::read(format!("/proc/{}/environ", node.as_raw_nonzero())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names = environment.split('\0').filter_map(|variable| Some(variable.split_once('=')?.0));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("WEFT_")).collect();
    names.sort_unstable();
    assert_eq!(names, ["WEFT_MEMORY", "WEFT_POLL", "WEFT_REACTORS"]);
    assert!(!data.exists(), "it keeps its data where somebody else does");
}

#[test]
fn a_playground_overwrites_no_log_that_no_playground_made() {
    let dir = TempDir::new().unwrap();
    // Nor is one marked as its own that only more nodes would overwrite.
    for name in ["node-1.log", "node-2.log"] {
        let log = dir.path().join(name);
        fs::write(&log, "mine").unwrap();
        let refused = start(dir.path(), 1);
        stop(dir.path());
        assert_eq!(refused.code, 1, "{name}");
        assert!(refused.stderr.contains("is not of a playground"), "{}", refused.stderr);
        assert_eq!(fs::read_to_string(&log).unwrap(), "mine");
        fs::remove_file(&log).unwrap();
    }
    fs::write(dir.path().join("node-of-mine.log"), "mine").unwrap();
    // Its own it makes anew.
    for _ in 0..2 {
        start(dir.path(), 1).ok();
        stop(dir.path()).ok();
        fs::write(dir.path().join("node-1.log"), "of the one before").unwrap();
    }
    start(dir.path(), 1).ok();
    stop(dir.path()).ok();
    assert_ne!(fs::read_to_string(dir.path().join("node-1.log")).unwrap(), "of the one before");
}

#[test]
fn a_link_makes_no_directory_of_others_ones_own() {
    let (ours, others) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let link = ours.path().join("link");
    let somebody = Some(12_345);
    if geteuid().is_root() {
        chown(others.path(), somebody, None).unwrap();
        symlink(others.path(), &link).unwrap();
    } else {
        symlink("/", &link).unwrap();
    }
    let refused = start(&link, 1);
    stop(&link);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("belongs to user"), "{}", refused.stderr);
    // A list in there could name any process of this user's.
    if geteuid().is_root() {
        fs::write(others.path().join("playground.json"), r#"{"nodes": []}"#).unwrap();
        let refused = stop(&link);
        assert!(refused.code == 1 && refused.stderr.contains("belongs to"), "{}", refused.stderr);
        // Nor does somebody's link lead one's logs into a directory of one's own.
        fs::remove_file(&link).unwrap();
        let target = ours.path().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        lchown(&link, somebody, None).unwrap();
        let refused = start(&link, 1);
        assert!(refused.code == 1 && refused.stderr.contains("belongs to"), "{}", refused.stderr);
    }
}

#[test]
fn a_node_that_is_on_no_list_does_not_outlive_a_killed_kv() {
    let dir = TempDir::new().unwrap();
    // The list is not written before somebody reads what is in its place.
    let list = dir.path().join("playground.json.new");
    mknodat(CWD, &list, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut kv = starting(dir.path(), 2).spawn().unwrap();
    let nodes = loop {
        let nodes = children_of(kv.id());
        if nodes.len() == 2 {
            break nodes;
        }
        assert!(kv.try_wait().unwrap().is_none(), "it has ended early");
        std::thread::yield_now();
    };
    let nodes = nodes.into_iter().map(|node| pidfd_open(node, PidfdFlags::empty()).unwrap());
    let nodes: Vec<_> = nodes.collect();
    kv.kill().unwrap();
    kv.wait().unwrap();
    assert_eq!(stop(dir.path()).code, 0);
    let patience = Timespec::try_from(Duration::from_secs(10)).unwrap();
    let mut left = 0;
    for node in &nodes {
        if poll(&mut [PollFd::new(node, PollFlags::IN)], Some(&patience)).unwrap() == 0 {
            left += 1;
            pidfd_send_signal(node, Signal::KILL).unwrap();
        }
    }
    assert_eq!(left, 0, "nodes run that nobody can stop");
}

#[test]
fn a_node_begins_only_if_its_kv_is_there_and_says_so() {
    let dir = TempDir::new().unwrap();
    let begun = dir.path().join("begun");
    let launch = |parent: u32, said: &[u8]| {
        let mut word = tempfile::tempfile().unwrap();
        word.write_all(said).unwrap();
        word.rewind().unwrap();
        let launch = ["launch", &parent.to_string(), "touch", begun.to_str().unwrap()];
        finish(start_kv(&launch).stdin(word))
    };
    // As if it had ended before the node could ask for a signal at its end.
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    for refused in [launch(ended.id(), b"\n"), launch(std::process::id(), b"")] {
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains("kv has ended"), "{}", refused.stderr);
        assert!(!begun.exists());
    }
    launch(std::process::id(), b"\n").ok();
    assert!(begun.exists());
}

/// The processes that a process has started and that are still its children.
fn children_of(parent: u32) -> Vec<Pid> {
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit_once(") ").map(|(_, behind_name)| behind_name.to_owned());
        behind_name.and_then(|fields| fields.split(' ').nth(1)?.parse().ok()) == Some(parent)
    };
    let processes = fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_child).filter_map(Pid::from_raw).collect()
}
