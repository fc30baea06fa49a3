//! What the models of the roles are made of: nodes with real sockets and shared memory, and schedules.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::Connection;
use crate::driver;
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::ConnectError;
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

/// Runs `model` so many times, in half of them while time stands still. See [`check_while`].
pub(super) fn check(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    for passes in [false, true] {
        let model = Arc::clone(&model);
        check_while(passes, times / 2, move || model());
    }
}

/// Runs `model` so many times, each time in another order: now one where whose turn it is is drawn at every step,
/// now one where it changes in a few places only, which finds who is interrupted for long (PCT). Whether time
/// `passes` is for those who park for a time.
pub(super) fn check_while(passes: bool, times: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    thread::let_time_pass(passes);
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
pub(super) struct Listening {
    pub(super) came: Mutex<Vec<Vec<u8>>>,
}

impl Listening {
    /// Waits until so much has come.
    pub(super) fn wait_for(&self, count: usize) {
        while self.came.lock().len() < count {
            thread::yield_now();
        }
    }
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
pub(super) struct Pair {
    pub(super) server: Endpoint,
    pub(super) client: Endpoint,
    pub(super) connection: Connection,
    pub(super) listening: Arc<Listening>,
}

impl Pair {
    pub(super) fn new() -> Self {
        let listening = Arc::new(Listening::default());
        let server = endpoint(1, Arc::clone(&listening) as Arc<dyn Handler>);
        let client = endpoint(2, Arc::new(NoHandler));
        let connection = loop {
            let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
            match client.block_on(client.connect(address, Time::MAX)) {
                Ok(connection) => break connection,
                // Another process has given back the port, and not yet the name that goes with it.
                Err(ConnectError::NotShared { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        Self { server, client, connection, listening }
    }

    pub(super) fn end(self) {
        self.client.shutdown();
        while self.server.stats().connections > 0 {
            thread::yield_now();
        }
        self.server.shutdown();
    }
}

pub(super) fn endpoint(id: u64, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 8 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(id), Incarnation(1), memory);
    config.poll = PollPolicy::Park;
    config.links = LinkPolicy::Shm;
    config.clock = Clock::manual().0;
    Endpoint::start(config, handler).unwrap()
}

/// A word that one thread tells another, who waits for it in a future.
#[derive(Clone, Default)]
pub(super) struct Word(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

impl Word {
    pub(super) fn tell(&self, value: u32) {
        let waker = {
            let mut word = self.0.lock();
            word.0 = Some(value);
            word.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(super) async fn wait(&self, drives: bool) -> u32 {
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
pub(super) fn send(connection: &Connection, body: &[u8]) {
    let sent = pin!(connection.send(body)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(sent.is_ready(), "there is window for it");
}

/// Waits for `future` as somebody else's executor does, which drives nothing.
pub(super) fn elsewhere<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
