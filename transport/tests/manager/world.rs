//! Nodes that restart, hang and are cut off, in virtual time.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weft_transport::{
    Backoff, Batch, Clock, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind,
    ManualClock, Memory, MemoryConfig, NodeEvent, NodeEvents, NodeId, SimConfig, SimNetwork, Time,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How often an address is tried where nobody has been found.
pub(crate) const INTERVAL: Duration = SECOND;

pub(crate) const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), max: SECOND };

/// Endpoints on one network, which live by one clock.
pub(crate) struct World {
    pub(crate) network: SimNetwork,
    clock: Clock,
    hand: ManualClock,
    members: RefCell<Vec<Member>>,
}

struct Member {
    endpoint: Endpoint,
    /// It does nothing, as a process that is stopped or a machine that is cut off.
    hangs: bool,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let (clock, hand) = Clock::manual();
        let config = SimConfig {
            seed,
            delay: Duration::from_micros(20)..Duration::from_micros(900),
            loss: 0.0,
            partial: 0.3,
        };
        let network = SimNetwork::new(config, hand.clone());
        Self { network, clock, hand, members: RefCell::default() }
    }

    /// A life of a node, which listens at its address and gives back what it is asked.
    pub(crate) fn node(&self, id: u64, life: u64) -> Endpoint {
        let node = self.endpoint(id, life, |_| {});
        node.listen(address(id)).unwrap();
        node
    }

    /// A node that does not listen.
    pub(crate) fn endpoint(
        &self,
        id: u64,
        life: u64,
        change: impl FnOnce(&mut EndpointConfig),
    ) -> Endpoint {
        self.endpoint_with(Arc::new(Echo), id, life, change)
    }

    /// The same, with a handler of its own.
    pub(crate) fn endpoint_with(
        &self,
        handler: Arc<dyn Handler>,
        id: u64,
        life: u64,
        change: impl FnOnce(&mut EndpointConfig),
    ) -> Endpoint {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let mut config = EndpointConfig::new(NodeId(id), Incarnation(life), memory);
        config.clock = self.clock.clone();
        config.discovery_interval = INTERVAL;
        config.backoff = BACKOFF;
        change(&mut config);
        let endpoint = Endpoint::simulated(config, handler, &self.network).unwrap();
        self.members.borrow_mut().push(Member { endpoint: endpoint.clone(), hangs: false });
        endpoint
    }

    /// Ends a node in good order.
    pub(crate) fn stop(&self, node: Endpoint) {
        self.members.borrow_mut().retain(|member| !same(&member.endpoint, &node));
        node.shutdown();
    }

    /// Lets a node do nothing any more, or go on.
    pub(crate) fn hang(&self, node: &Endpoint, hangs: bool) {
        let mut members = self.members.borrow_mut();
        members.iter_mut().find(|member| same(&member.endpoint, node)).unwrap().hangs = hangs;
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn deadline(&self) -> Time {
        self.now() + 60 * SECOND
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, duration: Duration) {
        let end = self.now() + duration;
        assert!(self.run_until(end, std::future::pending::<()>()).is_none());
    }

    /// Runs `future` until it is done.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.run_until(self.deadline(), future).expect("it ends within a minute")
    }

    /// Runs `future` until it is done or `end` has come.
    pub(crate) fn run_until<F: Future>(&self, end: Time, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1_000_000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if self.settle() {
                continue;
            }
            if self.now() >= end {
                return None;
            }
            let members = self.members.borrow();
            let awake = members.iter().filter(|member| !member.hangs);
            let timers = awake.filter_map(|member| member.endpoint.next_timer());
            let next = self.network.next_event().into_iter().chain(timers).min();
            self.hand.advance_to(next.unwrap_or(end).min(end));
        }
        panic!("no end of things to do");
    }

    fn settle(&self) -> bool {
        let members = self.members.borrow();
        let awake = members.iter().filter(|member| !member.hangs);
        awake.map(|member| member.endpoint.turn()).fold(false, |any, active| any | active)
    }
}

fn same(one: &Endpoint, other: &Endpoint) -> bool {
    std::ptr::eq(one.memory(), other.memory())
}

pub(crate) fn address(id: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, id as u8], 7400))
}

/// What was told by now, in short.
pub(crate) fn told(events: &mut NodeEvents) -> Vec<String> {
    let mut context = Context::from_waker(Waker::noop());
    let mut next = || match pin!(events.next()).poll(&mut context) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    };
    std::iter::from_fn(|| next().map(short)).collect()
}

fn short(event: NodeEvent) -> String {
    match event {
        NodeEvent::Found(peer) => format!("found {}.{}", peer.node.0, peer.incarnation),
        NodeEvent::Connected(peer) => format!("connected {}.{}", peer.node.0, peer.incarnation),
        NodeEvent::Lost { peer, reason } => {
            format!("lost {}.{}: {reason}", peer.node.0, peer.incarnation)
        }
        NodeEvent::Missed(count) => format!("missed {count}"),
    }
}

/// Replies with the request's body; keeps quiet about "wait".
pub(crate) struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind
                && incoming.body != b"wait"
            {
                batch.reply(call, incoming.body);
            }
        }
    }
}
