//! Bytes that are no frames, or frames out of place. Each connection ends with the documented
//! goodbye (docs/wire-format.md), and the node goes on.

use std::net::Shutdown;

use weft_transport::frame::{Class, Header, Kind};
use weft_transport::handshake::Hello;
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Incarnation, NodeId, Windows};

use crate::support::{Client, RawPeer, assert_serves, noise, request_header, settings, start};

/// Bytes of the magic and the versions: where they lie in a hello's frame.
const MAGIC_AT: usize = 16;
const VERSIONS_AT: usize = 20;

fn hello() -> Vec<u8> {
    let (node, incarnation) = (NodeId(77), Incarnation(1));
    Hello { node, incarnation, features: 0, windows: Windows::default(), secret: None }.encode()
}

/// A stranger sends `bytes`: the connection ends with goodbye `code` that says `text`.
fn check_stranger(bytes: &[u8], code: u64, text: &str) {
    let node = start(settings());
    let client = Client::to(&node);
    let mut peer = RawPeer::silent(&node);
    peer.write_in_vain(bytes);
    check_goodbye(&mut peer, code, text);
    assert_serves(&node, &client);
}

/// A peer that has said hello sends `bytes`: as above.
fn check_peer(bytes: &[u8], code: u64, text: &str) {
    let node = start(settings());
    let client = Client::to(&node);
    let mut peer = RawPeer::greeted(&node, Windows::default());
    peer.write_in_vain(bytes);
    check_goodbye(&mut peer, code, text);
    assert_serves(&node, &client);
}

fn check_goodbye(peer: &mut RawPeer, code: u64, text: &str) {
    let (said_code, said) = peer.goodbye();
    assert!(said_code == code && said.contains(text), "goodbye {said_code}: {said}");
}

#[test]
fn a_stream_of_another_protocol_is_told_so() {
    check_stranger(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 5, "unknown frame kind");
}

#[test]
fn a_stream_of_noise_ends_at_its_first_frame() {
    let noise: Vec<u8> = noise().map(|word| word as u8).take(1 << 20).collect();
    check_stranger(&noise, 5, "malformed frame");
    check_peer(&noise, 5, "malformed frame");
}

#[test]
fn a_hello_without_the_magic_is_no_hello() {
    let mut bytes = hello();
    bytes[MAGIC_AT] ^= 1;
    check_stranger(&bytes, 3, "does not speak this protocol");
}

#[test]
fn a_hello_of_another_version_is_refused_by_name() {
    let mut bytes = hello();
    bytes[VERSIONS_AT..VERSIONS_AT + 4].copy_from_slice(&[9, 0, 12, 0]);
    check_stranger(&bytes, 4, "9 to 12");
}

#[test]
fn a_frame_of_four_gibibytes_is_refused_by_its_header() {
    check_stranger(&request_header(1, u32::MAX).encode(), 5, "4294967295 bytes");
    check_peer(&request_header(1, u32::MAX).encode(), 5, "4294967295 bytes");
}

#[test]
fn a_frame_one_byte_too_long_is_refused_by_its_header() {
    let header = request_header(1, MESSAGE_MAX as u32 + 1);
    check_peer(&header.encode(), 5, "where at most 1048576 are allowed");
}

#[test]
fn a_request_before_hello_is_out_of_place() {
    check_stranger(&[request_header(1, 0).encode().as_slice(), &[0; 64]].concat(), 6, "");
}

#[test]
fn a_second_hello_is_out_of_place() {
    check_peer(&hello(), 6, "");
}

#[test]
fn credit_for_what_was_never_sent_is_out_of_place() {
    let kind = Kind::Credit;
    let header = Header { len: 0, kind, class: Class::Reply, more: false, id: u64::MAX };
    check_peer(&header.encode(), 6, "");
}

#[test]
fn a_reply_that_nobody_waits_for_is_dropped() {
    let node = start(settings());
    let client = Client::to(&node);
    let mut peer = RawPeer::greeted(&node, Windows::default());
    let header = Header { kind: Kind::Reply, class: Class::Reply, ..request_header(u64::MAX, 0) };
    peer.write(&header.encode());
    peer.request(5, weft_protocol::Stats);
    let (answer, _) = std::iter::from_fn(|| peer.read_frame())
        .find(|(header, _)| header.kind == Kind::Reply)
        .expect("the connection goes on");
    assert_eq!(answer.id, 5);
    assert_serves(&node, &client);
}

/// Whoever stops in the middle of a frame and hangs up is not answered, and costs nothing.
#[test]
fn a_frame_that_is_cut_off_is_forgotten() {
    let node = start(settings());
    let client = Client::to(&node);
    let frames = [
        (RawPeer::silent(&node), hello()),
        (RawPeer::greeted(&node, Windows::default()), {
            let mut frame = request_header(1, 900_000).encode().to_vec();
            frame.resize(300_000, 0);
            frame
        }),
    ];
    for (mut peer, frame) in frames {
        peer.write(&frame[..frame.len() - 1]);
        peer.stream.shutdown(Shutdown::Write).unwrap();
        while peer.read_frame().is_some() {}
    }
    assert_serves(&node, &client);
    // Only this client is left, and nothing of a frame that never came whole.
    client.wait_for(weft_protocol::stat_name::CONNECTIONS, |connections| connections == 1);
    assert_eq!(client.stat("operations.get") + client.stat("requests.malformed"), 2);
}
