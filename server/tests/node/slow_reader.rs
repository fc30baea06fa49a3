//! Peers that ask for much and read nothing. What waits for them is bounded, everybody else is
//! served, and when they do read, they get what they asked for.

use std::time::Duration;

use weft_protocol::limits::REQUEST_VALUE_MAX;
use weft_protocol::{
    ErrorCode, GetReply, Key, List, MultiGet, MultiGetPart, Outcome, ReplyError, stat_name,
};
use weft_transport::Windows;
use weft_transport::frame::{Class, Header, Kind, frame_len};
use weft_transport::limits::WINDOW_MAX;

use crate::support::{
    Client, EPOCH, Process, RawPeer, TABLE, assert_serves_at, get, settings, start,
};

const LIMIT: u64 = 64 << 20;

/// As much as a peer may have sent to it without reading.
fn generous() -> Windows {
    Windows { reply: WINDOW_MAX, ..Windows::default() }
}

/// The process has not grown by more than its limit since it took `before`.
fn assert_bounded(node: &Process, before: u64, client: &Client) {
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown <= LIMIT, "{grown} bytes more than before");
    assert_serves_at(node.address, client);
}

#[test]
fn large_values_wait_where_they_lie() {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    let value = vec![5; REQUEST_VALUE_MAX];
    client.put(b"large", &value);
    let allocated = client.stat(stat_name::MEMORY_ALLOCATED_BYTES);

    let mut peer = RawPeer::greeted_at(node.address, generous());
    const REQUESTS: u64 = 50;
    for id in 0..REQUESTS {
        peer.request(id, get(b"large"));
    }
    // As much as may wait for one peer waits, and the rest of the requests waits for that.
    client.wait_for("values.gathered", |gathered| gathered >= 15);
    assert_bounded(&node, before, &client);
    let grown = client.stat(stat_name::MEMORY_ALLOCATED_BYTES) - allocated;
    assert!(grown < 4 << 20, "fifteen megabytes wait in {grown} bytes");
    assert!(client.stat("store.pinned_bytes") > 0);

    let mut released = 0;
    for id in 0..REQUESTS {
        let (header, body) = std::iter::from_fn(|| peer.read_frame())
            .find(|(header, _)| header.kind == Kind::Reply)
            .expect("every request is answered");
        assert_eq!(header.id, id);
        assert_eq!(GetReply::decode(&body).unwrap().value(), Some(value.as_slice()));
        released = peer.release_reply(WINDOW_MAX, released, body.len());
    }
    assert_bounded(&node, before, &client);
}

#[test]
fn small_values_wait_in_bounded_memory() {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    client.put(b"small", &[6; 1000]);
    // Several of them, which would take more than there is memory.
    let mut peers: Vec<_> = (0..4).map(|_| RawPeer::greeted_at(node.address, generous())).collect();
    for peer in &mut peers {
        for id in 0..20_000 {
            if !peer.try_request(id, get(b"small")) {
                break;
            }
        }
    }
    client.wait_for("values.copied", |copied| copied > 10_000);
    assert_bounded(&node, before, &client);
    drop(peers);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    assert_bounded(&node, before, &client);
}

/// More segments than may be pinned: the rest is copied as far as there is room, and what is pinned
/// is free again when the peer is gone.
#[test]
fn pins_are_bounded_and_end_with_the_connection() {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    const COUNT: usize = 40;
    let value = |i: usize| vec![i as u8; 900_000];
    for i in 0..COUNT {
        client.put(format!("large-{i}").as_bytes(), &value(i));
    }
    // No more for each than may wait for one peer.
    let mut peers: Vec<_> = (0..3).map(|_| RawPeer::greeted_at(node.address, generous())).collect();
    for i in 0..COUNT {
        peers[i % 3].request(i as u64, get(format!("large-{i}").as_bytes()));
    }
    client.wait_for("operations.get", |gets| gets >= COUNT as u64);
    assert!(client.stat("values.pins_refused") > 0);
    assert_bounded(&node, before, &client);
    for i in 0..COUNT {
        assert!(client.delete(format!("large-{i}").as_bytes()).existed);
    }
    assert!(client.stat("store.pinned_bytes") > 0, "what is being sent is not free");
    drop(peers);
    client.wait_for("store.pinned_bytes", |pinned| pinned == 0);
    assert_eq!(client.stat("memory.purpose.log"), client.stat("store.log_bytes"));
    assert_serves_at(node.address, &client);
}

/// A value that is longer than a request, in a multi-get, when no more may be pinned: it is copied to where it is sent from.
#[test]
fn a_long_value_that_may_not_be_pinned_is_copied_into_a_multi_get() {
    let node = Process::start(&["--memory", "512MiB", "--poll", "park"], &[]);
    let client = Client::at(node.address);
    let long: Vec<u8> = (0..5 << 19).map(|at| (at / 1_000) as u8).collect();
    client.upload(b"long", &long);
    client.put(b"large", &[1; 900_000]);
    // A quarter of the store's memory is less than three of these.
    let mut peers = Vec::new();
    for name in [b"pinned-0", b"pinned-1", b"pinned-2"] {
        client.upload(name, &vec![2; 48 << 20]);
        let mut peer = RawPeer::greeted_at(node.address, generous());
        peer.request(0, get(name));
        peers.push(peer);
    }
    client.wait_for("values.gathered", |gathered| gathered == 3);
    let keys = ["large", "long", "nobody"].map(|key| Key::new(key.as_bytes()).unwrap());
    let (keys, _) = List::fitting(&keys);
    let parts = client.call_streamed(MultiGet { table: TABLE, map_epoch: EPOCH, keys });
    let mut found = vec![None; 3];
    for part in &parts {
        for item in MultiGetPart::decode(part).unwrap().items() {
            let Outcome::Done(reply) = item.outcome else { panic!("{item:?}") };
            found[item.index] = reply.value().map(<[u8]>::to_vec);
        }
    }
    assert_eq!(found, [Some(vec![1; 900_000]), Some(long), None]);
    assert_eq!(client.stat("values.pins_refused"), 2);
    drop(peers);
    node.end();
}

/// More has been asked for than there is room for replies, so that most requests wait; the peer reads all the time.
#[test]
fn a_node_that_stops_answers_all_that_has_arrived() {
    const COUNT: u64 = 3_000;
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"key", &[7; 5_000]);
    let windows = Windows::default();
    let mut peer = RawPeer::greeted(&node, windows);
    for id in 0..COUNT {
        peer.request(id, get(b"key"));
    }
    client.wait_for("operations.get", |gets| gets > 0);
    drop(client);
    // What is in the socket is read by then.
    std::thread::sleep(Duration::from_millis(300));
    let stopping = std::thread::spawn(move || node.stop());
    let (mut answered, mut refused, mut released) = (0, 0, 0);
    let mut code = None;
    while let Some((header, body)) = peer.read_frame() {
        match header.kind {
            Kind::Reply => {
                match GetReply::decode(&body) {
                    Ok(_) => {}
                    Err(ReplyError::Refused(refusal)) => {
                        assert_eq!(refusal.code, ErrorCode::ShuttingDown);
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
                answered += 1;
                released += frame_len(body.len()) as u64;
                let id = u64::from(windows.reply) + released;
                let (kind, class) = (Kind::Credit, Class::Reply);
                peer.write_in_vain(&Header { len: 0, kind, class, more: false, id }.encode());
            }
            Kind::Goodbye => code = Some(header.id),
            _ => {}
        }
    }
    stopping.join().unwrap().unwrap();
    assert_eq!((answered, code), (COUNT, Some(2)), "{refused} were refused");
    assert!(refused > 0, "some had to wait");
}
