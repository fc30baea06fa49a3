//! Peers that make the node keep much for them: the process stays within its limit, and everybody
//! else is served.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::stat_name;
use weft_transport::Windows;
use weft_transport::frame::{HEADER_BYTES, Kind};
use weft_transport::limits::{MESSAGE_MAX, WINDOW_MIN};

use crate::support::{Client, Process, RawPeer, assert_serves_at, get, put, request_header};

const LIMIT: u64 = 64 << 20;

/// Bytes of network memory that are left to peers that keep it: three quarters of what is not set
/// aside for connections (8 of 16 MiB) and the HTTP port (2 MiB).
const KEPT_MAX: u64 = (6 << 20) / 4 * 3;

/// Memory is short only until those who have kept it for longest are ended; then all is as before.
fn assert_serves_on(node: &Process) {
    let receive = "weft_memory_purpose_bytes{purpose=\"receive\"}";
    let send = "weft_memory_purpose_bytes{purpose=\"send\"}";
    while node.metric(receive) + node.metric(send) > KEPT_MAX {
        std::thread::yield_now();
    }
    let client = Client::at(node.address);
    client.put(b"innocent", &[1; 100_000]);
    assert_eq!(client.get(b"innocent"), Some(vec![1; 100_000]));
    assert_serves_at(node.address, &client);
}

/// Requests that have to wait for room for their replies are kept in memory that is counted.
#[test]
fn requests_that_wait_for_their_replies_count_against_the_limit() {
    let node = Process::small();
    let client = Client::at(node.address);
    let value = vec![7; REQUEST_VALUE_MAX];
    client.put(b"large", &value);
    let before = node.resident_bytes();
    let windows = Windows { reply: WINDOW_MIN, ..Windows::default() };
    // Room for two replies of the largest size, and then for none; each could wait with 4 MiB.
    let peers: Vec<_> = (0..60)
        .map(|_| {
            let mut peer = RawPeer::greeted_at(node.address, windows);
            for id in 0..2 {
                peer.try_request(id, get(b"large"));
            }
            for id in 2..6 {
                peer.try_request(id, put(b"other", &value));
            }
            peer
        })
        .collect();
    assert!(node.metric("weft_memory_allocated_bytes") <= LIMIT);
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown <= LIMIT, "{grown} bytes more than before");
    assert_serves_on(&node);
    drop(peers);
    node.end();
}

/// Puts until it is `over`, and once more. Who asks for little is served while others hoard, but for
/// the moments when there is no memory at all: nobody ends it to make room for somebody else, and it
/// can always come again.
fn serve_until(node: &Process, over: &AtomicBool) {
    let (mut peer, mut last) = (None, false);
    for id in 0.. {
        let Some(served) = &mut peer else {
            peer = Some(RawPeer::greeted_at(node.address, Windows::default()));
            continue;
        };
        served.try_request(id, put(b"small", &[1; 100]));
        let mut frames = std::iter::from_fn(|| served.read_frame());
        match frames.find(|(header, _)| header.kind != Kind::Credit) {
            Some((header, _)) if header.kind == Kind::Reply => {
                if last {
                    return;
                }
                last = over.load(Ordering::SeqCst);
            }
            Some((header, _)) => {
                assert_eq!((header.kind, header.id), (Kind::Goodbye, 14));
                peer = None;
            }
            None => peer = None,
        }
    }
}

/// Frames that begin and do not end are given up, the oldest first, when others need the memory.
#[test]
fn frames_that_do_not_end_keep_nobody_else_from_writing() {
    let node = Process::small();
    let mut half = request_header(1, MESSAGE_MAX as u32).encode().to_vec();
    half.resize(HEADER_BYTES + MESSAGE_MAX / 2, 0);
    let over = AtomicBool::new(false);
    let mut peers = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| serve_until(&node, &over));
        while peers.len() < 40 {
            let mut peer = RawPeer::greeted_at(node.address, Windows::default());
            peer.write_in_vain(&half);
            peers.push(peer);
        }
        over.store(true, Ordering::SeqCst);
    });
    assert_serves_on(&node);
    let ended: Vec<u64> = peers.iter_mut().filter_map(RawPeer::goodbye_if_ended).collect();
    assert!(ended.iter().all(|code| *code == 14), "{ended:?}");
    let kept = (peers.len() - ended.len()) as u64;
    assert!(kept * MESSAGE_MAX as u64 <= KEPT_MAX, "{kept} are left");
    drop(peers);
    let client = Client::at(node.address);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    node.end();
}
