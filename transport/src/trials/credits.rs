//! The ledger of windows: whatever two nodes send, call, stream, keep, give up and lack, no byte of a window is
//! ever overdrawn, and none is lost.
//!
//! A sender's end counts what it has reserved and what it has been granted; the receiver's what it
//! has let go of and what it has announced. All are positions, so at any time
//! `released <= reserved <= granted <= announced <= released + window`: what is reserved and not released is
//! in flight or held. When nothing is any more, the two are equal, to the byte.
//!
//! Of a streamed body, `received <= taken <= granted` by its sender `<= told <= granted` by its receiver, and for
//! what is granted and has not come there is memory, in no more blocks than it may have. In the end nothing of
//! any is left on either side, what both have seen of it agrees ([`bodies`](super::bodies)), and all memory is
//! back.
//!
//! What breaks this is noticed: `cargo xtask mutants` tries a list of such changes.

use std::time::Duration;

use futures_util::future::join;
use proptest::prelude::*;

use super::bodies::{Bodies, Plan, plan};
use super::*;
use crate::frame::Class;
use crate::handler::{Batch, IncomingKind, Responder, Retained};
use crate::handshake::Windows;
use crate::limits::{BODY_BLOCKS, MESSAGE_MAX, WINDOW_MIN};
use crate::reply::Reply;
use crate::session::ledger::Waiting;
use crate::sync::Mutex;

/// Bytes of a body that say what is to be done with it: whether it is kept, or how it is answered.
const HEAD: usize = 5;

/// What the head of a streamed body says: that it is answered with a body too, or is not.
const STREAMED: u8 = 100;
const MIRRORED: u8 = 101;

#[derive(Debug, Clone)]
enum Step {
    /// A message from one of the two nodes to the other.
    Send { from: End, len: usize, kept: bool },
    /// A call, given up by its deadline if that is near. Of no parts, it is answered when the handler has returned.
    Call { from: End, len: usize, reply: usize, parts: u8, patience_us: u64 },
    /// A body behind a message, or a request that is answered with one too.
    Stream { from: End, plan: Plan, answer: Option<Plan>, patience_us: u64 },
    /// Something under way is dropped by who waits for it.
    GiveUp { which: usize },
    /// Messages that were kept, or replies, are let go of, and calls are answered or never will be.
    LetGo { at: usize, count: usize },
    /// A node has no memory from here on, or has again.
    Shortage { at: usize, begins: bool },
    /// Things go on for some steps.
    GoOn { steps: usize },
    /// The network loses the connection.
    Lose,
}

/// A node that sends, and whether that is in the class of replication.
type End = (usize, bool);

fn step() -> impl Strategy<Value = Step> {
    let from = || (0..2usize, any::<bool>());
    let small = 1usize..4000;
    let len = prop_oneof![
        6 => small,
        2 => 30_000usize..200_000,
        1 => MESSAGE_MAX - 2000..=MESSAGE_MAX - HEAD,
        1 => MESSAGE_MAX..3 * MESSAGE_MAX,
    ];
    let len = len.boxed();
    let send = (from(), len.clone(), any::<bool>()).prop_map(|(from, len, kept)| Step::Send {
        from,
        len,
        kept,
    });
    let patience = prop_oneof![1 => 0u64..3000, 3 => Just(60_000_000)];
    let call = (from(), len.clone(), len, 0u8..4, patience).prop_map(
        |(from, len, reply, parts, patience_us)| Step::Call {
            from,
            len,
            reply,
            parts,
            patience_us,
        },
    );
    let patience = prop_oneof![1 => 0u64..3000, 6 => Just(60_000_000)];
    let stream = (from(), plan(), prop::option::of(plan()), patience).prop_map(
        |(from, plan, answer, patience_us)| Step::Stream { from, plan, answer, patience_us },
    );
    prop_oneof![
        8 => send,
        8 => call,
        6 => stream,
        3 => any::<usize>().prop_map(|which| Step::GiveUp { which }),
        4 => (0..2usize, 1usize..8).prop_map(|(at, count)| Step::LetGo { at, count }),
        1 => (0..2usize, any::<bool>()).prop_map(|(at, begins)| Step::Shortage { at, begins }),
        12 => (1usize..12).prop_map(|steps| Step::GoOn { steps }),
        1 => Just(Step::Lose),
    ]
}

/// Keeps messages that say so, answers calls as they ask, and takes bodies.
struct Answering {
    at: usize,
    kept: Mutex<Vec<Retained>>,
    /// Those who are to answer calls, and with how much.
    asked: Mutex<Vec<(Responder, usize)>>,
    bodies: Arc<Bodies>,
}

impl Handler for Answering {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            let what = incoming.body[0];
            let len = u32::from_le_bytes(incoming.body[1..HEAD].try_into().unwrap()) as usize;
            if what >= STREAMED {
                let number = len as u32;
                let streamed = self.bodies.get(number);
                if streamed.is_read() {
                    let body = incoming.take_body().expect("there is one behind it");
                    self.bodies.read(self.at, streamed, body);
                }
                let IncomingKind::Call(call) = incoming.kind else { continue };
                match batch.reply_body(call, incoming.body) {
                    Ok(writer) => self.bodies.write(self.at, self.bodies.get(number + 1), writer),
                    Err(_) => batch.reply(call, &[0][..]),
                }
                continue;
            }
            match incoming.kind {
                IncomingKind::Message if what == 1 => {
                    // Without memory it is let go of.
                    self.kept.lock().extend(incoming.retain());
                }
                IncomingKind::Message => {}
                IncomingKind::Call(_) if what == 0 => {
                    let responder = incoming.responder().expect("nobody has asked for it before");
                    assert!(incoming.responder().is_none());
                    self.asked.lock().push((responder, len));
                    // Some of them with what they were asked.
                    if len % 2 == 1 {
                        self.kept.lock().extend(incoming.retain());
                    }
                }
                IncomingKind::Call(call) => {
                    let small = len.min(1000);
                    (1..what).for_each(|_| batch.reply_part(call, &vec![3; small][..]));
                    let room = batch.reply_room();
                    let len = if len > MESSAGE_MAX { len } else { len.min(room) };
                    batch.reply(call, &vec![4; len][..]);
                }
            }
        }
    }
}

fn body(what: u8, answer: usize, len: usize) -> Vec<u8> {
    let mut body = vec![7; len + HEAD];
    body[0] = what;
    body[1..HEAD].copy_from_slice(&(answer as u32).to_le_bytes());
    body
}

/// Two nodes, their connection, and what they hold.
struct Trial {
    world: World,
    address: SocketAddr,
    nodes: [Arc<Answering>; 2],
    bodies: Arc<Bodies>,
    /// A connection was lost, or memory was short: some bodies have not come to their end.
    disturbed: bool,
    replies: [Arc<Mutex<Vec<Reply>>>; 2],
    /// From the first to the second, and the other way round.
    ends: Option<[Connection; 2]>,
    taken: [Vec<Block>; 2],
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let bodies = Arc::<Bodies>::default();
        let nodes = [0, 1].map(|at| {
            let (kept, asked) = Default::default();
            Arc::new(Answering { at, kept, asked, bodies: Arc::clone(&bodies) })
        });
        let tight = |config: &mut EndpointConfig| {
            config.windows =
                Windows { reply: WINDOW_MIN, replication: WINDOW_MIN, request: WINDOW_MIN };
        };
        world.node(1, Arc::clone(&nodes[0]) as _, 24 << 20, tight);
        let address = world.node(2, Arc::clone(&nodes[1]) as _, 24 << 20, tight);
        let (replies, taken) = Default::default();
        let disturbed = false;
        let ends = None;
        let mut trial = Self { world, address, nodes, bodies, disturbed, replies, ends, taken };
        trial.connect();
        trial
    }

    /// Connects, if they are not.
    fn connect(&mut self) {
        if self.ends.as_ref().is_some_and(|ends| ends.iter().all(Connection::is_open)) {
            return;
        }
        self.ends = None;
        self.taken = Default::default();
        self.ends = Some(loop {
            let connection = self.world.connect(0, self.address);
            // It may be one that the other side has ended, which is not known here yet.
            let other = loop {
                match self.world.other_end(&connection.core, 1) {
                    Some(other) if connection.is_open() => break Some(other),
                    None if connection.is_open() => {}
                    _ => break None,
                }
                if !self.world.step() {
                    assert!(self.world.advance(), "either side gets to know");
                }
            };
            if let Some(other) = other {
                break [connection, Connection::new(other)];
            }
        });
        self.audit();
    }

    fn do_step(&mut self, step: Step) {
        match step {
            Step::Send { from, len, kept } => {
                let connection = self.end(from);
                let body = body(u8::from(kept), 0, len);
                self.world.tasks.push(Box::pin(async move {
                    // It may find no memory, or lose its connection.
                    let _ = connection.send(&body[..]).await;
                }));
            }
            Step::Call { from, len, reply, parts, patience_us } => {
                let (connection, replies) = (self.end(from), Arc::clone(&self.replies[from.0]));
                let body = body(parts, reply, len);
                let deadline = self.world.after(Duration::from_micros(patience_us));
                self.world.tasks.push(Box::pin(async move {
                    let Ok(mut came) = connection.call_streamed(&body[..], deadline).await else {
                        return;
                    };
                    while let Some(Ok(reply)) = came.next().await {
                        replies.lock().push(reply);
                    }
                }));
            }
            Step::Stream { from, plan, answer: None, patience_us } => {
                let connection = self.end(from);
                let streamed = self.bodies.add(plan);
                let deadline = self.world.after(Duration::from_micros(patience_us));
                let endpoint = self.world.endpoints[from.0].clone();
                self.world.tasks.push(Box::pin(async move {
                    let head = body(STREAMED, streamed.number() as usize, 0);
                    if let Ok(writer) = connection.send_body(&head[..], deadline).await {
                        streamed.write(endpoint, writer).await;
                    }
                }));
            }
            Step::Stream { from, plan, answer: Some(answer), patience_us } => {
                let connection = self.end(from);
                let (streamed, answer) = (self.bodies.add(plan), self.bodies.add(answer));
                let deadline = self.world.after(Duration::from_micros(patience_us));
                let endpoint = self.world.endpoints[from.0].clone();
                self.world.tasks.push(Box::pin(async move {
                    let head = body(MIRRORED, streamed.number() as usize, 0);
                    let called = connection.call_body(&head[..], deadline).await;
                    let Ok((writer, mut replies)) = called else { return };
                    let reads = async {
                        let Some(Ok(reply)) = replies.next().await else { return };
                        if answer.is_read()
                            && let Some(reader) = reply.take_body()
                        {
                            drop(reply);
                            Arc::clone(&answer).read(endpoint.clone(), reader).await;
                        }
                    };
                    join(streamed.write(endpoint.clone(), writer), reads).await;
                }));
            }
            Step::GiveUp { which } => {
                if !self.world.tasks.is_empty() {
                    let which = which % self.world.tasks.len();
                    drop(self.world.tasks.swap_remove(which));
                }
            }
            Step::LetGo { at, count } => {
                let kept = self.nodes[at].kept.lock().drain(..).take(count).collect::<Vec<_>>();
                let replies = self.replies[at].lock().drain(..).take(count).collect::<Vec<_>>();
                drop((kept, replies));
                let asked = self.nodes[at].asked.lock().drain(..).take(count).collect::<Vec<_>>();
                for (number, (responder, len)) in asked.into_iter().enumerate() {
                    if number % 4 == 3 {
                        continue;
                    }
                    self.world.tasks.push(Box::pin(async move {
                        // It may find no memory, or have lost its connection.
                        let _ = responder.reply(&vec![5; len][..]).await;
                    }));
                }
            }
            Step::Shortage { at, begins: true } => {
                self.disturbed = true;
                let more = self.world.take_memory(at);
                self.taken[at].extend(more);
            }
            Step::Shortage { at, begins: false } => self.taken[at].clear(),
            Step::GoOn { steps } => {
                for _ in 0..steps {
                    if !self.step() {
                        self.world.advance();
                    }
                    self.audit();
                }
            }
            Step::Lose => {
                self.disturbed = true;
                self.world.network.lose_one();
            }
        }
        self.audit();
    }

    fn step(&mut self) -> bool {
        let did = self.world.step();
        self.bodies.adopt(&mut self.world);
        did
    }

    fn end(&mut self, (from, is_replication): End) -> Connection {
        self.connect();
        let end = &self.ends.as_ref().expect("they are connected")[from];
        if is_replication { end.for_replication() } else { end.clone() }
    }

    /// Both directions of the connection that is open, each with its sender's and its receiver's end, and at
    /// which node the latter is.
    fn directions(&self) -> Vec<(&Core, &Arc<Core>, usize)> {
        let ends = self.ends.as_ref().filter(|ends| ends.iter().all(Connection::is_open));
        ends.map_or_else(Vec::new, |[one, other]| {
            vec![(&*one.core, &other.core, 1), (&*other.core, &one.core, 0)]
        })
    }

    /// Nothing is overdrawn.
    fn audit(&self) {
        for (sender, receiver, at) in self.directions() {
            for class in Class::ALL {
                let (reserved, granted) = sender.session.send_credit.ledger(class);
                let (released, announced) = receiver.session.receive_credit.ledger(class);
                assert!(
                    released <= reserved
                        && reserved <= granted
                        && granted <= announced
                        && announced <= released + u64::from(WINDOW_MIN),
                    "{class:?}: {released} released, {reserved} reserved, {granted} granted, \
                     {announced} announced"
                );
            }
            self.audit_bodies(sender, receiver, at);
        }
        if let Some(ends) = &self.ends {
            for reason in ends.iter().filter_map(|end| end.core.closed()) {
                assert_ne!(*reason, crate::CloseReason::WindowExceeded);
            }
        }
    }

    /// What is granted of a body has memory, and nothing else is sent.
    fn audit_bodies(&self, sender: &Core, receiver: &Arc<Core>, at: usize) {
        let (sent, _) = sender.session.departures.ledger();
        let received = self.world.received_bodies(receiver, at);
        for body in &received {
            assert!(body.received <= body.told && body.told <= body.granted, "{body:?}");
            assert!(body.blocks <= BODY_BLOCKS, "{body:?}");
            assert!(body.refused || body.room == body.granted - body.received, "{body:?}");
        }
        for body in &sent {
            assert!(body.taken <= body.granted, "{body:?}");
            match received.iter().find(|received| received.number == body.number) {
                Some(received) => assert!(
                    received.received <= body.taken && body.granted <= received.told,
                    "{body:?}, {received:?}"
                ),
                None => assert_eq!(body.granted, 0, "it has yet to begin there"),
            }
        }
    }

    /// Lets all that is under way end, and lets go of all that is held. Returns all memory.
    fn finish(mut self) -> Vec<Memory> {
        self.taken = Default::default();
        let end = self.world.after(Duration::from_secs(120));
        loop {
            for at in 0..2 {
                self.nodes[at].kept.lock().clear();
                let asked = std::mem::take(&mut *self.nodes[at].asked.lock());
                drop(asked);
                self.replies[at].lock().clear();
            }
            self.audit();
            if self.step() {
                continue;
            }
            if self.world.clock.now() >= end || !self.world.advance() {
                break;
            }
        }
        assert!(self.world.tasks.is_empty(), "{} wait for ever", self.world.tasks.len());
        self.bodies.check(self.disturbed);
        for (sender, receiver, at) in self.directions() {
            let (sent, waiting) = sender.session.departures.ledger();
            assert_eq!((sent.len(), waiting), (0, Waiting::default()), "nothing waits any more");
            assert_eq!(self.world.received_bodies(receiver, at).len(), 0);
            for class in Class::ALL {
                let (reserved, granted) = sender.session.send_credit.ledger(class);
                let (released, _) = receiver.session.receive_credit.ledger(class);
                assert_eq!(reserved, released, "{class:?}: all that was sent is let go of");
                let room = granted - reserved;
                assert!(room > u64::from(WINDOW_MIN) / 4 * 3, "{class:?}: room for {room}");
            }
        }
        for endpoint in &self.world.endpoints {
            assert_eq!(endpoint.stats().retained_bytes, 0);
        }
        let memories = self.world.endpoints.iter().map(|endpoint| endpoint.memory().clone());
        let memories = memories.collect();
        self.world.endpoints.iter().for_each(Endpoint::shutdown);
        memories
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn windows_are_neither_overdrawn_nor_lost(
        seed: u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        // A thread of its own: with it go the lanes that it has kept.
        let trial = std::thread::spawn(move || {
            let mut trial = Trial::new(seed);
            steps.into_iter().for_each(|step| trial.do_step(step));
            trial.finish()
        });
        match trial.join() {
            Ok(memories) => for memory in memories {
                let account = memory.account();
                assert_eq!(account.allocated_bytes, 0, "all of it is back: {account:?}");
            },
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
