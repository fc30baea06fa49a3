//! `weft-server` as a process: signals, exit codes, the HTTP port.

use std::net::TcpListener;

use rustix::process::Signal;
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
    node.stop();
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
