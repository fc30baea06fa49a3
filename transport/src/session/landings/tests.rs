//! Transfers of requests, however announcing, granting, sending and giving up interleave.

use proptest::prelude::*;

use super::*;
use crate::frame::HEADER_BYTES;
use crate::limits::{CHUNK_BYTES, FETCHED_MAX, FETCHES_MAX, GRANTED_MAX};
use crate::session::receives::Messages;
use crate::session::wired::{Remote, Side, body};

fn small() -> Side {
    Side::new(64 << 20, Messages::Handled)
}

fn reading(limit_bytes: u64, remote: Option<&Remote>) -> Side {
    Side::with_remote(limit_bytes, Messages::Handled, remote)
}

/// What may happen next.
#[derive(Debug, Clone)]
enum Step {
    Request(usize),
    Cancel(usize),
    Transmit { back: bool, room: usize },
    Deliver { back: bool, count: usize },
    Fetch,
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
        4 => Just(Step::Fetch),
        1 => Just(Step::Retry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// However announcing, granting, sending, giving up and receiving interleave, with bodies offered to be
    /// read or not: no chunk comes that was not granted (or its receiver would end the connection), nothing is
    /// read that is not offered, never more is granted or read than may be, what comes is what was sent, all
    /// that was not given up comes, and no memory stays behind.
    #[test]
    fn large_bodies_come_whole_and_grants_are_never_overdrawn(
        steps in proptest::collection::vec(step(), 1..120),
        limit_mib in 16u64..64,
        reads: bool,
    ) {
        let remote = reads.then(Remote::default);
        let mut from = reading(256 << 20, remote.as_ref());
        let mut to = reading(limit_mib << 20, remote.as_ref());
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
                    if let Some((_, window)) = from.session.departures.cancel_request(id as u64) {
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
                Step::Fetch => to.fetch(),
                Step::Retry => {
                    to.inbound.retry_landings(&to.session, &to.memory, &to.wire);
                }
            }
            let limit = if reads { FETCHED_MAX } else { GRANTED_MAX };
            prop_assert!(to.inbound.granted_bytes() <= limit);
        }
        for _ in 0..100_000 {
            from.transmit(usize::MAX);
            from.deliver(usize::MAX, &mut to);
            to.transmit(usize::MAX);
            to.deliver(usize::MAX, &mut from);
            to.fetch();
            to.inbound.retry_landings(&to.session, &to.memory, &to.wire);
            // Behind a whole turn: before, the end of a body may be on its way still.
            if from.session.departures.is_idle() && !to.inbound.is_landing() {
                break;
            }
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

/// A request that was offered may have been read, whatever its sender knows; its memory stays until the
/// receiver says that it reads nothing more.
#[test]
fn what_was_offered_may_have_come_and_stays_while_it_is_read() {
    let remote = Remote::default();
    let mut from = reading(64 << 20, Some(&remote));
    let mut to = reading(64 << 20, Some(&remote));
    from.request(1, 2 * MESSAGE_MAX);
    assert!(!from.session.departures.has_left(1));
    from.transmit(usize::MAX);
    assert!(from.session.departures.has_left(1) && !from.session.departures.is_idle());
    from.deliver(usize::MAX, &mut to);
    assert_eq!(to.inbound.granted_bytes(), FETCHED_MAX);
    assert_eq!(from.session.departures.cancel_request(1), Some((Class::Request, 0)));
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    for _ in 0..FETCHES_MAX {
        to.transmit(usize::MAX);
        to.deliver(usize::MAX, &mut from);
        assert!(from.memory.account().allocated_bytes > 0, "parts of it are being read");
        to.fetch();
    }
    to.transmit(usize::MAX);
    to.deliver(usize::MAX, &mut from);
    assert!(from.session.departures.is_idle() && !to.inbound.is_landing());
    assert_eq!(from.memory.account().allocated_bytes, 0);
    assert_eq!(to.memory.account().allocated_bytes, 0);
    assert!(to.came.is_empty());
}

/// What says where a body lies, and what is said about such a body, is checked before anything is read.
#[test]
fn offers_that_cannot_be_end_the_connection() {
    let frame = |kind: Kind, id: u64, body: &[u8]| {
        let class = if kind == Kind::Announce { Class::Request } else { Class::Reply };
        let header = Header { len: body.len() as u32, kind, class, more: false, id };
        [&header.encode()[..], body].concat()
    };
    let source = |number, len| {
        let source = Source { address: 1 << 20, key: 3, len };
        frame(Kind::Source, number, &source.encode())
    };
    let total = MESSAGE_MAX as u32 + 8;
    let announce = {
        let announcement = Announcement { total: total.into(), kind: Kind::Request };
        frame(Kind::Announce, 9, &announcement.encode())
    };
    let end = |number, position: u64| frame(Kind::Taken, number, &position.to_le_bytes());
    let cases: [&[Vec<u8>]; 10] = [
        &[source(2, total)],
        &[source(1, 0)],
        &[source(1, 8), source(1, 8), source(1, 8)],
        &[source(1, total - 8), announce.clone()],
        &[source(1, total), source(1, 8), announce.clone()],
        &[announce.clone(), frame(Kind::Withdraw, 1, &[])],
        &[frame(Kind::Withdraw, 1, &[])],
        &[source(1, total), announce.clone(), frame(Kind::Cancel, 1, &[])],
        &[source(1, total), announce.clone(), frame(Kind::Chunk, 1, &vec![0; CHUNK_BYTES])],
        &[end(1, 0)],
    ];
    for (number, case) in cases.iter().enumerate() {
        let mut to = reading(64 << 20, Some(&Remote::default()));
        let result = case.iter().try_for_each(|frame| to.take_in(frame, false));
        assert!(matches!(result, Err(CloseReason::Violation(_))), "{number}: {result:?}");
    }
    let (mut from, mut to) = (small(), small());
    from.request(1, 2 * MESSAGE_MAX);
    from.transmit(usize::MAX);
    from.deliver(usize::MAX, &mut to);
    let taken = from.take_in(&end(1, 2 * MESSAGE_MAX as u64), false);
    assert!(matches!(taken, Err(CloseReason::Violation(_))), "it was not offered: {taken:?}");
}

/// A request has left with its last chunk, and not before.
#[test]
fn what_was_not_wholly_sent_has_not_left() {
    let (mut from, mut to) = (small(), small());
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
    drop(from.session.departures.discard());
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
    let (mut from, mut to) = (small(), small());
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
