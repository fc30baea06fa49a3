//! Hosts that are gone without a word, as when a cable is pulled: nothing of theirs comes any more, not even that
//! they have taken what they were sent. Such a host's kernel is stood in for by a filter on its socket, which
//! drops whatever comes before TCP sees it.
//!
//! TCP's own timers find it out, in the system's time; so these tests take some seconds.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use weft_transport::{Applied, CallError, CloseReason, Connection};

use super::resets::listener;
use super::{Node, PATIENCE, Peer};

/// When the system begins to ask whether a silent peer is there, and how much later it asks again.
const ASKED_AFTER: Duration = Duration::from_secs(10);

impl Peer {
    /// From now on nothing that is sent to it arrives.
    fn vanish(&self) {
        // One instruction: return zero, the bytes that are to be kept.
        let drop_all = [socket2::SockFilter::new(0x06, 0, 0, 0)];
        socket2::SockRef::from(&self.stream).attach_filter(&drop_all).unwrap();
    }
}

/// A node that is patient for so long, its connection to a peer by hand, and that peer.
fn connected(stall_timeout: Duration) -> (Node, Connection, Peer) {
    let node = Node::start(|config| config.stall_timeout = stall_timeout);
    let (listener, address) = listener();
    let accepting = std::thread::spawn(move || Peer::accepted(&listener));
    let deadline = node.hand.now() + PATIENCE;
    let connection = node.endpoint.connect(address, deadline);
    let connection = node.endpoint.block_on(connection).unwrap();
    (node, connection, accepting.join().unwrap())
}

/// Waits until the node has no connection. Returns after how long.
fn gone_after(node: &Node) -> Duration {
    let began = Instant::now();
    while node.endpoint.stats().connections > 0 {
        assert!(began.elapsed() < PATIENCE, "it is never found out");
        std::thread::sleep(Duration::from_millis(10));
    }
    began.elapsed()
}

fn timed_out() -> CloseReason {
    let os_error = Some(Errno::TIMEDOUT.raw_os_error());
    CloseReason::Link { kind: ErrorKind::TimedOut, os_error }
}

#[test]
fn a_host_that_is_gone_is_found_out_though_nothing_is_under_way() {
    // When the system has asked once and waited for as long as the node is patient.
    let (node, connection, peer) = connected(Duration::from_secs(11));
    assert!(connection.is_open());
    peer.vanish();
    let after = gone_after(&node);
    assert!(after > ASKED_AFTER, "after {after:?} nobody can know");
    let late = node.endpoint.block_on(connection.call(b"anybody?", node.hand.now() + PATIENCE));
    let (applied, reason) = (Applied::No, timed_out());
    assert_eq!(late.map(drop), Err(CallError::Disconnected { applied, reason }));
    node.assert_serves();
}

/// What has been handed to the system waits for the peer no longer than what has not.
#[test]
fn a_host_that_is_gone_is_found_out_by_what_it_does_not_take() {
    const PATIENT_FOR: Duration = Duration::from_secs(2);
    let (node, connection, peer) = connected(PATIENT_FOR);
    peer.vanish();
    let began = Instant::now();
    let call = connection.call(b"anybody?", node.hand.now() + PATIENCE);
    let outcome = std::thread::scope(|scope| {
        // The call's own deadline, if it is that which ends it.
        scope.spawn(|| {
            while began.elapsed() < PATIENCE && connection.is_open() {
                std::thread::sleep(Duration::from_millis(10));
            }
            node.hand.advance_to(node.hand.now() + PATIENCE);
        });
        node.endpoint.block_on(call)
    });
    let (applied, reason) = (Applied::Maybe, timed_out());
    assert_eq!(outcome.map(drop), Err(CallError::Disconnected { applied, reason }));
    assert!(began.elapsed() >= PATIENT_FOR);
    node.assert_serves();
}

/// A peer that is there and silent is asked, answers, and stays, however long that goes on.
#[test]
fn who_is_silent_and_there_stays() {
    let (node, connection, peer) = connected(Duration::from_secs(11));
    std::thread::sleep(ASKED_AFTER + Duration::from_secs(5));
    assert!(connection.is_open());
    assert_eq!(node.endpoint.stats().connections, 1);
    drop(peer);
    gone_after(&node);
}
