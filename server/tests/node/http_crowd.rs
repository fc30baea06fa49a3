//! Peers that take all places of the HTTP port: others are answered, and the memory is bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use weft_protocol::stat_name;
use weft_server::limits::{HTTP_BYTES, HTTP_CONNECTIONS_MAX};

use crate::support::{Client, Process, ask};

/// What the system's allocator may keep besides, such as a heap for the HTTP thread.
const SLACK: u64 = 1 << 20;

fn peers(http: SocketAddr, count: usize, begin: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut peer = TcpStream::connect(http).unwrap();
        peer.set_nonblocking(true).unwrap();
        let mut rest = begin;
        while !rest.is_empty() {
            match peer.write(rest) {
                Ok(written) => rest = &rest[written..],
                // The node reads no more of it, or has closed it.
                Err(_) => break,
            }
        }
        peer
    };
    (0..count).map(connect).collect()
}

#[test]
fn a_health_check_is_answered_while_all_places_are_taken_by_a_trickle() {
    let node = Process::small();
    let http = node.http.expect("it has an HTTP port");
    let mut trickling = peers(http, HTTP_CONNECTIONS_MAX, b"GET /metrics HTTP/1.1\r\nX: ");
    for _ in 0..3 {
        for peer in &mut trickling {
            // One of them is ended for each health check.
            let _ = peer.write(b"a");
        }
        assert!(ask(http, "/health").starts_with("HTTP/1.1 200 "));
    }
    let is_open = |peer: &mut TcpStream| matches!(peer.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    // The youngest are those that stay.
    assert!(!is_open(&mut trickling[0]));
    node.end();
}

#[test]
fn heads_that_never_end_take_no_more_than_is_charged() {
    let node = Process::small();
    let http = node.http.expect("it has an HTTP port");
    let client = Client::at(node.address);
    let session = client.stat("memory.purpose.session");
    assert!(session >= HTTP_BYTES, "{session} bytes are charged");
    let before = node.resident_bytes();
    let mut head = b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    head.resize(390_000, b'a');
    let hoarding = peers(http, HTTP_CONNECTIONS_MAX - 1, &head);
    // Answered after those before it were read as far as they are read.
    assert!(ask(http, "/health").starts_with("HTTP/1.1 200 "));
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown <= HTTP_BYTES + SLACK, "{grown} bytes more than before");
    drop(hoarding);
    assert_eq!(client.stat(stat_name::CONNECTIONS), 1);
    node.end();
}
