//! Peers that are wrong, late or hostile about streamed bodies.

use std::time::Duration;

use weft_transport::frame::{Class, Header, Kind};
use weft_transport::handshake::{BODIES, LARGE};
use weft_transport::limits::{
    BODIES_MAX, BODY_AHEAD_MAX, BODY_HEAD_MAX, CHUNK_BYTES, LEAVE_TIMEOUT,
};
use weft_transport::{BodyError, BodyReader, BodyWriter, Purpose, StopReason};

use super::large::{assert_lets_go, chunk, end, frame, grant};
use super::{Node, PATIENCE, Peer, hello_with};

/// A request with which a body begins.
fn open() -> Vec<u8> {
    frame(Kind::OpenRequest, Class::Request, 1, b"head")
}

fn open_message() -> Vec<u8> {
    frame(Kind::OpenMessage, Class::Request, 0, b"head")
}

/// The end of body `number`, after so many bytes.
fn over(number: u64, total: u64) -> Vec<u8> {
    frame(Kind::End, Class::Request, number, &total.to_le_bytes())
}

/// A cancel or refusal for a reason of the program's.
fn stop(kind: Kind, number: u64) -> Vec<u8> {
    let reason = StopReason::Program { code: 9, text: "said by hand".into() };
    frame(kind, Class::Reply, number, &reason.encode())
}

fn said_by_hand() -> StopReason {
    StopReason::Program { code: 9, text: "said by hand".into() }
}

impl Peer {
    fn streaming(node: &Node) -> Self {
        let peer = Self::greeted_with(node, &hello_with(LARGE | BODIES));
        peer.stream.set_nodelay(true).unwrap();
        peer
    }

    /// The next grant: of which body, and up to where.
    fn granted(&mut self) -> (u64, u64) {
        let (header, position) = self.read_kind(Kind::Grant);
        (header.id, u64::from_le_bytes(position.try_into().unwrap()))
    }
}

impl Node {
    /// The next body that the handler has been given.
    fn kept(&self) -> (BodyReader, Option<BodyWriter>) {
        for _ in 0..PATIENCE.as_millis() {
            if let Some(kept) = self.handler.kept.lock().unwrap().pop() {
                return kept;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the handler is given no body");
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 977) as u8).collect()
}

#[test]
fn a_streamed_body_by_hand_comes_back_as_it_is_granted() {
    let node = Node::start(|_| {});
    let mut peer = Peer::streaming(&node);
    let sent = bytes(10 * CHUNK_BYTES + 77);
    peer.write(&open());
    let (mut body, reply) = node.kept();
    let mut reply = reply.unwrap();
    std::thread::scope(|scope| {
        let sent = &sent;
        scope.spawn(move || {
            while let Some(piece) = body.next_blocking().unwrap() {
                reply.write_blocking(&piece).unwrap();
            }
            assert_eq!(reply.finish_blocking().unwrap(), sent.len() as u64);
        });
        let (mut at, mut granted) = (0, 0);
        let (mut back, mut granted_back, mut answers) = (Vec::new(), 0, 0);
        loop {
            // Parts of any length, that end with the blocks.
            let end = (at + 30_000).min(sent.len()).min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
            if at < end && end as u64 <= granted {
                peer.write(&chunk(1, &sent[at..end]));
                at = end;
                if at == sent.len() {
                    peer.write(&over(1, sent.len() as u64));
                }
                continue;
            }
            if back.len() as u64 == granted_back {
                granted_back += 2 * CHUNK_BYTES as u64;
                // No chunk comes that was not granted: an answer to something else comes first.
                peer.write(&[super::request(7, b"meanwhile"), grant(1, granted_back)].concat());
            }
            let (header, bytes) = peer.read_frame().unwrap();
            match header.kind {
                Kind::OpenReply => assert_eq!(bytes, b"head"),
                Kind::Reply => answers += 1,
                Kind::Credit => {}
                Kind::Grant => {
                    let position = u64::from_le_bytes(bytes.try_into().unwrap());
                    assert!(position > granted && position.is_multiple_of(CHUNK_BYTES as u64));
                    assert!(position <= (at + BODY_AHEAD_MAX) as u64, "{position} at {at}");
                    granted = position;
                }
                Kind::Chunk => {
                    assert_eq!((header.id, header.class), (1, Class::Reply));
                    back.extend(bytes);
                    assert!(back.len() as u64 <= granted_back, "a chunk that was not granted");
                }
                Kind::End => break assert_eq!(bytes, (sent.len() as u64).to_le_bytes()),
                other => panic!("{other:?}"),
            }
        }
        assert!(answers >= 5, "{answers} calls were answered meanwhile");
        assert!(back == *sent);
    });
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn what_cannot_be_of_a_body_ends_the_connection() {
    let node = Node::start(|_| {});
    let full = chunk(1, &[1; CHUNK_BYTES]);
    let announce = super::large::request();
    let more = {
        let (kind, class, id) = (Kind::OpenRequest, Class::Request, 1);
        Header { len: 0, kind, class, more: true, id }.encode().to_vec()
    };
    let source = frame(Kind::Source, Class::Reply, 1, &[1; 16]);
    for (goodbye, what) in [
        // Nothing has been granted by then.
        (7, [open(), full.clone()].concat()),
        (7, [open(), chunk(1, &[1])].concat()),
        (6, full.clone()),
        (6, [open(), chunk(2, &[1])].concat()),
        (6, [open(), chunk(0, &[1])].concat()),
        (6, [open(), chunk(1, &[])].concat()),
        (6, [open(), over(1, 1)].concat()),
        (6, [open(), over(2, 0)].concat()),
        (6, [open(), over(1, 0), over(1, 0)].concat()),
        (6, [open(), over(1, 0), chunk(1, &[1])].concat()),
        (6, [open(), over(1, 0), end(Kind::Cancel, 1)].concat()),
        (6, [open(), end(Kind::Cancel, 1), over(1, 0)].concat()),
        (6, [open(), end(Kind::Cancel, 1), full.clone()].concat()),
        (6, [open(), frame(Kind::End, Class::Request, 1, &[0; 7])].concat()),
        (6, [open(), frame(Kind::Cancel, Class::Request, 1, &[1, 2, 3])].concat()),
        (6, [open(), frame(Kind::Withdraw, Class::Request, 1, b"")].concat()),
        (6, over(1, 0)),
        (6, stop(Kind::Cancel, 1)),
        (6, stop(Kind::Refuse, 1)),
        // Neither is a transfer a body.
        (6, [announce.clone(), over(1, 0)].concat()),
        (6, [announce.clone(), stop(Kind::Cancel, 1)].concat()),
        (6, [source, open()].concat()),
        (6, more),
        (6, frame(Kind::OpenReply, Class::Request, 1, b"")),
        (6, frame(Kind::OpenRequest, Class::Reply, 1, b"")),
        (6, open().repeat(BODIES_MAX + 1)),
        (5, frame(Kind::OpenRequest, Class::Request, 1, &[1; BODY_HEAD_MAX + 1])),
        (5, frame(Kind::End, Class::Request, 1, &[0; 9])),
        (5, frame(Kind::Refuse, Class::Reply, 1, &[0; 257])),
    ] {
        let mut peer = Peer::streaming(&node);
        peer.write_in_vain(&what);
        assert_eq!(peer.goodbye(), goodbye, "{:?}", &what[..what.len().min(60)]);
    }
    // What has been granted is no window for more, nor for what does not end with the blocks.
    for (goodbye, parts) in [(7, &[CHUNK_BYTES; 5][..]), (6, &[100, CHUNK_BYTES])] {
        let mut peer = Peer::streaming(&node);
        peer.write(&open());
        assert_eq!(peer.granted(), (1, BODY_AHEAD_MAX as u64));
        for len in parts {
            peer.write_in_vain(&chunk(1, &vec![1; *len]));
        }
        assert_eq!(peer.goodbye(), goodbye);
    }
    // Nor does any of it come from who has not said that it can do this.
    for features in [0, LARGE, BODIES] {
        for what in [open(), open_message(), over(1, 0)] {
            let mut peer = Peer::greeted_with(&node, &hello_with(features));
            peer.write(&what);
            assert_eq!(peer.goodbye(), 6);
        }
    }
    drop(std::mem::take(&mut *node.handler.kept.lock().unwrap()));
    node.assert_serves();
    assert_lets_go(&node);
}

#[test]
fn a_reply_that_streams_is_let_go_of_when_it_is_refused() {
    let node = Node::start(|_| {});
    let mut peer = Peer::streaming(&node);
    peer.write(&open());
    let (body, reply) = node.kept();
    let mut reply = reply.unwrap();
    peer.write(&grant(1, 2 * CHUNK_BYTES as u64));
    reply.write_blocking(&bytes(200_000)).unwrap();
    assert_eq!(peer.read_kind(Kind::Chunk).0.id, 1);
    peer.write(&stop(Kind::Refuse, 1));
    assert_eq!(peer.read_kind(Kind::Cancel).0.id, 1);
    // What is said of it now comes too late.
    peer.write(&[grant(1, 1 << 40), stop(Kind::Refuse, 1), end(Kind::Refuse, 1)].concat());
    let error = loop {
        if let Err(error) = reply.write_blocking(&bytes(200_000)) {
            break error;
        }
    };
    assert_eq!(error, BodyError::Refused(said_by_hand()));
    drop((body, reply));
    assert_eq!(peer.read_kind(Kind::Refuse).0.id, 1);
    // What had been granted may still come, and is dropped.
    peer.write(&[chunk(1, &[1; CHUNK_BYTES]), chunk(1, &[1; 9]), stop(Kind::Cancel, 1)].concat());
    peer.echoes();
    assert_lets_go(&node);
    // A reason that is none is not understood.
    peer.write(&open());
    let (_body, _reply) = node.kept();
    peer.read_kind(Kind::OpenReply);
    peer.write(&frame(Kind::Refuse, Class::Reply, 2, &[1, 2, 3, 4]));
    assert_eq!(peer.goodbye(), 6);
}

#[test]
fn a_body_of_a_reply_that_nobody_asked_for_is_refused() {
    let node = Node::start(|_| {});
    let mut peer = Peer::streaming(&node);
    // Far more than the window has room for, were it not given back.
    for number in 1..300 {
        peer.write(&frame(Kind::OpenReply, Class::Reply, 77, &[1; BODY_HEAD_MAX]));
        let (header, reason) = peer.read_kind(Kind::Refuse);
        assert_eq!(header.id, number);
        assert_eq!(StopReason::decode(&reason), Some(StopReason::NotTaken));
        peer.write(&end(Kind::Cancel, number));
    }
    peer.echoes();
    assert_lets_go(&node);
}

#[test]
fn a_reader_is_told_why_its_sender_gave_up() {
    let node = Node::start(|_| {});
    let mut peer = Peer::streaming(&node);
    peer.write(&open_message());
    peer.granted();
    peer.write(&[chunk(1, b"some of it"), stop(Kind::Cancel, 1)].concat());
    let (mut body, _) = node.kept();
    assert_eq!(&*body.next_blocking().unwrap().unwrap(), b"some of it");
    assert_eq!(body.next_blocking().unwrap_err(), BodyError::Aborted(said_by_hand()));
}

/// Bytes that come one by one are one piece of one block, and cost no more.
#[test]
fn single_bytes_take_no_more_memory_than_a_block() {
    let node = Node::start(|_| {});
    let mut peer = Peer::streaming(&node);
    peer.write(&open_message());
    peer.granted();
    let before = node.memory.account().allocated_bytes;
    let sent = bytes(5000);
    for byte in &sent {
        peer.write(&chunk(1, &[*byte]));
    }
    peer.echoes();
    let after = node.memory.account().allocated_bytes;
    assert!(after <= before + (1 << 20), "{before}, then {after}");
    let (mut body, _) = node.kept();
    let piece = body.next_blocking().unwrap().unwrap();
    assert!(*piece == sent);
}

#[test]
fn a_connection_with_a_body_under_way_makes_no_room() {
    let node = Node::start(|config| config.connections_max = 1);
    let mut peer = Peer::streaming(&node);
    peer.write(&open_message());
    peer.granted();
    let (_body, _) = node.kept();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(2));
    assert_eq!(Peer::silent(&node).goodbye(), 11);
    peer.write(&[chunk(1, b"still here"), over(1, 10)].concat());
    peer.echoes();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(2));
    node.assert_serves();
    peer.echoes_behind_goodbye(12);
}

/// A body that crosses the goodbye of who leaves is taken to its end, however long that takes.
#[test]
fn who_leaves_takes_the_body_that_crossed_its_goodbye() {
    let node = Node::start(|config| config.connections_max = 1);
    let mut peer = Peer::streaming(&node);
    peer.echoes();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(1));
    node.assert_serves();
    assert_eq!(peer.read_kind(Kind::Goodbye).0.id, 12);
    peer.write(&open_message());
    let mut position = peer.granted().1;
    let (mut body, _) = node.kept();
    for round in 0..10 {
        // The reader looks at the clock, as it would while it waits.
        node.hand.advance_to(node.hand.now() + LEAVE_TIMEOUT);
        std::thread::sleep(Duration::from_millis(20));
        peer.write(&chunk(1, &[round; CHUNK_BYTES]));
        let piece = body.next_blocking().unwrap().unwrap();
        assert_eq!(piece[0], round);
        let mut rest = CHUNK_BYTES - piece.len();
        drop(piece);
        while rest > 0 {
            rest -= body.next_blocking().unwrap().unwrap().len();
        }
        if position < (u64::from(round) + 3) * CHUNK_BYTES as u64 {
            position = peer.granted().1;
        }
    }
    peer.write(&over(1, 10 * CHUNK_BYTES as u64));
    assert!(body.next_blocking().unwrap().is_none());
    // Then nothing keeps it any more.
    node.while_time_passes(|| while peer.read_frame().is_some() {});
}

/// Whoever has memory for bodies and does not go on with them makes way when others need it.
#[test]
fn bodies_that_do_not_go_on_make_way_when_memory_is_short() {
    let node = Node::with_memory(8 << 20, |_| {});
    let mut peers: Vec<_> = (0..3).map(|_| Peer::streaming(&node)).collect();
    for peer in &mut peers {
        peer.write(&open_message().repeat(BODIES_MAX));
        // Whether it is granted anything or not: a part of the memory stays free.
        peer.echoes();
    }
    let received = || node.memory.account().allocated_for(Purpose::Receive);
    assert!(received() >= 5 << 20, "{} bytes are granted", received());
    assert!(node.memory.free_bytes() >= 1 << 20);
    let hold = node.memory.allocate(1 << 20, Purpose::Log).unwrap();
    assert_eq!(node.while_time_passes(|| peers[0].goodbye()), 14);
    node.assert_serves();
    drop(hold);
}
