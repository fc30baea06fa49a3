//! Many peers that connect and say nothing more.

use std::net::SocketAddr;
use std::time::Duration;

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{PutReply, stat_name};
use weft_server::process::raise_descriptor_limit;
use weft_transport::Windows;
use weft_transport::limits::{CONNECTION_BYTES, MESSAGE_MAX, WINDOW_MAX};

use crate::support::{Client, Process, RawPeer, get, put, request_header};

/// In a process of its own, so that a limit on descriptors counts for one side at a time.
#[test]
fn two_thousand_idle_connections_cost_little() {
    const COUNT: u64 = 2000;
    raise_descriptor_limit();
    let node = Process::start(&["--memory", "64MiB", "--poll", "park"], &[]);
    let client = Client::at(node.address);
    client.put(b"key", b"value");
    // What the node keeps whether or not anybody is connected.
    let own_bytes = client.stat("memory.purpose.session") - CONNECTION_BYTES;
    let before = node.written_bytes();
    let peers: Vec<_> =
        (0..COUNT).map(|_| RawPeer::greeted_at(node.address, Windows::default())).collect();
    assert_eq!(client.stat(stat_name::CONNECTIONS), COUNT + 1);
    // What the account says they cost, they cost.
    let session_bytes = client.stat("memory.purpose.session");
    assert_eq!(session_bytes, own_bytes + (COUNT + 1) * CONNECTION_BYTES);
    let each = node.written_bytes().saturating_sub(before) / COUNT;
    assert!(each <= CONNECTION_BYTES, "{each} bytes a connection");
    assert_eq!(client.get(b"key").as_deref(), Some(b"value".as_slice()));
    drop(peers);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    client.wait_for("memory.purpose.session", |bytes| bytes == own_bytes + CONNECTION_BYTES);
    node.end();
}

/// Heap that closed connections leave, and pages that are used after it, do not add up to more than
/// the limit: not in one part of a crowd that stays, and not when all is filled again.
#[test]
fn what_closed_connections_leave_stays_within_the_limit() {
    const LIMIT: u64 = 64 << 20;
    raise_descriptor_limit();
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    let check = |what: &str| {
        let grown = node.resident_bytes().saturating_sub(before);
        assert!(grown <= LIMIT, "{what}: {grown} bytes more than before");
        let counted = node.metric("weft_memory_resident_bytes");
        assert!(counted <= LIMIT, "{what}: {counted} bytes counted");
    };
    let wait_for = |left: u64| client.wait_for(stat_name::CONNECTIONS, |open| open == left + 1);
    let value = vec![7; REQUEST_VALUE_MAX];
    let fill = |name: &str| {
        for len in [REQUEST_VALUE_MAX, 30_000, 500] {
            let key = |i: usize| format!("{name}-{len}-{i}");
            let put = |i: usize| client.call(put(key(i).as_bytes(), &value[..len]));
            assert!(
                (0..20_000).map(put).any(|reply| PutReply::decode(&reply).is_err()),
                "it fills"
            );
        }
    };
    fill("first");
    let mut idle: Vec<_> =
        (0..2000).map(|_| RawPeer::greeted_at(node.address, Windows::default())).collect();
    check("idle");
    // Those that stay lie among what the others leave.
    let mut number = 0;
    idle.retain(|_| {
        number += 1;
        number % 4 == 0
    });
    wait_for(500);
    for left in [500, 0] {
        idle.truncate(left);
        wait_for(left as u64);
        let whole = vec![0; MESSAGE_MAX - 1];
        let unfinished = [&request_header(1, MESSAGE_MAX as u32).encode()[..], &whole].concat();
        let peers = crowd(200, node.address, Windows::default(), |peer| {
            peer.write_in_vain(&unfinished);
        });
        check("unfinished frames");
        drop(peers);
        wait_for(left as u64);
    }
    let windows = Windows { reply: WINDOW_MAX, ..Windows::default() };
    let peers = crowd(50, node.address, windows, |peer| {
        let _ = (0..2000).all(|id| peer.try_request(id, get(b"first-500-1")));
    });
    check("replies that nobody reads");
    drop(peers);
    wait_for(0);
    fill("second");
    check("filled again");
    node.end();
}

/// So many peers, each having done something: none is refused, whatever the others keep.
fn crowd(
    count: usize,
    address: SocketAddr,
    windows: Windows,
    act: impl Fn(&mut RawPeer),
) -> Vec<RawPeer> {
    let greeted = (0..count).map(|_| {
        let mut peer = RawPeer::greeted_at(address, windows);
        act(&mut peer);
        peer
    });
    greeted.collect()
}

/// With fewer descriptors than there are peers, those that were idle for longest make room, and the
/// HTTP port and new clients are served.
#[test]
fn more_connections_than_descriptors_leave_the_node_serving() {
    let arguments = ["--memory", "64MiB", "--poll", "park", "--http", "127.0.0.1:0"];
    let node = Process::start_with_descriptors(64, &arguments);
    let mut peers = Vec::new();
    while peers.len() < 50 {
        match RawPeer::try_greeted_at(node.address, Windows::default()) {
            Ok(peer) => peers.push(peer),
            // Until the others have said nothing for a second.
            Err(code) => {
                assert_eq!(code.unwrap_or(11), 11);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    assert!(node.metric("weft_connections_open") <= 32);
    let client = Client::at(node.address);
    client.put(b"key", b"value");
    assert_eq!(client.get(b"key").as_deref(), Some(b"value".as_slice()));
    let (code, _) = { peers }.remove(0).goodbye();
    assert_eq!(code, 12);
    node.end();
}
