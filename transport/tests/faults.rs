//! Peers that are late, slow, half-open or hostile, written by hand over bare sockets: each ends with
//! the goodbye of `docs/wire-format.md`, and a peer that behaves is served on. The clock is moved by
//! hand, so that nobody waits for thirty seconds.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of it")]
#![expect(clippy::disallowed_methods, reason = "a pace for the clock and for a slow peer")]

#[path = "faults/bodies.rs"]
mod bodies;
#[path = "faults/half_open.rs"]
mod half_open;
#[path = "faults/large.rs"]
mod large;
#[path = "faults/late.rs"]
mod late;
#[path = "faults/resets.rs"]
mod resets;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weft_transport::frame::{Class, HEADER_BYTES, Header, Kind, frame_len};
use weft_transport::handshake::Hello;
use weft_transport::limits::{
    CONNECTION_BYTES, HANDSHAKE_TIMEOUT, LEAVE_TIMEOUT, MESSAGE_MAX, WINDOW_MIN,
};
use weft_transport::{
    Batch, BodyReader, BodyWriter, Clock, Endpoint, EndpointConfig, Handler, Incarnation,
    IncomingKind, ManualClock, Memory, MemoryConfig, NodeId, PollPolicy, Purpose, Secret, Windows,
};

/// Long enough for any answer on a busy machine; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Replies with the request's body. Keeps what is streamed behind, and what writes behind its reply.
#[derive(Default)]
struct Echo {
    kept: Mutex<Vec<(BodyReader, Option<BodyWriter>)>>,
}

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        assert_ne!(batch.peer().node, NodeId(1), "nobody has the node's own id");
        while let Some(incoming) = batch.next() {
            let call = match incoming.kind {
                IncomingKind::Call(call) => Some(call),
                IncomingKind::Message => None,
            };
            if let Some(body) = incoming.take_body() {
                let reply = call.map(|call| batch.reply_body(call, incoming.body).unwrap());
                self.kept.lock().unwrap().push((body, reply));
            } else if let Some(call) = call {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// An endpoint that listens, and the hand of its clock.
struct Node {
    endpoint: Endpoint,
    handler: Arc<Echo>,
    memory: Memory,
    address: SocketAddr,
    hand: ManualClock,
}

impl Node {
    fn start(change: impl FnOnce(&mut EndpointConfig)) -> Self {
        Self::with_memory(64 << 20, change)
    }

    fn with_memory(limit_bytes: u64, change: impl FnOnce(&mut EndpointConfig)) -> Self {
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let (clock, hand) = Clock::manual();
        let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory.clone());
        config.clock = clock;
        config.poll = PollPolicy::Park;
        config.stall_timeout = STALL_TIMEOUT;
        change(&mut config);
        let handler = Arc::new(Echo::default());
        let endpoint = Endpoint::start(config, Arc::clone(&handler) as _).unwrap();
        let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        Self { endpoint, handler, memory, address, hand }
    }

    /// Runs `wait` while the clock goes on, a twentieth of a second at a time: if a busy machine lets the node
    /// wait for long, it takes itself for stopped.
    fn while_time_passes<R>(&self, wait: impl FnOnce() -> R) -> R {
        /// Over when the wait ends, however it does.
        struct Ended<'a>(&'a AtomicBool);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ended = Ended(&over);
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    self.hand.advance_to(self.hand.now() + Duration::from_millis(50));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            wait()
        })
    }

    /// A peer that says what it has to is answered.
    fn assert_serves(&self) {
        let mut peer = Peer::greeted(self);
        peer.echoes();
    }
}

/// A peer that writes its frames by hand.
struct Peer {
    stream: TcpStream,
}

impl Peer {
    fn silent(node: &Node) -> Self {
        let stream = TcpStream::connect(node.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    fn greeted(node: &Node) -> Self {
        Self::greeted_with(node, &hello())
    }

    fn greeted_with(node: &Node, hello: &[u8]) -> Self {
        let mut peer = Self::silent(node);
        peer.write(hello);
        let (header, _) = peer.read_frame().expect("the node says hello");
        assert_eq!(header.kind, Kind::Hello);
        peer
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Writes as far as it is taken: the other side may have closed already.
    fn write_in_vain(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn echoes(&mut self) {
        self.write(&request(7, b"still there?"));
        let answer = std::iter::from_fn(|| self.read_frame());
        let answer = answer.into_iter().find(|(header, _)| header.kind == Kind::Reply);
        assert_eq!(answer.expect("an answer").1, b"still there?");
    }

    /// The node leaves with a goodbye of this code, and answers what it is asked before the peer goes.
    fn echoes_behind_goodbye(&mut self, code: u64) {
        let (header, _) = self.read_frame().expect("a goodbye");
        assert_eq!((header.kind, header.id), (Kind::Goodbye, code));
        self.echoes();
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(self.read_frame().is_none(), "it goes when the peer does");
    }

    fn read_frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        match self.stream.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return None,
            read => read.unwrap(),
        }
        let header = Header::decode(&header).unwrap();
        let mut body = vec![0; header.frame_len() - HEADER_BYTES];
        self.stream.read_exact(&mut body).unwrap();
        body.truncate(header.len as usize);
        Some((header, body))
    }

    /// The code of the goodbye that ends the connection.
    fn goodbye(&mut self) -> u64 {
        let frames = std::iter::from_fn(|| self.read_frame());
        let last = frames.last().expect("a goodbye before the end").0;
        assert_eq!(last.kind, Kind::Goodbye);
        last.id
    }
}

fn hello() -> Vec<u8> {
    hello_with(0)
}

fn hello_with(features: u64) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let node = NodeId::client(NEXT.fetch_add(1, Ordering::Relaxed));
    let windows = Windows { reply: WINDOW_MIN, ..Windows::default() };
    Hello { node, incarnation: Incarnation(1), features, windows, secret: None }.encode()
}

fn request(id: u64, body: &[u8]) -> Vec<u8> {
    let (kind, class) = (Kind::Request, Class::Request);
    let header = Header { len: body.len() as u32, kind, class, more: false, id };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(frame_len(body.len()), 0);
    bytes
}

/// The beginning of a request of the largest size.
fn half_a_request() -> Vec<u8> {
    let mut bytes = request(1, &vec![1; MESSAGE_MAX]);
    bytes.truncate(MESSAGE_MAX / 2);
    bytes
}

#[test]
fn a_stranger_that_says_nothing_or_half_a_hello_is_told_that_it_is_late() {
    let node = Node::start(|_| {});
    let hello = hello();
    for said in [&[][..], &hello[..1], &hello[..40], &hello[..hello.len() - 1]] {
        let began = node.hand.now();
        let mut peer = Peer::silent(&node);
        peer.write(said);
        assert_eq!(node.while_time_passes(|| peer.goodbye()), 8);
        assert!(node.hand.now().since(began) >= HANDSHAKE_TIMEOUT);
    }
    node.assert_serves();
}

#[test]
fn a_slow_reader_is_ended_when_it_has_taken_nothing_for_too_long() {
    let node = Node::start(|_| {});
    let began = node.hand.now();
    let mut peer = Peer::greeted(&node);
    // The window has room for two replies of the largest size, less their headers.
    for id in 0..3 {
        peer.write(&request(id, &vec![3; MESSAGE_MAX - HEADER_BYTES]));
    }
    assert_eq!(node.while_time_passes(|| peer.goodbye()), 13);
    assert!(node.hand.now().since(began) >= STALL_TIMEOUT);
    node.assert_serves();
}

#[test]
fn a_frame_that_does_not_end_is_given_up() {
    let node = Node::start(|_| {});
    // Long ones have a block of their own, short ones do not, and of some not even the header came.
    let short = request(1, &[1; 1000]);
    for begun in [&half_a_request()[..], &short[..900], &short[..HEADER_BYTES - 1]] {
        let began = node.hand.now();
        let mut peer = Peer::greeted(&node);
        peer.echoes();
        peer.write(begun);
        assert_eq!(node.while_time_passes(|| peer.goodbye()), 15);
        assert!(node.hand.now().since(began) >= STALL_TIMEOUT);
    }
    node.assert_serves();
}

/// A byte now and then does not keep a frame alive: it has to come whole in time.
#[test]
fn a_frame_that_trickles_is_given_up() {
    let node = Node::start(|_| {});
    let mut peer = Peer::greeted(&node);
    peer.write(&half_a_request());
    let mut trickle = Peer { stream: peer.stream.try_clone().unwrap() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                trickle.write_in_vain(&[1]);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(node.while_time_passes(|| peer.goodbye()), 15);
        over.store(true, Ordering::SeqCst);
    });
    node.assert_serves();
}

/// Whoever goes on sending, frame after frame, is never in the middle of the same one for long.
#[test]
fn a_peer_that_is_always_in_the_middle_of_some_frame_is_served_on() {
    let node = Node::start(|_| {});
    let mut peer = Peer::greeted(&node);
    let frame = request(1, &[1; 1000]);
    peer.write(&frame[..500]);
    node.while_time_passes(|| {
        let began = node.hand.now();
        while node.hand.now().since(began) < 3 * STALL_TIMEOUT {
            peer.write(&frame[500..]);
            peer.write(&frame[..500]);
            let (header, _) = peer.read_frame().expect("the connection lives");
            assert!(matches!(header.kind, Kind::Reply | Kind::Credit));
        }
    });
}

#[test]
fn the_connection_that_was_idle_for_longest_makes_room() {
    let node = Node::start(|config| {
        config.connections_max = 3;
        config.reactors = 2;
    });
    let mut peers: Vec<_> = (0..3)
        .map(|_| {
            node.hand.advance_to(node.hand.now() + Duration::from_secs(1));
            Peer::greeted(&node)
        })
        .collect();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(1));
    peers[0].echoes();
    node.assert_serves();
    // What was on its way when it was told is answered.
    peers[1].echoes_behind_goodbye(12);
    peers[0].echoes();
}

#[test]
fn who_does_not_go_when_room_is_needed_is_closed() {
    let node = Node::start(|config| config.connections_max = 1);
    let mut peer = Peer::greeted(&node);
    peer.echoes();
    let began = node.hand.now() + Duration::from_secs(1);
    node.hand.advance_to(began);
    node.assert_serves();
    assert_eq!(node.while_time_passes(|| peer.goodbye()), 12);
    assert!(node.hand.now().since(began) >= LEAVE_TIMEOUT);
}

#[test]
fn one_too_many_is_refused_when_none_is_idle() {
    let node = Node::start(|config| {
        config.connections_max = 3;
        config.reactors = 2;
    });
    let mut peers: Vec<_> = (0..3)
        .map(|_| {
            let mut peer = Peer::greeted(&node);
            peer.echoes();
            // In one write, so that the answer says that the half has come too.
            peer.write(&[request(8, b"and"), half_a_request()].concat());
            while peer.read_frame().expect("an answer").0.kind != Kind::Reply {}
            peer
        })
        .collect();
    assert_eq!(Peer::silent(&node).goodbye(), 11);
    // Those who are connected are served while it is full.
    let rest = &request(1, &vec![1; MESSAGE_MAX])[MESSAGE_MAX / 2..];
    peers[0].write(rest);
    while peers[0].read_frame().expect("an answer").0.kind != Kind::Reply {}
    peers[0].write(&half_a_request());
    peers[1].write(rest);
    while peers[1].read_frame().expect("an answer").0.kind != Kind::Reply {}
    peers[1].write(&half_a_request());
    peers.pop();
    let last = loop {
        // Until the node has noticed that one is gone.
        let mut peer = Peer::silent(&node);
        peer.write_in_vain(&hello());
        match peer.read_frame() {
            Some((header, _)) if header.kind == Kind::Hello => break peer,
            _ => std::thread::yield_now(),
        }
    };
    { last }.echoes();
}

/// Who comes when memory is full is refused, or let in at the expense of who keeps it; never of who
/// keeps nothing.
#[test]
fn a_newcomer_without_memory_ends_nobody_who_keeps_none() {
    let node = Node::with_memory(4 << 20, |config| config.connections_max = 10_000);
    let mut quiet = Peer::greeted(&node);
    quiet.echoes();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(5));
    let mut keeper = Peer::greeted(&node);
    keeper.echoes();
    // In one write, so that the answer says that the half has come too.
    keeper.write(&[request(8, b"and"), half_a_request()].concat());
    while keeper.read_frame().expect("an answer").0.kind != Kind::Reply {}
    let mut crowd = Vec::new();
    let refused = loop {
        assert!(crowd.len() < 1024, "4 KiB each are more than there is");
        let mut peer = Peer::silent(&node);
        peer.write_in_vain(&hello());
        let (header, _) = peer.read_frame().expect("an answer");
        if header.kind == Kind::Goodbye {
            break header.id;
        }
        crowd.push(peer);
    };
    assert_eq!(refused, 14);
    quiet.echoes();
    // By now it has kept the memory for long enough.
    node.hand.advance_to(node.hand.now() + Duration::from_millis(200));
    node.assert_serves();
    assert_eq!(keeper.goodbye(), 14);
    quiet.echoes();
}

#[test]
fn who_was_used_a_moment_ago_is_not_idle() {
    let node = Node::start(|config| config.connections_max = 1);
    let mut peer = Peer::greeted(&node);
    peer.echoes();
    node.hand.advance_to(node.hand.now() + Duration::from_millis(900));
    assert_eq!(Peer::silent(&node).goodbye(), 11);
    peer.echoes();
    node.hand.advance_to(node.hand.now() + Duration::from_secs(1));
    node.assert_serves();
    peer.echoes_behind_goodbye(12);
}

#[test]
fn nobody_takes_the_id_of_the_node_itself() {
    let node = Node::start(|_| {});
    let (own, incarnation) = (NodeId(1), Incarnation(2));
    let windows = Windows::default();
    let mut peer = Peer::silent(&node);
    let hello = Hello { node: own, incarnation, features: 0, windows, secret: None }.encode();
    // What comes in one piece with a hello that is refused is not handled: it has no peer.
    peer.write(&[hello, request(1, b"a stranger's")].concat());
    assert_eq!(peer.goodbye(), 6);
    node.assert_serves();
}

#[test]
fn who_does_not_know_the_secret_is_nobody() {
    let secret = Some(Secret::new(42));
    let node = Node::start(|config| config.secret = secret);
    let hello = |incarnation, secret| {
        let (node, windows) = (NodeId(2), Windows::default());
        let incarnation = Incarnation(incarnation);
        Hello { node, incarnation, features: 0, windows, secret }.encode()
    };
    let mut friend = Peer::silent(&node);
    friend.write(&hello(1, secret));
    friend.echoes();
    // Neither the same life of the same node nor a later one, which would end the connection.
    for incarnation in [1, 2] {
        for wrong in [None, Some(Secret::new(43)), Some(Secret::new(42 | 1 << 127))] {
            let mut stranger = Peer::silent(&node);
            let words = request(1, b"a stranger's");
            stranger.write(&[hello(incarnation, wrong), words].concat());
            let (header, text) = stranger.read_frame().expect("a goodbye");
            assert_eq!((header.kind, header.id), (Kind::Goodbye, 16), "it learns nothing else");
            assert_eq!(text, b"wrong or missing secret");
        }
    }
    friend.echoes();
}

#[test]
fn newcomers_are_taken_while_others_keep_all_memory_that_is_not_reserved() {
    const COUNT: usize = 256;
    let node = Node::with_memory(4 << 20, |config| {
        config.connections_max = COUNT;
        config.memory.reserve_for_sessions(COUNT as u64 * CONNECTION_BYTES);
    });
    let mut peers = vec![Peer::greeted(&node)];
    let free = node.memory.free_bytes() as usize;
    let _kept = node.memory.allocate(free, Purpose::Receive).unwrap();
    assert_eq!(node.memory.free_bytes(), 0);
    peers.resize_with(COUNT, || Peer::greeted(&node));
    assert_eq!(Peer::silent(&node).goodbye(), 11);
}

#[test]
fn what_there_is_no_memory_for_ends_the_connection_that_sends_it() {
    let node = Node::with_memory(1 << 20, |_| {});
    let mut peer = Peer::greeted(&node);
    peer.write_in_vain(&half_a_request());
    assert_eq!(peer.goodbye(), 14);
    node.assert_serves();
}
