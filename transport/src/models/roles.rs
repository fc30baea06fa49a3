//! Who sends, who drives, and who is woken: nothing is left lying, and nobody sleeps for ever.
//!
//! Time stands still, so that no timer mends what a bell has missed: a thread that waits in vain does so
//! until the model has taken too many steps. That holds for those who sleep in a poller. A thread that is parked
//! may go on by itself here, as shuttle's threads do: these models do not see that nobody has unparked it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::Connection;
use crate::driver;
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::{Applied, CallError, CloseReason};
use crate::handler::{Batch, Handler, IncomingKind, NoHandler};
use crate::identity::{Incarnation, NodeId};
use crate::idle::PollPolicy;
use crate::link::LinkPolicy;
use crate::memory::{Memory, MemoryConfig};
use crate::sync::{Mutex, thread};
use crate::time::{Clock, Time};

/// More than any run takes that ends.
const STEPS_MAX: usize = 400_000;

const SEED: u64 = 7;

/// How often a run of the second kind changes whose turn it is, but for threads that wait.
const CHANGES: usize = 4;

/// Runs `model` so many times, each time in another order: now one where whose turn it is is drawn at every step,
/// now one where it changes in a few places only, which finds who is interrupted for long (PCT).
fn check(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        let model = Arc::clone(&model);
        Runner::new(scheduler, config).run(move || model());
    };
    run(Box::new(RandomScheduler::new_from_seed(SEED, times / 2)));
    run(Box::new(PctScheduler::new_from_seed(SEED, CHANGES, times / 2)));
}

/// Answers requests with their bodies, and keeps all that comes.
#[derive(Default)]
struct Listening {
    came: Mutex<Vec<Vec<u8>>>,
}

impl Handler for Listening {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.came.lock().push(incoming.body.to_vec());
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// A node that listens, one that is connected to it, and their connection.
struct Pair {
    server: Endpoint,
    client: Endpoint,
    connection: Connection,
    listening: Arc<Listening>,
}

impl Pair {
    fn new() -> Self {
        let listening = Arc::new(Listening::default());
        let server = endpoint(1, Arc::clone(&listening) as Arc<dyn Handler>);
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let client = endpoint(2, Arc::new(NoHandler));
        let connection = client.block_on(client.connect(address, Time::MAX)).unwrap();
        Self { server, client, connection, listening }
    }

    /// Waits until so much has come.
    fn wait_for(&self, count: usize) {
        while self.listening.came.lock().len() < count {
            thread::yield_now();
        }
    }

    fn end(self) {
        self.client.shutdown();
        while self.server.stats().connections > 0 {
            thread::yield_now();
        }
        self.server.shutdown();
    }
}

fn endpoint(id: u64, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 8 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(id), Incarnation(1), memory);
    config.poll = PollPolicy::Park;
    config.links = LinkPolicy::Shm;
    config.clock = Clock::manual().0;
    Endpoint::start(config, handler).unwrap()
}

/// A word that one thread tells another, who waits for it in a future.
#[derive(Clone, Default)]
struct Word(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

impl Word {
    fn tell(&self, value: u32) {
        let waker = {
            let mut word = self.0.lock();
            word.0 = Some(value);
            word.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self, drives: bool) -> u32 {
        std::future::poll_fn(|context| {
            if drives {
                driver::rely();
            }
            let mut word = self.0.lock();
            word.1 = Some(context.waker().clone());
            word.0.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// A send by a thread that does not drive.
fn send(connection: &Connection, body: &[u8]) {
    let sent = pin!(connection.send(body)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(sent.is_ready(), "there is window for it");
}

/// The role of the driver goes from one caller to the other and to the endpoint's own thread; whoever is
/// left with it brings the others their replies, and nobody is left without.
#[test]
fn every_caller_gets_its_reply_whoever_drives() {
    check(3000, || {
        let pair = Pair::new();
        let callers: Vec<_> = (0..2u8)
            .map(|caller| {
                let (client, connection) = (pair.client.clone(), pair.connection.clone());
                thread::spawn(move || {
                    for number in 0..2u8 {
                        let body = [caller, number];
                        let call = connection.call(&body[..], Time::MAX);
                        assert_eq!(&client.block_on(call).unwrap()[..], &body[..]);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        pair.end();
    });
}

/// Who stands aside takes the role from nobody: one who calls gets its reply, and the one aside its word from that.
#[test]
fn a_caller_gets_its_reply_beside_one_who_stands_aside() {
    check(3000, || {
        let pair = Pair::new();
        let word = Word::default();
        let calling = {
            let (client, connection) = (pair.client.clone(), pair.connection.clone());
            let word = word.clone();
            thread::spawn(move || {
                for number in 0..2u8 {
                    let reply = client.block_on(connection.call(&[number][..], Time::MAX));
                    assert_eq!(reply.unwrap()[..], [number]);
                }
                word.tell(7);
            })
        };
        assert_eq!(pair.client.block_on(word.wait(false)), 7);
        calling.join().unwrap();
        pair.end();
    });
}

/// Whoever finds the role of the sender taken leaves its message to who has it.
#[test]
fn what_is_committed_is_sent_by_somebody() {
    check(3000, || {
        let pair = Pair::new();
        let senders: Vec<_> = (0..2u8)
            .map(|sender| {
                let connection = pair.connection.clone();
                thread::spawn(move || {
                    (0..3u8).for_each(|number| send(&connection, &[sender, number]))
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        pair.wait_for(6);
        let came = pair.listening.came.lock().clone();
        for sender in 0..2u8 {
            let own: Vec<u8> = came.iter().filter(|m| m[0] == sender).map(|m| m[1]).collect();
            assert_eq!(own, [0, 1, 2], "in the order in which they were sent");
        }
        pair.end();
    });
}

/// A driver that sleeps is woken by whoever wakes its future, and not only by what comes over its links.
#[test]
fn a_driver_that_sleeps_hears_who_wakes_it() {
    who_is_told_wakes(true);
}

#[test]
fn who_stands_aside_hears_who_wakes_it() {
    who_is_told_wakes(false);
}

fn who_is_told_wakes(drives: bool) {
    check(2000, move || {
        let pair = Pair::new();
        let word = Word::default();
        let telling = {
            let word = word.clone();
            thread::spawn(move || word.tell(7))
        };
        assert_eq!(pair.client.block_on(word.wait(drives)), 7);
        telling.join().unwrap();
        pair.end();
    });
}

/// A request that was surely not applied never comes to be.
#[test]
fn a_request_that_is_said_not_to_be_applied_never_comes() {
    check(6000, || {
        let pair = Pair::new();
        let callers: Vec<_> = (0..2u8)
            .map(|caller| {
                let (client, connection) = (pair.client.clone(), pair.connection.clone());
                thread::spawn(move || {
                    client.block_on(connection.call(&[caller][..], Time::MAX)).map(drop)
                })
            })
            .collect();
        let closing = {
            let core = Arc::clone(&pair.connection.core);
            thread::spawn(move || core.close(CloseReason::Closed))
        };
        closing.join().unwrap();
        let ends: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        let listening = Arc::clone(&pair.listening);
        pair.end();
        for (caller, end) in ends.into_iter().enumerate() {
            let came = listening.came.lock().contains(&vec![caller as u8]);
            if let Err(CallError::Disconnected { applied: Applied::No, .. }) = end {
                assert!(!came, "request {caller} came, and its caller may send it again");
            }
        }
    });
}

/// A deadline that is noted while the driver goes to sleep: either it has seen it, or it is rung for it.
#[test]
fn who_sleeps_wakes_for_the_earliest_deadline() {
    check(3000, || {
        let node = endpoint(1, Arc::new(NoHandler));
        let at = Time::from_nanos(5);
        let mut sleep = pin!(node.sleep_until(at));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "time stands still");
        let reactors = node.common().reactors.get().unwrap();
        let reactor = reactors[0].upgrade().unwrap();
        while reactor.sleeps_until() != at.nanos() {
            thread::yield_now();
        }
        drop(reactor);
        node.shutdown();
    });
}
