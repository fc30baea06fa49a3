//! Posted buffers from end to end, step by step, beside a model that knows what has to come of each.

use std::sync::Arc;
use std::task::{Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::frame::Class;
use crate::limits::{GRANTED_MAX, MESSAGE_MAX};
use crate::memory::Block;
use crate::session::posting::{Outcome, Place, Posting};
use crate::session::sends::Leaving;
use crate::session::wired::{Side, body};

fn side() -> Side {
    Side::new(64 << 20, Messages::Posted)
}

/// Two sides, and all that has been posted.
struct Pair {
    from: Side,
    to: Side,
    sends: Vec<(Arc<Posting>, usize)>,
    receives: Vec<Receive>,
}

struct Receive {
    posting: Arc<Posting>,
    /// Of its buffer; nothing where it is allocated.
    len: Option<usize>,
    cancelled: bool,
}

impl Pair {
    fn new() -> Self {
        Self { from: side(), to: side(), sends: Vec::new(), receives: Vec::new() }
    }

    fn push(&self) {
        let session = &self.from.session;
        session.sends.push(&session.send_credit, &session.departures, Waker::noop());
    }

    fn send(&mut self, len: usize) {
        let posting = Posting::new(None);
        let block = Block::from_vector(body(self.sends.len() as u64, len));
        self.from.session.sends.add(Leaving::new(&posting, block, len));
        self.push();
        self.sends.push((posting, len));
    }

    fn receive(&mut self, len: Option<usize>) {
        let posting = Posting::new(None);
        let place = match len {
            Some(len) => Place::Buffer(Block::from_vector(vec![0; len])),
            None => Place::Allocated,
        };
        let claim = Claim::new(&posting, place);
        let matched = self.to.session.receives.post(claim, &self.to.memory);
        self.to.session.release_all(&matched.taken);
        if matched.is_landing {
            self.retry();
        }
        self.receives.push(Receive { posting, len, cancelled: false });
    }

    fn cancel(&mut self, at: usize) {
        let Receive { posting, cancelled, .. } = &mut self.receives[at];
        *cancelled |= self.to.session.receives.cancel(|claim| claim.is_of(posting));
    }

    fn retry(&mut self) {
        self.to.inbound.retry_landings(&self.to.session, &self.to.memory, &self.to.wire);
    }

    /// Moves up to so many bytes each way.
    fn turn(&mut self, room: usize, count: usize) {
        let Self { from, to, .. } = self;
        from.transmit(room);
        from.deliver(count, to);
        to.transmit(room);
        to.deliver(count, from);
        self.push();
    }

    fn outcome(posting: &Posting) -> Option<Outcome> {
        match posting.poll(Waker::noop()) {
            Poll::Ready((outcome, _)) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Receive(Option<usize>),
    Cancel(prop::sample::Index),
    Turn { room: usize, count: usize },
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..300,
        3 => 300usize..200_000,
        1 => MESSAGE_MAX - 9..MESSAGE_MAX + 9,
        1 => MESSAGE_MAX..MESSAGE_MAX + 400_000,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => len().prop_map(Step::Send),
        3 => len().prop_map(|len| Step::Receive(Some(len))),
        1 => Just(Step::Receive(Some(2 * MESSAGE_MAX))),
        1 => Just(Step::Receive(None)),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        6 => (1usize..400_000, 1usize..300_000)
            .prop_map(|(room, count)| Step::Turn { room, count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// However posting, cancelling, sending and receiving interleave: messages come whole and in the order
    /// in which they were posted, to receives in the order in which those were; a receive fails only
    /// because the message that it would have had is longer; none is lost and no memory stays behind.
    #[test]
    fn receives_have_messages_in_the_order_in_which_both_were_posted(
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Send(len) => pair.send(len),
                Step::Receive(len) => pair.receive(len),
                Step::Cancel(at) if !pair.receives.is_empty() => {
                    pair.cancel(at.index(pair.receives.len()));
                }
                Step::Cancel(_) => {}
                Step::Turn { room, count } => pair.turn(room, count),
            }
            prop_assert!(pair.to.inbound.granted_bytes() <= GRANTED_MAX);
        }
        // Whatever there is no receive for yet gets one.
        for _ in 0..pair.sends.len() {
            pair.receive(None);
        }
        for _ in 0..100_000 {
            if pair.from.session.departures.is_idle()
                && !pair.from.session.sends.is_waiting()
                && !pair.to.inbound.is_landing()
            {
                break;
            }
            pair.turn(usize::MAX, usize::MAX);
            pair.retry();
        }
        pair.turn(usize::MAX, usize::MAX);

        for (number, (posting, len)) in pair.sends.iter().enumerate() {
            let outcome = Pair::outcome(posting).expect("what is sent is done");
            prop_assert_eq!(outcome.result, Ok(*len));
            prop_assert!(*outcome.block == body(number as u64, *len), "send {} is changed", number);
        }
        // The model: each receive is given the next message, and fails if that is too long for it.
        let mut messages = pair.sends.iter().map(|(_, len)| *len).enumerate().peekable();
        for (number, receive) in pair.receives.iter().enumerate() {
            let outcome = Pair::outcome(&receive.posting);
            if receive.cancelled {
                prop_assert_eq!(outcome.expect("it is back").result, Err(Undone::Abandoned));
                continue;
            }
            let Some((message, len)) = messages.peek().copied() else {
                prop_assert!(outcome.is_none(), "receive {} has something, where nothing came", number);
                continue;
            };
            let outcome = outcome.expect("there is a message for it");
            match receive.len {
                Some(buffer) if buffer < len => {
                    prop_assert_eq!(outcome.result, Err(Undone::TooLong { message: len, buffer }));
                    prop_assert_eq!(outcome.block.len(), buffer);
                }
                _ => {
                    prop_assert_eq!(outcome.result, Ok(len), "receive {}", number);
                    let came = &outcome.block[..len];
                    prop_assert!(*came == body(message as u64, len), "message {}", message);
                    messages.next();
                }
            }
        }
        prop_assert!(messages.next().is_none(), "a message is lost");
        prop_assert_eq!(pair.to.memory.account().allocated_bytes, 0);
        prop_assert_eq!(pair.from.memory.account().allocated_bytes, 0);
    }

    /// Wherever the connection ends, all buffers come back: with what has come whole, or without anything.
    #[test]
    fn the_end_of_a_connection_gives_all_buffers_back(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Send(len) => pair.send(len),
                Step::Receive(len) => pair.receive(len),
                Step::Cancel(_) => {}
                Step::Turn { room, count } => pair.turn(room, count),
            }
        }
        pair.from.end();
        pair.to.end();
        // What has come whole is still handed over, and nothing else ever is.
        let waiting = pair.to.session.receives.waiting();
        for _ in 0..waiting {
            pair.receive(None);
        }
        pair.receive(None);
        for (number, (posting, len)) in pair.sends.iter().enumerate() {
            let outcome = Pair::outcome(posting).expect("it is back");
            prop_assert!(matches!(outcome.result, Ok(_) | Err(Undone::Abandoned)));
            prop_assert!(*outcome.block == body(number as u64, *len));
        }
        let posted = pair.receives.len();
        for (number, receive) in pair.receives.iter().enumerate() {
            let outcome = Pair::outcome(&receive.posting).expect("it is back");
            let is_waiting = (posted - 1 - waiting..posted - 1).contains(&number);
            prop_assert!(!is_waiting || outcome.result.is_ok(), "what waited is lost");
            let is_last = number == posted - 1;
            prop_assert!(!is_last || outcome.result.is_err(), "nothing comes after the end");
            if let (Some(len), Err(_)) = (receive.len, &outcome.result) {
                prop_assert_eq!(outcome.block.len(), len);
            }
        }
        prop_assert_eq!(pair.to.memory.account().allocated_bytes, 0);
    }
}

/// What is not asked for holds its window, and no more than that comes.
#[test]
fn what_nobody_receives_is_bounded_by_the_window() {
    let mut pair = Pair::new();
    for _ in 0..100 {
        pair.send(100_000);
    }
    for _ in 0..1000 {
        pair.turn(usize::MAX, usize::MAX);
    }
    let waiting = pair.to.session.receives.waiting();
    let window = u64::from(crate::handshake::Windows::default().of(Class::Request));
    assert_eq!(waiting as u64, window / crate::frame::frame_len(100_000) as u64);
    assert!(pair.from.session.sends.is_waiting());
    // A large one behind them takes nothing but its announcement.
    for _ in 0..100 {
        pair.receive(None);
        pair.turn(usize::MAX, usize::MAX);
    }
    pair.send(MESSAGE_MAX * 4);
    pair.turn(usize::MAX, usize::MAX);
    assert!(pair.to.inbound.is_landing());
    assert_eq!(pair.to.inbound.granted_bytes(), 0);
    assert_eq!(pair.to.memory.account().allocated_bytes, 0);
    assert!(pair.sends[100].0.poll(Waker::noop()).is_pending());
}

#[test]
fn an_endpoint_that_handles_messages_takes_no_receives() {
    let side = Side::new(1 << 20, Messages::Handled);
    let posting = Posting::new(None);
    let place = Place::Buffer(Block::from_vector(vec![7; 10]));
    side.session.receives.post(Claim::new(&posting, place), &side.memory);
    let outcome = Pair::outcome(&posting).unwrap();
    assert_eq!((outcome.result, &*outcome.block), (Err(Undone::Handled), &[7; 10][..]));
}
