//! Peers whose sockets are reset: the end comes as an error, without what was on its way.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use weft_transport::frame::{HEADER_BYTES, Kind};
use weft_transport::handshake::Hello;
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Applied, CallError, CloseReason, Incarnation, LinkPolicy, NodeId, Windows};

use super::large::assert_lets_go;
use super::{Node, PATIENCE, Peer, half_a_request, request};

impl Peer {
    /// Who is connected to next, when its hello has been answered.
    pub(crate) fn accepted(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut peer = Self { stream };
        let (header, _) = peer.read_frame().expect("who connects says hello");
        assert_eq!(header.kind, Kind::Hello);
        let (node, incarnation) = (NodeId(2), Incarnation(1));
        let (features, windows) = (0, Windows::default());
        peer.write(&Hello { node, incarnation, features, windows, secret: None }.encode());
        peer
    }

    /// Closes with a reset instead of an end.
    fn reset(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }
}

pub(crate) fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The call may have been handled: its frame was read, and no reply came.
#[test]
fn a_reset_fails_the_calls_under_way_and_no_other_connection() {
    let node = Node::start(|config| config.links = LinkPolicy::Tcp);
    let mut other = Peer::greeted(&node);
    other.echoes();
    let (listener, address) = listener();
    let body = [5; 3000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = Peer::accepted(&listener);
            for _ in 0..2 {
                let (header, came) = peer.read_frame().expect("a request");
                assert_eq!((header.kind, &came[..]), (Kind::Request, &body[..]));
            }
            peer.reset();
        });
        node.endpoint.block_on(async {
            let deadline = node.hand.now() + PATIENCE;
            let connection = node.endpoint.connect(address, deadline).await.unwrap();
            let calls = [connection.call(&body, deadline), connection.call(&body, deadline)];
            let os_error = Some(Errno::CONNRESET.raw_os_error());
            let reason = CloseReason::Link { kind: ErrorKind::ConnectionReset, os_error };
            let lost = CallError::Disconnected { applied: Applied::Maybe, reason: reason.clone() };
            for outcome in futures_util::future::join_all(calls).await {
                assert_eq!(outcome.map(drop), Err(lost.clone()));
            }
            assert!(!connection.is_open());
            // What is called afterwards never leaves.
            let late = connection.call(&body, deadline).await.map(drop);
            assert_eq!(late, Err(CallError::Disconnected { applied: Applied::No, reason }));
        });
    });
    other.echoes();
    node.assert_serves();
}

/// Between frames, in a header, in a body that has a block of its own, and before the node has said all.
#[test]
fn whoever_resets_in_the_middle_of_anything_costs_its_own_connection_only() {
    const EACH: usize = 8;
    let node = Node::with_memory(16 << 20, |_| {});
    let mut other = Peer::greeted(&node);
    other.echoes();
    let short = request(1, &[1; 1000]);
    let unread = request(1, &vec![3; MESSAGE_MAX - HEADER_BYTES]);
    for begun in [&[][..], &short[..HEADER_BYTES - 1], &short[..900], &half_a_request(), &unread] {
        for _ in 0..EACH {
            let mut peer = Peer::greeted(&node);
            peer.echoes();
            peer.write(begun);
            peer.reset();
        }
        other.echoes();
    }
    assert_lets_go(&node);
    node.while_time_passes(|| {
        let began = node.hand.now();
        // The last one goes when the node has read that it is reset.
        while node.endpoint.stats().connections > 1 {
            assert!(node.hand.now().since(began) < PATIENCE, "they stay");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    other.echoes();
    node.assert_serves();
}
