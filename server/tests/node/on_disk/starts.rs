//! Starts that come to nothing leave what is on disk as good as it was.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weft_protocol::{Durability, GetReply, PutReply};

use crate::support::{Client, Process, get, put, run, start_together};

const SMALL: [&str; 8] =
    ["--memory", "64MiB", "--poll", "park", "--reactors", "1", "--durability", "disk"];

/// What was on disk after an orderly stop is not made doubtful by who never served.
#[test]
fn a_start_that_is_refused_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let own = ["--data-dir", folder.path().to_str().unwrap()];
    let arguments = [&SMALL[..], &own].concat();
    let node = Process::start(&arguments, &[]);
    put_all(&[Client::at(node.address)], &[b"key"]);
    assert_eq!(node.signal(Signal::TERM).0, Some(0));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for [flag, other] in [["--listen", "--control"], ["--control", "--listen"]] {
        let ports = [flag, &address, other, "127.0.0.1:0", "--http", "off"];
        let (code, told) = run(&[&arguments[..], &ports].concat(), &[]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(flag), "{told}");
    }
    let node = Process::start(&arguments, &[]);
    check_there(&[Client::at(node.address)], &[b"key"]);
    node.end();
}

/// It waits for others, without whom there is no majority of coordinators, and is told to end.
#[test]
fn a_node_that_is_stopped_while_it_waits_for_others_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let together = || {
        start_together(3, folder.path(), |settings| {
            settings.durability = Some(Durability::Disk);
            settings.replicas = Some(1);
        })
    };
    let keys: Vec<[u8; 4]> = (0..60_u32).map(u32::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let nodes = together();
    put_all(&nodes.iter().map(Client::to).collect::<Vec<_>>(), &keys);
    drop(nodes);
    for id in ["1", "2", "3"] {
        let directory = folder.path().join(format!("node-{id}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-server"));
        command.args(SMALL).args(["--node-id", id, "--join", "127.0.0.1:1,127.0.0.1:2"]);
        command.args(["--listen", "127.0.0.1:0", "--http", "off", "--control", "off"]);
        command.arg("--data-dir").arg(&directory).env_clear().stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let log = directory.join("objects/disk");
        let files = || std::fs::read_dir(&log).unwrap().count();
        // Its log is open when there is another file.
        let before = files();
        for _ in 0..200 {
            if files() > before {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    let nodes = together();
    check_there(&nodes.iter().map(Client::to).collect::<Vec<_>>(), &keys);
}

/// Has whoever has it in his partitions take each key, as soon as he serves it.
fn put_all(clients: &[Client], keys: &[&[u8]]) {
    let is_taken =
        |client: &Client, key: &[u8]| PutReply::decode(&client.call(put(key, b"value"))).is_ok();
    until_all(keys, |key| clients.iter().any(|client| is_taken(client, key)));
}

fn check_there(clients: &[Client], keys: &[&[u8]]) {
    let is_there = |client: &Client, key: &[u8]| match GetReply::decode(&client.call(get(key))) {
        Ok(reply) => {
            assert!(reply.value().is_some(), "{key:?} is gone");
            true
        }
        Err(_) => false,
    };
    until_all(keys, |key| clients.iter().any(|client| is_there(client, key)));
}

fn until_all(keys: &[&[u8]], is_done: impl Fn(&[u8]) -> bool) {
    for key in keys {
        let mut attempts = 0..200;
        while !is_done(key) {
            assert!(attempts.next().is_some(), "{key:?} is not served");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
