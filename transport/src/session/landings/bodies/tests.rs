//! Streamed bodies, however writing, granting, reading and giving up interleave.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::task::{Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::frame::{Class, HEADER_BYTES, frame_len};
use crate::limits::{BODY_AHEAD_MAX, GRANTED_MAX, MESSAGE_MAX};
use crate::session::departures::Departure;
use crate::session::inflow::BodyPiece;
use crate::session::outflow::{Outflow, Over};
use crate::session::receives::Messages;
use crate::session::wired::{Side, body};

fn side(limit_bytes: u64) -> Side {
    Side::new(limit_bytes, Messages::Handled)
}

/// Begins a body behind a request with this id.
fn open(from: &Side, id: u64) -> Arc<Outflow> {
    let flow = Arc::new(Outflow::default());
    assert!(from.session.send_credit.try_reserve(Class::Request, frame_len(0)));
    let header = (Kind::Request, Class::Request, id);
    from.session.departures.push(Departure::opening(header, None, &flow));
    flow
}

fn write(from: &Side, flow: &Outflow, bytes: &[u8]) {
    let mut block = from.memory.allocate(bytes.len(), Purpose::Send).unwrap();
    block[..bytes.len()].copy_from_slice(bytes);
    if flow.write(block.freeze().narrow(0..bytes.len())) {
        from.session.departures.note_written();
    }
}

/// A body on both sides.
struct Streamed {
    out: Arc<Outflow>,
    written: usize,
    finished: bool,
    aborted: bool,
    stopped: bool,
    read: usize,
    /// What reading has ended with.
    end: Option<End>,
}

/// All bodies, and what is lent of them.
#[derive(Default)]
struct All {
    streamed: Vec<Streamed>,
    lent: Vec<BodyPiece>,
}

/// More than any body is written.
const LONGEST: usize = 1 << 20;

/// What is written to body `which`.
fn content(which: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| body(1, LONGEST + 24 * 977));
    &BYTES[which * 977..][..LONGEST]
}

#[derive(Debug, Clone)]
enum Step {
    Open,
    Write { which: usize, len: usize, flush: bool },
    Finish(usize),
    Abort(usize),
    Read { which: usize, keep: bool },
    GiveBack(usize),
    Stop(usize),
    Large(usize),
    Transmit { back: bool, room: usize },
    Deliver { back: bool, count: usize },
    Retry,
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0usize..24;
    prop_oneof![
        4 => Just(Step::Open),
        12 => (which(), 1usize..150_000, any::<bool>())
            .prop_map(|(which, len, flush)| Step::Write { which, len, flush }),
        1 => which().prop_map(Step::Finish),
        1 => which().prop_map(Step::Abort),
        8 => (which(), any::<bool>()).prop_map(|(which, keep)| Step::Read { which, keep }),
        4 => (0usize..8).prop_map(Step::GiveBack),
        1 => which().prop_map(Step::Stop),
        1 => (1usize..200_000).prop_map(Step::Large),
        12 => (any::<bool>(), 1usize..300_000)
            .prop_map(|(back, room)| Step::Transmit { back, room }),
        12 => (any::<bool>(), 1usize..300_000)
            .prop_map(|(back, count)| Step::Deliver { back, count }),
        2 => Just(Step::Retry),
    ]
}

impl All {
    fn read(&mut self, flows: &BTreeMap<u64, Arc<Inflow>>, which: usize, keep: bool) {
        let (Some(streamed), Some(flow)) =
            (self.streamed.get_mut(which), flows.get(&(which as u64)))
        else {
            return;
        };
        if streamed.stopped || streamed.end.is_some() {
            return;
        }
        match flow.poll_next(Waker::noop()) {
            Poll::Ready(Ok(piece)) => {
                let expected = &content(which)[streamed.read..streamed.read + piece.len()];
                assert!(*piece == *expected, "body {which} is changed at {}", streamed.read);
                streamed.read += piece.len();
                if keep {
                    self.lent.push(piece);
                }
            }
            Poll::Ready(Err(end)) => streamed.end = Some(end),
            Poll::Pending => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However it all interleaves, over links that take and bring any number of bytes: nothing comes that was
    /// not granted (or its receiver would end the connection), no body has more blocks than it may, what is
    /// read is what was written and in order, whoever gave up leaves a prefix and everybody else the whole,
    /// and no memory stays behind.
    #[test]
    fn streamed_bodies_come_in_order_within_their_blocks(
        steps in proptest::collection::vec(step(), 1..250), limit_mib in 12u64..48,
    ) {
        let (mut from, mut to) = (side(256 << 20), side(limit_mib << 20));
        let mut all = All::default();
        let mut large = 1000;
        for step in steps {
            match step {
                Step::Open if all.streamed.len() < 24 => {
                    let out = open(&from, all.streamed.len() as u64);
                    let (written, read, end) = (0, 0, None);
                    let (finished, aborted, stopped) = (false, false, false);
                    all.streamed.push(Streamed { out, written, finished, aborted, stopped, read, end });
                }
                Step::Write { which, len, flush } => {
                    let Some(streamed) = all.streamed.get_mut(which) else { continue };
                    let room = streamed.out.poll_room(Waker::noop());
                    if streamed.finished || streamed.aborted || room != Poll::Ready(Ok(())) {
                        continue;
                    }
                    let end = (streamed.written + len).min(LONGEST);
                    write(&from, &streamed.out, &content(which)[streamed.written..end]);
                    streamed.written = end;
                    if flush && streamed.out.flush() {
                        from.session.departures.note_written();
                    }
                }
                Step::Finish(which) => {
                    let Some(streamed) = all.streamed.get_mut(which) else { continue };
                    if !streamed.aborted && !streamed.finished {
                        streamed.finished = true;
                        streamed.out.finish();
                        from.session.departures.note_written();
                    }
                }
                Step::Abort(which) => {
                    let Some(streamed) = all.streamed.get_mut(which) else { continue };
                    if !streamed.finished && streamed.out.abort(StopReason::Memory) {
                        streamed.aborted = true;
                        from.session.departures.note_written();
                    }
                }
                Step::Read { which, keep } => all.read(&to.flows, which, keep),
                Step::GiveBack(at) if at < all.lent.len() => drop(all.lent.remove(at)),
                Step::Stop(which) => {
                    let (Some(streamed), Some(flow)) =
                        (all.streamed.get_mut(which), to.flows.get(&(which as u64)))
                    else {
                        continue;
                    };
                    streamed.stopped = true;
                    flow.stop(StopReason::Silent);
                }
                Step::Large(more) if large < 1004 => {
                    from.request(large, MESSAGE_MAX + more);
                    large += 1;
                }
                Step::Transmit { back, room } => {
                    let side = if back { &mut to } else { &mut from };
                    side.transmit(room);
                }
                Step::Deliver { back: false, count } => from.deliver(count, &mut to),
                Step::Deliver { back: true, count } => to.deliver(count, &mut from),
                Step::Retry => {
                    to.inbound.retry_landings(&to.session, &to.memory, &to.wire);
                }
                Step::Open | Step::GiveBack(_) | Step::Large(_) => {}
            }
            for flow in to.flows.values() {
                prop_assert!(flow.blocks() <= BODY_BLOCKS);
            }
        }
        all.lent.clear();
        for streamed in &mut all.streamed {
            if !streamed.aborted && !streamed.finished {
                streamed.finished = true;
                streamed.out.finish();
            }
        }
        from.session.departures.note_written();
        for _ in 0..10_000 {
            from.transmit(usize::MAX);
            from.deliver(usize::MAX, &mut to);
            for which in 0..all.streamed.len() {
                all.read(&to.flows, which, false);
            }
            to.inbound.retry_landings(&to.session, &to.memory, &to.wire);
            to.transmit(usize::MAX);
            to.deliver(usize::MAX, &mut from);
            // Behind a whole turn: before, the end of a body may be on its way still.
            if from.session.departures.is_idle() && !to.inbound.is_landing() {
                break;
            }
        }
        prop_assert!(from.session.departures.is_idle() && !to.inbound.is_landing());
        for which in 0..all.streamed.len() {
            for _ in 0..=BODY_BLOCKS {
                all.read(&to.flows, which, false);
            }
            let streamed = &all.streamed[which];
            let over = streamed.out.poll_over(Waker::noop());
            match (&streamed.end, streamed.stopped) {
                (Some(End::Whole), _) => {
                    prop_assert!(streamed.finished && streamed.read == streamed.written);
                    prop_assert_eq!(over, Poll::Ready(Over::Whole));
                }
                (Some(end), _) => {
                    prop_assert!(streamed.aborted);
                    prop_assert_eq!(end, &End::Aborted(StopReason::Memory));
                    prop_assert_eq!(over, Poll::Ready(Over::Aborted));
                }
                // What had been sent to its end, or was given up, before that was heard of.
                (None, stopped) => prop_assert!(stopped && over.is_ready()),
            }
        }
        prop_assert_eq!(to.came.len() as u64, large - 1000);
        all.streamed.clear();
        to.flows.clear();
        prop_assert_eq!(from.memory.account().allocated_bytes, 0);
        prop_assert_eq!(to.memory.account().allocated_bytes, 0);
    }
}

/// The numbers of the chunks in what was sent, up to the first frame of this kind.
fn chunks_before(sent: &[u8], stop: Kind) -> Option<Vec<u64>> {
    let (mut at, mut numbers) = (0, Vec::new());
    while let Some(header) = sent[at..].first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(header).unwrap();
        if header.kind == stop {
            return Some(numbers);
        }
        if header.kind == Kind::Chunk {
            numbers.push(header.id);
        }
        at += header.frame_len();
    }
    None
}

/// Two bodies and a large request that are granted all they may be.
fn two_bodies_and_a_request() -> (Side, Vec<Arc<Outflow>>) {
    let (mut from, mut to) = (side(64 << 20), side(64 << 20));
    let flows = vec![open(&from, 1), open(&from, 2)];
    from.request(3, 2 * MESSAGE_MAX);
    for flow in &flows {
        write(&from, flow, &body(1, BODY_AHEAD_MAX));
    }
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    to.transmit(usize::MAX);
    to.deliver(usize::MAX, &mut from);
    (from, flows)
}

#[test]
fn bodies_and_transfers_take_turns() {
    let (mut from, _flows) = two_bodies_and_a_request();
    from.session.receive_credit.release(Class::Reply, 4 << 20);
    from.transmit(usize::MAX);
    // A grant of window that goes behind everything.
    let mut numbers = Vec::new();
    let sent = from.wire.bytes.borrow();
    let mut at = 0;
    while let Some(header) = sent[at..].first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(header).unwrap();
        numbers.extend((header.kind == Kind::Chunk).then_some(header.id));
        at += header.frame_len();
    }
    // Of the request, fewer chunks are granted at a time than of a body.
    let granted = GRANTED_MAX / CHUNK_BYTES;
    let (of_all, of_bodies) = numbers.split_at(3 * granted);
    for (turns, expected) in [(of_all.chunks(3), &[1, 2, 3][..]), (of_bodies.chunks(2), &[1, 2])] {
        for turn in turns {
            let mut turn = turn.to_vec();
            turn.sort_unstable();
            assert_eq!(turn, expected, "{numbers:?}");
        }
    }
    assert_eq!(numbers.len(), 2 * BODY_BLOCKS + granted);
}

#[test]
fn a_small_frame_waits_for_one_chunk_of_a_body() {
    let (mut from, _flows) = two_bodies_and_a_request();
    // All that is granted could go; the link takes a part of the first chunk.
    from.transmit(100);
    from.session.receive_credit.release(Class::Reply, 4 << 20);
    from.transmit(usize::MAX);
    let before = chunks_before(&from.wire.bytes.borrow(), Kind::Credit);
    assert_eq!(before.map(|chunks| chunks.len()), Some(1));
}

/// Without memory there is no grant, and with it there is.
#[test]
fn a_body_is_granted_what_there_is_memory_for() {
    let (mut from, mut to) = (side(64 << 20), side(1 << 20));
    let taken: Vec<_> =
        std::iter::from_fn(|| to.memory.allocate(CHUNK_BYTES, Purpose::Log).ok()).collect();
    let flow = open(&from, 1);
    write(&from, &flow, &body(1, BODY_AHEAD_MAX));
    drop(taken.into_iter().skip(2).collect::<Vec<_>>());
    let hold = to.memory.allocate(13 * CHUNK_BYTES, Purpose::Log).unwrap();
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    assert_eq!(to.flows[&1].blocks(), 0, "it leaves a part of the memory to others");
    drop(hold);
    assert!(to.inbound.retry_landings(&to.session, &to.memory, &to.wire));
    assert_eq!(to.flows[&1].blocks(), BODY_BLOCKS);
}
