//! Trials: whole endpoints on the simulated network, in orders drawn at random, with a look into their
//! ledgers after every step.

mod bodies;
mod clock;
mod credits;
mod cycle;
mod endings;
mod large_replies;
mod lending;
mod overdraw;
mod refusals;
mod room;
mod stranger;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::connection::{Connection, Core};
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::handler::Handler;
use crate::identity::{Incarnation, NodeId};
use crate::link::{Link, SimConfig, SimNetwork};
use crate::memory::{Block, Memory, MemoryConfig, Purpose};
use crate::session::ledger::ReceivedBody;
use crate::time::{Clock, ManualClock, Time};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Endpoints that can reach one another, and what is under way on them.
struct World {
    network: SimNetwork,
    clock: Clock,
    hand: ManualClock,
    endpoints: Vec<Endpoint>,
    tasks: Vec<Task>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (clock, hand) = Clock::manual();
        let delay = Duration::from_micros(20)..Duration::from_micros(900);
        let config = SimConfig { seed, delay, loss: 0.0, partial: 0.3 };
        let network = SimNetwork::new(config, hand.clone());
        Self { network, clock, hand, endpoints: Vec::new(), tasks: Vec::new() }
    }

    /// A node that listens.
    fn node(
        &mut self,
        id: u64,
        handler: Arc<dyn Handler>,
        limit_bytes: u64,
        change: impl FnOnce(&mut EndpointConfig),
    ) -> SocketAddr {
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let mut config = EndpointConfig::new(NodeId(id), Incarnation(1), memory);
        config.clock = self.clock.clone();
        change(&mut config);
        let endpoint = Endpoint::simulated(config, handler, &self.network).unwrap();
        let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        self.endpoints.push(endpoint);
        address
    }

    fn connect(&mut self, from: usize, to: SocketAddr) -> Connection {
        let endpoint = self.endpoints[from].clone();
        let deadline = self.after(Duration::from_secs(600));
        let mut connecting = std::pin::pin!(endpoint.connect(to, deadline));
        loop {
            if let std::task::Poll::Ready(connection) = connecting.as_mut().poll(&mut noop()) {
                return connection.unwrap();
            }
            if !self.step() {
                assert!(self.advance(), "nothing will ever happen again");
            }
        }
    }

    fn after(&self, time: Duration) -> Time {
        self.clock.now() + time
    }

    /// Polls what is under way, and lets every endpoint do what it can do now. Returns whether anything
    /// happened.
    fn step(&mut self) -> bool {
        let before = self.tasks.len();
        self.tasks.retain_mut(|task| task.as_mut().poll(&mut noop()).is_pending());
        let turned = self.endpoints.iter().map(Endpoint::turn).fold(false, |any, did| any | did);
        turned || self.tasks.len() < before
    }

    /// Goes on to when something happens next, if anything does.
    fn advance(&self) -> bool {
        let timers = self.endpoints.iter().filter_map(Endpoint::next_timer);
        let next = self.network.next_event().into_iter().chain(timers).min();
        next.is_some_and(|next| {
            self.hand.advance_to(next);
            true
        })
    }

    /// As [`advance`](Self::advance), to what the network does next, and no timer.
    fn advance_to_event(&self) -> bool {
        let next = self.network.next_event();
        next.inspect(|next| self.hand.advance_to(*next)).is_some()
    }

    /// The other end of a connection, at endpoint `at`, once it has greeted and while it is open.
    fn other_end(&self, of: &Core, at: usize) -> Option<Arc<Core>> {
        let reactors = self.endpoints[at].common().reactors.get()?;
        let reactor = reactors.first()?.upgrade()?;
        let members = reactor.members.lock();
        // Not by its node: for a while that may have another connection that this side has yet to see end.
        let is_other = |core: &&Arc<Core>| match (&core.link, &of.link) {
            (Link::Sim(link), Link::Sim(of)) if link.is_other_end(of) => {
                core.closed().is_none() && core.peer_if_greeted().is_some()
            }
            _ => false,
        };
        members.values().find(is_other).cloned()
    }

    /// The streamed bodies on their way in to `core`, at endpoint `at`.
    fn received_bodies(&self, core: &Arc<Core>, at: usize) -> Vec<ReceivedBody> {
        let reactor = self.endpoints[at].common().reactors.get().and_then(|all| all[0].upgrade());
        reactor.map_or_else(Vec::new, |reactor| reactor.state.lock().ledger(core))
    }

    /// All of the memory of endpoint `at`.
    fn take_memory(&self, at: usize) -> Vec<Block> {
        let memory = self.endpoints[at].memory();
        let lens = [1 << 20, 64 << 10, 4 << 10];
        let take = |len| std::iter::from_fn(move || memory.allocate(len, Purpose::Send).ok());
        lens.into_iter().flat_map(take).collect()
    }
}

/// Nobody has to be woken: everybody is polled in every step.
fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
