//! Peers that are wrong, late or hostile about bodies that are too long for one frame.

use weft_transport::Purpose;
use weft_transport::frame::{Announcement, Class, Header, Kind, frame_len};
use weft_transport::handshake::LARGE;
use weft_transport::limits::{CHUNK_BYTES, GRANTED_MAX, LARGE_MAX, MESSAGE_MAX, TRANSFERS_MAX};

use super::{Node, Peer, STALL_TIMEOUT, hello, hello_with};

const LEN: usize = 3 << 20;

pub(crate) fn frame(kind: Kind, class: Class, id: u64, body: &[u8]) -> Vec<u8> {
    let header = Header { len: body.len() as u32, kind, class, more: false, id };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(frame_len(body.len()), 0);
    bytes
}

pub(crate) fn announcement(kind: Kind, total: u64) -> Vec<u8> {
    let class = if kind == Kind::Reply { Class::Reply } else { Class::Request };
    frame(Kind::Announce, class, 1, &Announcement { total, kind }.encode())
}

pub(crate) fn request() -> Vec<u8> {
    announcement(Kind::Request, LEN as u64)
}

pub(crate) fn chunk(number: u64, bytes: &[u8]) -> Vec<u8> {
    frame(Kind::Chunk, Class::Request, number, bytes)
}

pub(crate) fn grant(number: u64, position: u64) -> Vec<u8> {
    frame(Kind::Grant, Class::Reply, number, &position.to_le_bytes())
}

pub(crate) fn end(kind: Kind, number: u64) -> Vec<u8> {
    frame(kind, Class::Reply, number, b"")
}

impl Peer {
    fn large(node: &Node) -> Self {
        let peer = Self::greeted_with(node, &hello_with(LARGE));
        peer.stream.set_nodelay(true).unwrap();
        peer
    }

    /// The next frame of this kind.
    pub(crate) fn read_kind(&mut self, kind: Kind) -> (Header, Vec<u8>) {
        let mut frames = std::iter::from_fn(|| self.read_frame());
        frames.find(|(header, _)| header.kind == kind).expect("a frame of this kind")
    }

    /// Sends the body of transfer `number` as it is granted.
    fn send_large(&mut self, number: u64, body: &[u8]) {
        let (mut sent, mut granted) = (0, 0);
        while sent < body.len() {
            let end = body.len().min(sent + CHUNK_BYTES);
            if end > granted {
                let (header, position) = self.read_kind(Kind::Grant);
                assert_eq!(header.id, number);
                granted = u64::from_le_bytes(position.try_into().unwrap()) as usize;
                assert!(granted <= sent + GRANTED_MAX && granted <= body.len());
                continue;
            }
            self.write(&chunk(number, &body[sent..end]));
            sent = end;
        }
    }
}

/// Waits until the node holds nothing for large bodies.
pub(crate) fn assert_lets_go(node: &Node) {
    let held = || {
        let account = node.memory.account();
        account.allocated_for(Purpose::Receive) + account.allocated_for(Purpose::Send)
    };
    node.while_time_passes(|| {
        let began = node.hand.now();
        while held() > MESSAGE_MAX as u64 {
            assert!(node.hand.now().since(began) < 10 * STALL_TIMEOUT, "{} are held", held());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

#[test]
fn a_large_body_by_hand_comes_back_whole() {
    let node = Node::start(|_| {});
    let mut peer = Peer::large(&node);
    let body: Vec<u8> = (0..LEN - 3).map(|at| (at * 31 + at / 977) as u8).collect();
    peer.write(&announcement(Kind::Request, body.len() as u64));
    peer.send_large(1, &body);
    let (header, announced) = peer.read_kind(Kind::Announce);
    assert_eq!((header.id, header.class, header.more), (1, Class::Reply, false));
    let expected = Announcement { total: body.len() as u64, kind: Kind::Reply };
    assert_eq!(Announcement::decode(&announced), Some(expected));
    let mut back = Vec::new();
    while back.len() < body.len() {
        // No chunk comes that was not granted: an answer to something else comes first.
        peer.echoes();
        let granted = body.len().min(back.len() + 3 * CHUNK_BYTES);
        peer.write(&grant(1, granted as u64));
        while back.len() < granted {
            let (header, bytes) = peer.read_kind(Kind::Chunk);
            assert_eq!(header.id, 1);
            back.extend(bytes);
        }
        assert_eq!(back.len(), granted);
    }
    assert!(back == body);
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn what_cannot_be_ends_the_connection() {
    let node = Node::start(|_| {});
    let four = [request(), request(), request(), request()].concat();
    let wrong_class = frame(
        Kind::Announce,
        Class::Request,
        1,
        &Announcement { total: LEN as u64, kind: Kind::Reply }.encode(),
    );
    let mut of_nothing = request();
    of_nothing[24] = Kind::Credit as u8;
    let mut not_zero = request();
    not_zero[31] = 1;
    let full = chunk(1, &[1; CHUNK_BYTES]);
    for (goodbye, what) in [
        (6, announcement(Kind::Request, 4 << 30)),
        (6, announcement(Kind::Message, 1 << 63)),
        (6, announcement(Kind::Request, u64::MAX)),
        (6, announcement(Kind::Request, LARGE_MAX as u64 + 1)),
        (6, announcement(Kind::Request, MESSAGE_MAX as u64)),
        (6, announcement(Kind::Request, 0)),
        // As long as may be, but more than the node has memory for.
        (14, announcement(Kind::Message, LARGE_MAX as u64)),
        (6, wrong_class),
        (6, of_nothing),
        (6, not_zero),
        (6, frame(Kind::Announce, Class::Request, 1, &[0; 8])),
        (6, request().repeat(TRANSFERS_MAX + 1)),
        // Only four land at a time: nothing of the fifth has been granted.
        (7, [four, request(), chunk(5, &[1; CHUNK_BYTES])].concat()),
        (7, [announcement(Kind::Reply, LEN as u64), full.clone()].concat()),
        (6, full.clone()),
        (6, [request(), chunk(2, &[1; CHUNK_BYTES])].concat()),
        (6, [request(), chunk(1, &[1; 8])].concat()),
        (6, [request(), end(Kind::Cancel, 1), full].concat()),
        (6, [request(), end(Kind::Cancel, 1), end(Kind::Cancel, 1)].concat()),
        (6, end(Kind::Cancel, 0)),
        (6, grant(1, 1)),
        (6, grant(0, 1)),
        (6, frame(Kind::Grant, Class::Reply, 1, b"")),
        (6, end(Kind::Refuse, 1)),
        (5, frame(Kind::Chunk, Class::Request, 1, &[1; CHUNK_BYTES + 1])),
        (5, frame(Kind::Cancel, Class::Request, 1, &[1; 257])),
        (6, [request(), frame(Kind::Cancel, Class::Request, 1, &[1; 8])].concat()),
    ] {
        let mut peer = Peer::large(&node);
        peer.write_in_vain(&what);
        assert_eq!(peer.goodbye(), goodbye, "{:?}", &what[..what.len().min(40)]);
    }
    // Nor does any of it come from who has not said that it can do this.
    let mut peer = Peer::greeted_with(&node, &hello());
    peer.write(&request());
    assert_eq!(peer.goodbye(), 6);
    node.assert_serves();
    assert_lets_go(&node);
}

/// A node that has announced a reply to the peer, as transfer 1.
fn announced_to() -> (Node, Peer) {
    let node = Node::start(|_| {});
    let mut peer = Peer::large(&node);
    peer.write(&request());
    peer.send_large(1, &[1; LEN]);
    peer.read_kind(Kind::Announce);
    (node, peer)
}

#[test]
fn a_grant_beyond_the_end_ends_the_connection() {
    let (node, mut peer) = announced_to();
    peer.write(&grant(1, LEN as u64 + 1));
    assert_eq!(peer.goodbye(), 6);
    assert_lets_go(&node);
}

#[test]
fn a_reply_that_is_refused_is_let_go_of() {
    let (node, mut peer) = announced_to();
    peer.write(&grant(1, 4 * CHUNK_BYTES as u64));
    // Grants that have been said before, or come late, change nothing.
    peer.write(&grant(1, CHUNK_BYTES as u64));
    peer.read_kind(Kind::Chunk);
    peer.write(&end(Kind::Refuse, 1));
    assert_eq!(peer.read_kind(Kind::Cancel).0.id, 1);
    peer.write(&[grant(1, LEN as u64), end(Kind::Refuse, 1)].concat());
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn a_reply_that_nobody_asked_for_is_refused() {
    let node = Node::start(|_| {});
    let mut peer = Peer::large(&node);
    for number in 1..100 {
        peer.write(&announcement(Kind::Reply, LEN as u64));
        assert_eq!(peer.read_kind(Kind::Refuse).0.id, number);
        peer.write(&end(Kind::Cancel, number));
    }
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn what_is_given_up_is_let_go_of() {
    let node = Node::start(|_| {});
    let mut peer = Peer::large(&node);
    // Far more than the window has room for, were it not given back.
    for number in 1..2000u64 {
        peer.write(&request());
        if number % 100 == 0 {
            while peer.read_kind(Kind::Grant).0.id != number {}
            peer.write(&chunk(number, &[1; CHUNK_BYTES]));
        }
        peer.write(&end(Kind::Cancel, number));
    }
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn a_peer_that_announces_and_sends_nothing_is_given_up() {
    let node = Node::start(|_| {});
    for sent in [&b""[..], &chunk(1, &[1; CHUNK_BYTES]), &chunk(1, &[1; CHUNK_BYTES])[..40_000]] {
        let began = node.hand.now();
        let mut peer = Peer::large(&node);
        peer.write(&request());
        peer.read_kind(Kind::Grant);
        peer.write(sent);
        // Other traffic is no excuse.
        let goodbye = node.while_time_passes(|| {
            if sent.is_empty() {
                peer.echoes();
            }
            peer.goodbye()
        });
        assert_eq!(goodbye, 15);
        assert!(node.hand.now().since(began) >= STALL_TIMEOUT);
    }
    node.assert_serves();
    assert_lets_go(&node);
}

#[test]
fn a_peer_that_grants_nothing_is_given_up() {
    let (node, mut peer) = announced_to();
    let began = node.hand.now();
    assert_eq!(node.while_time_passes(|| peer.goodbye()), 13);
    assert!(node.hand.now().since(began) >= STALL_TIMEOUT);
    node.assert_serves();
    assert_lets_go(&node);
}
