//! Two endpoints in simulated time, one of which keeps to no rules, and a bound on everything that is waited for.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use weft_transport::{
    CallError, Clock, Connection, Endpoint, EndpointConfig, Handler, Incarnation, ManualClock,
    Memory, MemoryConfig, NodeId, Purpose, Replies, Reply, SimConfig, SimNetwork, Time,
};

/// Steps after which something goes on for ever.
const STEPS_MAX: usize = 200_000;
const MEMORY_BYTES: u64 = 64 << 20;

pub struct World {
    pub clock: Clock,
    hand: ManualClock,
    network: SimNetwork,
    /// Who listens, and who connects.
    pub server: Endpoint,
    pub client: Endpoint,
    address: SocketAddr,
}

impl World {
    /// Who listens handles what comes by what `server` makes, which may take copies from the same memory.
    pub fn new(
        seed: u8,
        server: impl FnOnce(&Memory) -> Arc<dyn Handler>,
        client: Arc<dyn Handler>,
    ) -> Self {
        let (clock, hand) = Clock::manual();
        let delay = Duration::from_micros(20)..Duration::from_micros(200);
        let config = SimConfig { seed: seed.into(), delay, loss: 0.0, partial: 0.1 };
        let network = SimNetwork::new(config, hand.clone());
        let start = |node, memory, handler| {
            let config = EndpointConfig::new(node, Incarnation(1), memory);
            let config = EndpointConfig { clock: clock.clone(), ..config };
            Endpoint::simulated(config, handler, &network).expect("the configuration is good")
        };
        let at_server = memory();
        let handler = server(&at_server);
        let server = start(NodeId(1), at_server, handler);
        let address = server.listen(([127, 0, 0, 1], 0).into()).expect("nobody listens there");
        let client = start(NodeId::client(1), memory(), client);
        Self { clock, hand, network, server, client, address }
    }

    /// A moment that long from now.
    pub fn after(&self, time: Duration) -> Time {
        self.clock.now() + time
    }

    /// The connection that is open, or a new one.
    pub fn connect(&self) -> Connection {
        let connecting = self.client.connect(self.address, self.after(Duration::from_secs(3600)));
        self.run(connecting).expect("somebody listens there")
    }

    /// Shuts both sides down. What they leave is looked at when all else is dropped that might hold on to it.
    pub fn end(self) -> Left {
        self.server.shutdown();
        self.client.shutdown();
        self.settle();
        Left([&self.server, &self.client].map(|side| side.memory().clone()))
    }

    fn turn(&self) -> bool {
        [&self.server, &self.client].map(Endpoint::turn).contains(&true)
    }

    /// Until nothing is at work, and nothing is under way in the network.
    pub fn settle(&self) {
        for _ in 0..STEPS_MAX {
            if self.turn() {
                continue;
            }
            match self.network.next_event() {
                Some(next) => self.hand.advance_to(next),
                None => return,
            }
        }
        panic!("it goes on for ever");
    }

    /// Until `future` is done. Time passes as far as that takes.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..STEPS_MAX {
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let is_active = self.turn();
            if let Poll::Ready(output) = polled {
                return output;
            }
            if is_active {
                continue;
            }
            let timers = [&self.server, &self.client].into_iter().filter_map(Endpoint::next_timer);
            match self.network.next_event().into_iter().chain(timers).min() {
                Some(next) => self.hand.advance_to(next),
                // Another thread is at it, or nobody.
                None => std::thread::yield_now(),
            }
        }
        panic!("the future does not end");
    }
}

/// Until `is_so`, which threads beside this one bring about.
pub fn patiently(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..STEPS_MAX {
        if is_so() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{otherwise}");
}

/// The memory of two endpoints that are no more.
#[must_use = "it is to be empty"]
pub struct Left([Memory; 2]);

impl Left {
    /// Nothing is counted but lanes of threads, which go when these open the next. A thread may be about to let go of what it has answered.
    pub fn check(&self) {
        for (memory, side) in self.0.iter().zip(["listens", "connects"]) {
            patiently(&format!("memory stays counted at the side that {side}"), || {
                let left = memory.account();
                left.allocated_bytes == left.allocated_for(Purpose::Send)
            });
        }
    }
}

pub fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: MEMORY_BYTES }).expect("64 MiB can be had")
}

/// Calls that are under way: each is answered in the end, or its connection ends.
#[derive(Default)]
pub struct UnderWay(Vec<Replies>);

impl UnderWay {
    /// Calls, if there is room in the window.
    pub fn call(&mut self, connection: &Connection, body: &[u8]) {
        let begun = connection.call_streamed(body, Time::MAX).now_or_never();
        self.0.extend(begun.and_then(Result::ok));
    }

    /// Sends a message, if there is room in the window.
    pub fn send(connection: &Connection, body: &[u8]) {
        drop(connection.send(body).now_or_never());
    }

    /// The replies that have come.
    pub fn answered(&mut self) -> Vec<Result<Reply, CallError>> {
        let mut answered = Vec::new();
        self.0.retain_mut(|replies| match replies.next().now_or_never() {
            Some(reply) => {
                answered.extend(reply);
                false
            }
            None => true,
        });
        answered
    }

    /// Gives the last up.
    pub fn forget_one(&mut self) {
        self.0.pop();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn check(&self) {
        assert!(self.0.is_empty(), "{} calls are never answered", self.0.len());
    }
}
