//! What `kv playground` leaves alone: the variables of whoever starts it; and what is left of one that is killed.

use std::fs;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
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
