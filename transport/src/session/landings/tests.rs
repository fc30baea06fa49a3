//! Two sessions and a wire each way, driven step by step in whatever order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};

use proptest::prelude::*;

use super::*;
use crate::frame::HEADER_BYTES;
use crate::handshake::{Hello, LARGE, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::Transfer;
use crate::memory::MemoryConfig;
use crate::session::departures::Departure;
use crate::session::inbound::Inbound;
use crate::session::outbound::Outbound;

/// A link that takes a part of what it is given, and keeps it.
#[derive(Default)]
struct Wire {
    bytes: RefCell<Vec<u8>>,
    room: Cell<usize>,
}

impl Transfer for Wire {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sent = 0;
        for piece in pieces {
            let count = piece.len().min(self.room.get());
            self.bytes.borrow_mut().extend_from_slice(&piece[..count]);
            self.room.set(self.room.get() - count);
            sent += count;
        }
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn receive(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        unreachable!("the test moves the bytes")
    }

    fn finish_connect(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) {}

    fn shutdown(&self) {}
}

/// One side, with all that has come to it.
struct Side {
    session: Session,
    outbound: Outbound,
    inbound: Inbound,
    wire: Wire,
    memory: Memory,
    came: BTreeMap<u64, Vec<u8>>,
}

impl Side {
    fn new(limit_bytes: u64) -> Self {
        let windows = Windows::default();
        let session = Session::new(&windows);
        session.open(&windows, LARGE);
        let outbound = std::mem::take(&mut *session.outbound.lock());
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let inbound = Inbound::new();
        let (wire, came) = (Wire::default(), BTreeMap::new());
        let mut side = Self { session, outbound, inbound, wire, memory, came };
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let hello = Hello { node, incarnation, features: LARGE, windows, secret: None };
        side.receive(&hello.encode());
        side
    }

    /// Sends a request whose body says which it is.
    fn request(&self, id: u64, len: usize) {
        let mut block = self.memory.allocate(len, Purpose::Send).unwrap();
        block[..len].copy_from_slice(&body(id, len));
        let block = block.freeze();
        let (head, tail) = (block.slice(0..len / 3), block.slice(len / 3..len));
        assert!(self.session.send_credit.try_reserve(Class::Request, ANNOUNCEMENT_COST));
        // As much as is pushed: room is not what this is about.
        self.session.departures.queued_without_bound(len);
        let header = (Kind::Request, Class::Request, id, false);
        self.session.departures.push(Departure::new(header, Some(head), Some(tail)));
    }

    /// Writes up to `room` bytes to the wire.
    fn transmit(&mut self, room: usize) {
        self.wire.room.set(room);
        self.outbound.transmit(&self.session, &self.wire).unwrap();
    }

    /// Takes `bytes`, as a reactor does.
    fn receive(&mut self, mut bytes: &[u8]) {
        let (mut wakers, mut frames, mut landed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hello, mut replied, mut grant_due) = (None, false, false);
        let mut to = Delivery {
            session: &self.session,
            memory: &self.memory,
            wakers: &mut wakers,
            frames: &mut frames,
            landed: &mut landed,
            hello: &mut hello,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        if let Some(unfilled) = self.inbound.unfilled() {
            let count = unfilled.len().min(bytes.len());
            unfilled[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.inbound.handle_filled(count, &mut to).unwrap();
        }
        if !bytes.is_empty() {
            let mut block = self.memory.allocate(bytes.len() + 512, Purpose::Receive).unwrap();
            let front = self.inbound.copy_carry(&mut block);
            block[front..front + bytes.len()].copy_from_slice(bytes);
            let end = front + bytes.len();
            self.inbound.handle_bytes(&block.freeze(), 0..end, &mut to).unwrap();
        }
        assert!(frames.is_empty(), "all of it is large");
        for Landed { frame, block } in landed {
            assert!(self.came.insert(frame.id, block[frame.body.clone()].to_vec()).is_none());
            self.session.receive_credit.release(frame.class, frame.cost());
        }
    }

    /// Moves up to `count` bytes that have been sent to `other`.
    fn deliver(&self, count: usize, other: &mut Self) {
        let mut sent = self.wire.bytes.borrow_mut();
        let count = count.min(sent.len());
        let bytes: Vec<u8> = sent.drain(..count).collect();
        drop(sent);
        other.receive(&bytes);
    }
}

fn body(id: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + at as u64 / 255 + id * 101) as u8).collect()
}

/// What may happen next.
#[derive(Debug, Clone)]
enum Step {
    Request(usize),
    Cancel(usize),
    Transmit { back: bool, room: usize },
    Deliver { back: bool, count: usize },
    Retry,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1usize..400_000).prop_map(|more| Step::Request(MESSAGE_MAX + more)),
        1 => (0usize..40).prop_map(Step::Cancel),
        8 => (any::<bool>(), 1usize..400_000)
            .prop_map(|(back, room)| Step::Transmit { back, room }),
        8 => (any::<bool>(), 1usize..300_000)
            .prop_map(|(back, count)| Step::Deliver { back, count }),
        1 => Just(Step::Retry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// However announcing, granting, sending, giving up and receiving interleave: no chunk comes that
    /// was not granted (or its receiver would end the connection), never more is granted than there may
    /// be, what comes is what was sent, all that was not given up comes, and no memory stays behind.
    #[test]
    fn large_bodies_come_whole_and_grants_are_never_overdrawn(
        steps in proptest::collection::vec(step(), 1..120),
        limit_mib in 16u64..64,
    ) {
        let mut from = Side::new(256 << 20);
        let mut to = Side::new(limit_mib << 20);
        let (mut sent, mut given_up) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Request(len) if sent.len() < 40 => {
                    let id = sent.len() as u64;
                    sent.push(len);
                    from.request(id, len);
                }
                Step::Request(_) => {}
                Step::Cancel(id) => {
                    if let Some(window) = from.session.departures.cancel_request(id as u64) {
                        from.session.send_credit.cancel(Class::Request, window);
                        given_up.push(id as u64);
                    }
                }
                Step::Transmit { back, room } => {
                    let side = if back { &mut to } else { &mut from };
                    side.transmit(room);
                }
                Step::Deliver { back: false, count } => from.deliver(count, &mut to),
                Step::Deliver { back: true, count } => to.deliver(count, &mut from),
                Step::Retry => {
                    to.inbound.retry_landings(&to.session, &to.memory);
                }
            }
            prop_assert!(to.inbound.granted_bytes() <= GRANTED_MAX);
        }
        for _ in 0..100_000 {
            if from.session.departures.is_idle() && !to.inbound.is_landing() {
                break;
            }
            from.transmit(usize::MAX);
            from.deliver(usize::MAX, &mut to);
            to.transmit(usize::MAX);
            to.deliver(usize::MAX, &mut from);
            to.inbound.retry_landings(&to.session, &to.memory);
        }
        for (id, len) in sent.iter().enumerate() {
            let id = id as u64;
            match to.came.get(&id) {
                Some(came) => prop_assert!(*came == body(id, *len), "body {} is changed", id),
                None => prop_assert!(given_up.contains(&id), "body {} is lost", id),
            }
        }
        prop_assert_eq!(to.inbound.granted_bytes(), 0);
        prop_assert_eq!(from.memory.account().allocated_bytes, 0);
        prop_assert_eq!(to.memory.account().allocated_bytes, 0);
    }
}

/// A request has left with its last chunk, and not before.
#[test]
fn what_was_not_wholly_sent_has_not_left() {
    let (mut from, mut to) = (Side::new(64 << 20), Side::new(64 << 20));
    let len = 2 * MESSAGE_MAX;
    from.request(1, len);
    let has_left = |side: &Side| side.session.departures.has_left(1);
    while !has_left(&from) {
        assert!(!to.came.contains_key(&1));
        from.transmit(CHUNK_BYTES);
        from.deliver(usize::MAX, &mut to);
        to.transmit(usize::MAX);
        to.deliver(usize::MAX, &mut from);
    }
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    assert!(to.came[&1] == body(1, len));
    // What is discarded before has not left, whatever comes later.
    from.request(2, len);
    from.transmit(usize::MAX);
    from.session.departures.discard();
    from.request(3, len);
    for ticket in [2, 3] {
        assert!(!from.session.departures.has_left(ticket));
    }
    from.transmit(usize::MAX);
    assert_eq!(from.memory.account().allocated_bytes, 0);
}

/// A small frame that is committed while chunks may go waits for one of them at most.
#[test]
fn a_small_frame_waits_for_one_chunk() {
    let (mut from, mut to) = (Side::new(64 << 20), Side::new(64 << 20));
    from.request(1, 2 * MESSAGE_MAX);
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    to.transmit(usize::MAX);
    to.deliver(usize::MAX, &mut from);
    // All of the grant could go; the link takes a part of the first chunk.
    from.transmit(100);
    from.session.receive_credit.release(Class::Reply, 4 << 20);
    from.transmit(usize::MAX);
    let sent = from.wire.bytes.borrow();
    let mut at = 0;
    let mut before = 0;
    while let Some(header) = sent[at..].first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(header).unwrap();
        if header.kind == Kind::Credit {
            assert_eq!(before, 1, "chunks before it");
            return;
        }
        before += usize::from(header.kind == Kind::Chunk);
        at += header.frame_len();
    }
    panic!("the credit was not sent");
}
