//! Clocks that jump, as when a machine is stopped for hours and goes on: what has run out of time ends, at
//! once and in order, and nobody is blamed for what they could not do meanwhile.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::stranger::Stranger;
use super::*;
use crate::connection::BodyReader;
use crate::error::{Applied, BodyError, CallError, CloseReason, ConnectError};
use crate::handler::{Batch, IncomingKind, NoHandler};
use crate::limits::{CHUNK_BYTES, HANDSHAKE_TIMEOUT, MESSAGE_MAX};
use crate::sync::Mutex;

const HOURS: Duration = Duration::from_secs(5 * 3600);

/// Answers with the request's body, but for empty ones, which it never does.
struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind
                && !incoming.body.is_empty()
            {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// Two nodes and the connection from the first to the second.
fn pair(seed: u64) -> (World, Connection, SocketAddr) {
    let mut world = World::new(seed);
    world.node(1, Arc::new(Echo), 64 << 20, |_| {});
    let address = world.node(2, Arc::new(Echo), 64 << 20, |_| {});
    let connection = world.connect(0, address);
    (world, connection, address)
}

/// What a call came to, when it has ended.
type Ended = Arc<Mutex<Option<Result<usize, CallError>>>>;

impl World {
    fn call(&mut self, connection: &Connection, len: usize, deadline: Time) -> Ended {
        let (connection, ended) = (connection.clone(), Ended::default());
        let end = Arc::clone(&ended);
        self.tasks.push(Box::pin(async move {
            let reply = connection.call(&vec![6; len][..], deadline).await;
            *end.lock() = Some(reply.map(|reply| reply.len()));
        }));
        ended
    }

    /// Goes on until `ended`, or for `time`.
    fn go_on(&mut self, time: Duration, ended: impl Fn() -> bool) {
        let end = self.after(time);
        while !ended() && self.clock.now() < end {
            if !self.step() {
                assert!(self.advance(), "something is under way");
            }
        }
    }

    fn jump(&self, by: Duration) {
        self.hand.advance_to(self.after(by));
    }
}

/// Wherever in the middle of bodies and frames the clock jumps, what is under way arrives.
#[test]
fn a_jump_in_the_middle_of_a_body_ends_no_connection() {
    for steps in 0..60 {
        let (mut world, connection, _) = pair(steps);
        let lens = [MESSAGE_MAX, 3 * MESSAGE_MAX, 100, MESSAGE_MAX - 5];
        let calls = lens.map(|len| world.call(&connection, len, Time::MAX));
        for _ in 0..steps {
            if !world.step() {
                world.advance();
            }
        }
        world.jump(HOURS);
        let all = || calls.iter().all(|call| call.lock().is_some());
        world.go_on(Duration::from_secs(60), all);
        for (call, len) in calls.iter().zip(lens) {
            assert_eq!(*call.lock(), Some(Ok(len)), "after {steps} steps");
        }
    }
}

/// Wherever a connection is on its way, and on whichever side: it has the rest of its time after a jump.
#[test]
fn a_connection_that_is_being_made_has_its_time_in_spite_of_a_jump() {
    const BEFORE: Duration = Duration::from_secs(1);
    /// More than the pace at which time-outs are looked for.
    const PACE: Duration = Duration::from_millis(250);
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Lacks {
        Link,
        Hello,
        StrangersHello,
    }
    for lacks in [Lacks::Link, Lacks::Hello, Lacks::StrangersHello] {
        let mut world = World::new(1);
        world.make_prompt();
        let own = world.node(1, Arc::new(Echo), 64 << 20, |config| {
            config.connect_timeout = HANDSHAKE_TIMEOUT;
        });
        let address = world.node(2, Arc::new(Echo), 64 << 20, |_| {});
        world.settle();
        // It never answers.
        let _stopped = world.endpoints.pop();
        let _stranger = match lacks {
            Lacks::StrangersHello => Some(Stranger::silent(&world, own)),
            Lacks::Link | Lacks::Hello => {
                if lacks == Lacks::Link {
                    world.network.configure(|config| config.delay = HOURS * 3..HOURS * 3);
                }
                let endpoint = world.endpoints[0].clone();
                world.tasks.push(Box::pin(async move {
                    let reason = CloseReason::HandshakeTimeout;
                    let failed = endpoint.connect(address, Time::MAX).await.map(drop);
                    assert_eq!(failed, Err(ConnectError::Closed { address, reason }));
                }));
                None
            }
        };
        let is_under_way = |world: &World| world.endpoints[0].stats().connections == 1;
        world.pass(BEFORE);
        assert!(is_under_way(&world), "{lacks:?}");
        world.jump(HOURS);
        world.pass(HANDSHAKE_TIMEOUT - BEFORE - PACE);
        assert!(is_under_way(&world), "{lacks:?}: it is given up too early");
        world.pass(2 * PACE);
        assert!(!is_under_way(&world) && world.tasks.is_empty(), "{lacks:?}: it is not given up");
    }
}

/// What is over ends at the next step, in spite of what is not; and what begins then has its time.
#[test]
fn deadlines_that_a_jump_passes_come_at_once_and_others_do_not() {
    let (mut world, connection, _) = pair(3);
    let now = world.clock.now();
    let soon = world.call(&connection, 0, now + Duration::from_secs(1));
    let late = world.call(&connection, 0, now + HOURS * 2);
    world.go_on(Duration::from_millis(10), || false);
    world.jump(HOURS);
    world.step();
    world.step();
    let over = Err(CallError::DeadlineExceeded { applied: Applied::Maybe });
    assert_eq!(*soon.lock(), Some(over.clone()));
    assert_eq!(*late.lock(), None);
    let began = world.clock.now();
    let next = world.call(&connection, 0, began + Duration::from_secs(1));
    world.go_on(Duration::from_secs(5), || next.lock().is_some());
    assert_eq!(*next.lock(), Some(over));
    assert!(world.clock.now().since(began) >= Duration::from_secs(1));
    let answered = world.call(&connection, 9, world.after(Duration::from_secs(1)));
    world.go_on(Duration::from_secs(5), || answered.lock().is_some());
    assert_eq!(*answered.lock(), Some(Ok(9)));
}

/// A pause after a failure is over, and the next one is as long as it is drawn.
#[test]
fn an_address_that_failed_is_tried_once_after_a_jump_and_then_at_its_pace() {
    let mut world = World::new(5);
    world.node(1, Arc::new(Echo), 64 << 20, |_| {});
    let endpoint = world.endpoints[0].clone();
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    endpoint.manager().add(nobody);
    let failures = || endpoint.manager().listed()[0].failures;
    world.go_on(Duration::from_secs(60), || failures() == 2);
    world.jump(HOURS);
    // At the same moment, however often it is asked.
    for _ in 0..100 {
        world.step();
    }
    assert_eq!(failures(), 3);
    let began = world.clock.now();
    world.go_on(Duration::from_secs(60), || failures() == 4);
    assert!(world.clock.now().since(began) >= Duration::from_millis(900), "it has an interval");
}

/// A peer that does nothing is found out all the same, in the time that this takes without a jump.
#[test]
fn a_peer_that_stalls_is_ended_though_the_clock_has_jumped() {
    let (mut world, connection, _) = pair(8);
    let call = world.call(&connection, 3 * MESSAGE_MAX, Time::MAX);
    for _ in 0..10 {
        world.step();
    }
    // The other node is stopped for good.
    let _stopped = world.endpoints.pop();
    world.go_on(Duration::from_secs(1), || false);
    world.jump(HOURS);
    let began = world.clock.now();
    world.go_on(Duration::from_secs(100), || call.lock().is_some());
    let waited = world.clock.now().since(began);
    assert!(matches!(*call.lock(), Some(Err(CallError::Disconnected { .. }))));
    assert!((Duration::from_secs(25)..Duration::from_secs(40)).contains(&waited), "{waited:?}");
}

/// No clock that an endpoint can be given goes back. If one did, what is timed would end as much later, and nothing
/// else would happen: what is under way arrives.
#[test]
fn a_clock_that_is_set_back_harms_nobody() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut world, connection, _) = pair(seed);
        let lens = [MESSAGE_MAX, 3 * MESSAGE_MAX, 100, MESSAGE_MAX - 5, 70_000];
        let calls = lens.map(|len| world.call(&connection, len, Time::MAX));
        let late = world.call(&connection, 0, world.after(Duration::from_secs(2)));
        for _ in 0..random.random_range(1..200) {
            if random.random_bool(0.1) {
                let by = Duration::from_micros(random.random_range(0..5_000_000));
                let now = world.clock.now().nanos();
                world.hand.set(Time::from_nanos(now.saturating_sub(by.as_nanos() as u64)));
            }
            if !world.step() {
                world.advance();
            }
        }
        let all = || calls.iter().all(|call| call.lock().is_some());
        world.go_on(Duration::from_secs(20), all);
        for (call, len) in calls.iter().zip(lens) {
            assert_eq!(*call.lock(), Some(Ok(len)), "seed {seed}");
        }
        world.go_on(Duration::from_secs(20), || late.lock().is_some());
        let over = Err(CallError::DeadlineExceeded { applied: Applied::Maybe });
        assert_eq!(*late.lock(), Some(over));
        let last = world.call(&connection, 10, world.after(Duration::from_secs(5)));
        world.go_on(Duration::from_secs(5), || last.lock().is_some());
        assert_eq!(*last.lock(), Some(Ok(10)), "seed {seed}");
    }
}

/// Takes the body that comes with a message.
#[derive(Default)]
struct Taker(Mutex<Option<BodyReader>>);

impl Handler for Taker {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            *self.0.lock() = incoming.take_body();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Reader,
    Writer,
}

/// Who waits for the other side of a streamed body, and is stopped meanwhile for longer than its patience, does not give
/// the body up for that: not if the other has gone on, which nobody has looked for yet; and if it has not, then when it has
/// not for as long as this one went on.
#[test]
fn who_was_stopped_does_not_give_up_the_body_of_another() {
    const PATIENCE: Duration = Duration::from_secs(5);
    const BEFORE: Duration = Duration::from_secs(1);
    const STOPPED: Duration = Duration::from_secs(8);
    /// More than the pace at which connections are looked after.
    const PACE: Duration = Duration::from_millis(150);
    let sides = [Side::Reader, Side::Writer];
    for (waits, goes_on) in sides.into_iter().flat_map(|side| [(side, true), (side, false)]) {
        let mut world = World::new(1);
        world.make_prompt();
        world.node(1, Arc::new(NoHandler), 64 << 20, |_| {});
        let taker = Arc::new(Taker::default());
        let address = world.node(2, Arc::clone(&taker) as _, 64 << 20, |_| {});
        let connection = world.connect(0, address);
        let begun = pin!(connection.send_body(b"head", Time::MAX)).poll(&mut noop());
        let Poll::Ready(Ok(mut writer)) = begun else { panic!("there is window") };
        world.settle();
        let mut reader = taker.0.lock().take().expect("it has come");
        writer.set_patience(PATIENCE);
        reader.set_patience(PATIENCE);
        // How often who waits has gone on, and why it does no more.
        let went: Arc<Mutex<(usize, Option<BodyError>)>> = Arc::default();
        let seen = Arc::clone(&went);
        let mut go_on: Box<dyn FnMut()> = match waits {
            Side::Reader => {
                world.tasks.push(Box::pin(async move {
                    let error = loop {
                        match reader.next().await {
                            Ok(_) => seen.lock().0 += 1,
                            Err(error) => break error,
                        }
                    };
                    seen.lock().1 = Some(error);
                }));
                Box::new(move || {
                    assert!(pin!(writer.write(b"more")).poll(&mut noop()).is_ready());
                    writer.send_now();
                })
            }
            Side::Writer => {
                world.tasks.push(Box::pin(async move {
                    let error = loop {
                        match writer.write(&[1; CHUNK_BYTES]).await {
                            Ok(()) => seen.lock().0 += 1,
                            Err(error) => break error,
                        }
                    };
                    seen.lock().1 = Some(error);
                }));
                Box::new(move || while pin!(reader.next()).poll(&mut noop()).is_ready() {})
            }
        };
        let other = world.endpoints[usize::from(waits == Side::Writer)].clone();
        world.settle();
        let before = went.lock().0;
        world.pass(BEFORE);
        assert_eq!(*went.lock(), (before, None), "{waits:?} waits");
        if goes_on {
            go_on();
            while other.turn() {}
        }
        world.jump(STOPPED);
        // It looks whether it has waited for long enough before its driver looks what has come.
        world.step();
        assert_eq!(*went.lock(), (before, None), "{waits:?}, {goes_on}: it gives up at once");
        world.settle();
        assert_eq!(went.lock().0 > before, goes_on, "{waits:?}");
        if !goes_on {
            world.pass(PATIENCE - BEFORE - PACE);
            assert_eq!(*went.lock(), (before, None), "{waits:?}: it gives up too early");
            world.pass(2 * PACE);
            let silent = BodyError::Silent { patience: PATIENCE };
            assert_eq!(*went.lock(), (before, Some(silent)), "{waits:?}: it does not give up");
        }
    }
}
