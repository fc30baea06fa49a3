//! `weft-server` as a process: signals, exit codes, the HTTP port.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use weft_protocol::{ErrorCode, GetReply, ReplyError};
use weft_transport::Windows;
use weft_transport::frame::Kind;

use crate::support::{Client, Process, RawPeer, ask, get, run, settings, start};

#[test]
fn sigterm_and_sigint_end_it_gracefully() {
    for signal in [Signal::TERM, Signal::INT] {
        let node = Process::start(&[], &[]);
        let client = Client::at(node.address);
        client.put(b"key", b"value");
        let (code, log) = node.signal(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("stopped"), "{log}");
    }
}

/// Whatever the thread that starts the node is in the middle of: here it makes the coordinator's log, or opens it.
#[test]
fn sigterm_ends_a_node_that_is_starting_without_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..60 {
        let directory = folder.path().join(format!("node-{}", round / 2));
        let log = directory.join("coordinator");
        let before = names(&log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-server"));
        command.args(["--memory", "64MiB", "--listen", "127.0.0.1:0"]);
        command.args(["--http", "off", "--control", "off", "--data-dir"]).arg(&directory);
        let mut child = command.env_clear().stderr(Stdio::piped()).spawn().unwrap();
        // When it has begun to change files there, signals have long been caught.
        while names(&log) == before && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let killed = kill_process(Pid::from_child(&child), Signal::TERM);
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "round {round}: {:?} {told}", output.status);
        killed.unwrap();
    }
}

/// What is in a folder; nothing, if it is not there.
fn names(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// A node that is killed at any change that it makes to its files when it starts for the first time starts the next time.
#[test]
fn no_moment_to_be_killed_at_keeps_a_node_from_starting() {
    let is_there = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!("left out: strace is not there, or not allowed");
        return;
    }
    let calls = ["mkdir", "write", "pwrite64", "ftruncate", "fallocate", "fsync", "rename"];
    let killed: usize = std::thread::scope(|scope| {
        let calls = calls.map(|call| scope.spawn(move || killed_at_each(call)));
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert!(killed > 50, "{killed}");
}

/// Kills nodes that start for the first time at the first such call, the second, and so on, and starts them again; how many there were.
fn killed_at_each(call: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    for number in 1.. {
        let directory = folder.path().join(number.to_string());
        let inject = format!("inject={call}:signal=KILL:when={number}");
        let mut watched = Command::new("strace");
        watched.args(["-D", "-f", "-o", "/dev/null", "-e", &inject]);
        if starts(watched.arg(env!("CARGO_BIN_EXE_weft-server")), &directory).is_ok() {
            // No thread of it makes as many.
            return number - 1;
        }
        let again = starts(&mut Command::new(env!("CARGO_BIN_EXE_weft-server")), &directory);
        assert_eq!(again, Ok(()), "killed at {call} number {number}");
    }
    unreachable!("it starts")
}

/// Whether a node with this data directory comes so far as to serve, after which it is killed; else what it says.
fn starts(command: &mut Command, directory: &Path) -> Result<(), String> {
    command.args(["--memory", "64MiB", "--listen", "127.0.0.1:0", "--http", "off"]);
    command.args(["--control", "off", "--data-dir"]).arg(directory);
    let mut child = command.env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut told).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    if told.contains(" serving ") { Ok(()) } else { Err(told) }
}

/// A request that comes while the node is being stopped is answered: nothing was done.
#[test]
fn a_node_that_is_being_stopped_refuses_by_name() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"key", b"value");
    node.handler().take_no_more();
    assert_eq!(client.refused(get(b"key")).code, ErrorCode::ShuttingDown);
}

/// What has arrived when the node is stopped is done or refused, and never left without an answer.
#[test]
fn every_request_that_has_arrived_is_answered_at_the_end() {
    for _ in 0..20 {
        let node = start(settings());
        let mut peers: Vec<_> =
            (0..4).map(|_| RawPeer::greeted(&node, Windows::default())).collect();
        for peer in &mut peers {
            (0..50).for_each(|id| peer.request(id, get(b"key")));
        }
        node.stop().unwrap();
        for peer in &mut peers {
            for id in 0..50 {
                let (header, body) = std::iter::from_fn(|| peer.read_frame())
                    .find(|(header, _)| header.kind != Kind::Credit)
                    .expect("an answer");
                assert_eq!((header.kind, header.id), (Kind::Reply, id));
                match GetReply::decode(&body) {
                    Ok(reply) => assert!(reply.value().is_none()),
                    Err(ReplyError::Refused(error)) => {
                        assert_eq!(error.code, ErrorCode::ShuttingDown);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!(peer.goodbye().0, 2);
        }
    }
}

/// A peer that has not read yet when the node stops finds its replies, and a goodbye after them.
#[test]
fn what_was_asked_before_the_end_is_answered() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"key", &[7; 5000]);
    let mut peer = RawPeer::greeted(&node, Windows::default());
    for id in 0..100 {
        peer.request(id, get(b"key"));
    }
    client.wait_for("operations.get", |gets| gets == 100);
    node.stop().unwrap();
    for id in 0..100 {
        let (header, body) = std::iter::from_fn(|| peer.read_frame())
            .find(|(header, _)| header.kind != Kind::Credit)
            .expect("every request is answered");
        assert_eq!((header.kind, header.id), (Kind::Reply, id));
        assert!(body.ends_with(&[7; 5000]));
    }
    let (code, text) = peer.goodbye();
    assert_eq!(code, 2, "{text}");
}

#[test]
fn the_http_port_tells_health_readiness_and_figures() {
    let node = Process::start(&["--http", "127.0.0.1:0"], &[]);
    let http = node.http.expect("it was asked for");
    let client = Client::at(node.address);
    client.put(b"key", &[0; 2000]);
    client.get(b"key");
    assert!(ask(http, "/health").starts_with("HTTP/1.1 200 "));
    assert!(ask(http, "/ready").starts_with("HTTP/1.1 200 "));
    assert!(ask(http, "/other").starts_with("HTTP/1.1 404 "));
    let metrics = ask(http, "/metrics");
    for line in [
        "# TYPE weft_operations_total counter",
        "weft_operations_total{operation=\"put\"} 1",
        "weft_operations_total{operation=\"get\"} 1",
        "weft_values_gathered_total 1",
        "weft_store_objects 1",
        "weft_connections_open 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    node.end();
}

#[test]
fn a_port_that_is_taken_is_an_error_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--http"] {
        let other = if flag == "--listen" { "--http=off" } else { "--listen=127.0.0.1:0" };
        let (code, message) = run(&[flag, &address, other], &[]);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains(&address) && message.contains(flag), "{message}");
    }
}
