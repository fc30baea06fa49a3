//! The worlds that the cases run in, and the handlers that they call.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weft_transport::{
    Batch, Clock, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, LinkKind,
    LinkPolicy, ManualClock, Memory, MemoryConfig, Messages, NoHandler, NodeId, Purpose, Retained,
    Shared, SimConfig, SimNetwork, Time,
};
#[cfg(feature = "verbs")]
use weft_transport::{EndpointError, VerbsError};

/// What an endpoint has where nothing else is said.
const MEMORY_BYTES: u64 = 512 << 20;

/// Endpoints that can reach one another, and a way to run futures on them.
pub(crate) struct World {
    kind: Kind,
    clock: Clock,
    endpoints: RefCell<Vec<Endpoint>>,
}

enum Kind {
    Real(LinkPolicy),
    Sim { network: SimNetwork, hand: ManualClock, seed: u64 },
}

/// An endpoint that listens.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

impl World {
    pub(crate) fn real(links: LinkPolicy) -> Self {
        Self { kind: Kind::Real(links), clock: Clock::system(), endpoints: RefCell::default() }
    }

    /// Nothing where there is no device.
    #[cfg(feature = "verbs")]
    #[expect(clippy::print_stderr, reason = "says that a test was skipped")]
    pub(crate) fn verbs() -> Option<Self> {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
        config.links = LinkPolicy::Verbs;
        match Endpoint::start(config, Arc::new(NoHandler)) {
            Ok(_) => Some(Self::real(LinkPolicy::Verbs)),
            Err(EndpointError::Verbs(missing @ VerbsError::NoDevice)) => {
                eprintln!("skipped: {missing}");
                None
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    pub(crate) fn sim(seed: u64) -> Self {
        let (clock, hand) = Clock::manual();
        let config = SimConfig {
            seed,
            delay: Duration::from_micros(20)..Duration::from_micros(900),
            loss: 0.0,
            partial: 0.3,
        };
        let network = SimNetwork::new(config, hand.clone());
        Self { kind: Kind::Sim { network, hand, seed }, clock, endpoints: RefCell::default() }
    }

    /// What its connections run over.
    pub(crate) fn link(&self) -> LinkKind {
        match &self.kind {
            Kind::Real(LinkPolicy::Shm | LinkPolicy::Auto) => LinkKind::Shm,
            Kind::Real(LinkPolicy::Verbs) => LinkKind::Verbs,
            Kind::Real(LinkPolicy::Tcp) => LinkKind::Tcp,
            Kind::Sim { .. } => LinkKind::Sim,
        }
    }

    /// An endpoint that listens and hands what comes in to `handler`.
    pub(crate) fn node(&self, id: u64, handler: Arc<dyn Handler>) -> Node {
        let endpoint = self.endpoint(NodeId(id), Incarnation(1), handler);
        let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        Node { endpoint, address }
    }

    /// As [`node`](Self::node), with so much memory.
    pub(crate) fn node_with_memory(
        &self,
        id: u64,
        handler: Arc<dyn Handler>,
        limit_bytes: u64,
    ) -> Node {
        let endpoint = self.start(NodeId(id), Incarnation(1), handler, limit_bytes);
        let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        Node { endpoint, address }
    }

    /// An endpoint that only calls.
    pub(crate) fn client(&self) -> Endpoint {
        self.client_with_memory(MEMORY_BYTES)
    }

    /// As [`client`](Self::client), with so much memory.
    pub(crate) fn client_with_memory(&self, limit_bytes: u64) -> Endpoint {
        self.start(Self::next_client(), Incarnation(1), Arc::new(NoHandler), limit_bytes)
    }

    /// An endpoint that listens, where receives are posted for messages.
    pub(crate) fn posting_node(&self, id: u64) -> Node {
        let posted = |config: &mut EndpointConfig| config.messages = Messages::Posted;
        let (node, handler) = (NodeId(id), Arc::new(NoHandler));
        let endpoint = self.start_with(node, Incarnation(1), handler, MEMORY_BYTES, posted);
        let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
        Node { endpoint, address }
    }

    /// An endpoint that connects, where receives are posted for messages.
    pub(crate) fn posting_client(&self) -> Endpoint {
        let posted = |config: &mut EndpointConfig| config.messages = Messages::Posted;
        self.start_with(
            Self::next_client(),
            Incarnation(1),
            Arc::new(NoHandler),
            MEMORY_BYTES,
            posted,
        )
    }

    fn next_client() -> NodeId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NodeId::client(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// An endpoint that only calls, as some life of a storage node.
    pub(crate) fn incarnation_of(&self, id: u64, incarnation: u64) -> Endpoint {
        self.endpoint(NodeId(id), Incarnation(incarnation), Arc::new(NoHandler))
    }

    fn endpoint(&self, id: NodeId, life: Incarnation, handler: Arc<dyn Handler>) -> Endpoint {
        self.start(id, life, handler, MEMORY_BYTES)
    }

    fn start(
        &self,
        id: NodeId,
        life: Incarnation,
        handler: Arc<dyn Handler>,
        limit_bytes: u64,
    ) -> Endpoint {
        self.start_with(id, life, handler, limit_bytes, |_| ())
    }

    fn start_with(
        &self,
        id: NodeId,
        life: Incarnation,
        handler: Arc<dyn Handler>,
        limit_bytes: u64,
        change: impl FnOnce(&mut EndpointConfig),
    ) -> Endpoint {
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let mut config = EndpointConfig::new(id, life, memory);
        config.clock = self.clock.clone();
        change(&mut config);
        let endpoint = match &self.kind {
            Kind::Real(links) => {
                config.links = *links;
                Endpoint::start(config, handler)
            }
            Kind::Sim { network, .. } => Endpoint::simulated(config, handler, network),
        };
        let endpoint = endpoint.unwrap();
        self.endpoints.borrow_mut().push(endpoint.clone());
        endpoint
    }

    /// What differs between worlds of one kind.
    pub(crate) fn seed(&self) -> u64 {
        match self.kind {
            Kind::Real(_) => 0,
            Kind::Sim { seed, .. } => seed,
        }
    }

    /// Whether time is virtual here.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.kind, Kind::Sim { .. })
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Far enough away that only a hang reaches it.
    pub(crate) fn deadline(&self) -> Time {
        self.now() + Duration::from_secs(30)
    }

    /// Ends a node.
    pub(crate) fn stop(&self, node: &Node) {
        node.endpoint.shutdown();
    }

    /// Runs `future` until it is done.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        let Kind::Sim { network, hand, .. } = &self.kind else {
            let first = self.endpoints.borrow().last().cloned();
            return first.expect("a world with endpoints").block_on(future);
        };
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10_000_000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                self.settle();
                return output;
            }
            if !self.settle() {
                let timers = self.endpoints.borrow().iter().filter_map(Endpoint::next_timer).min();
                let next = network.next_event().into_iter().chain(timers).min();
                hand.advance_to(next.expect("nothing will ever happen again"));
            }
        }
        panic!("the future does not end");
    }

    /// Lets every endpoint do what it can do now.
    fn settle(&self) -> bool {
        let endpoints = self.endpoints.borrow().clone();
        endpoints.iter().map(Endpoint::turn).fold(false, |any, active| any | active)
    }
}

pub(crate) fn counter() -> Arc<AtomicU64> {
    Arc::default()
}

/// Replies with the request's body.
pub(crate) struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// Checks that messages are numbered in order; replies with how many there were.
pub(crate) struct Numbered {
    pub(crate) seen: Arc<AtomicU64>,
}

impl Handler for Numbered {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            match incoming.kind {
                IncomingKind::Message => {
                    let number = self.seen.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(incoming.body[..8], number.to_le_bytes());
                    assert_eq!(incoming.body.len(), 8 + (number % 90) as usize);
                }
                IncomingKind::Call(call) => {
                    batch.reply(call, &self.seen.load(Ordering::SeqCst).to_le_bytes());
                }
            }
        }
    }
}

/// Replies in as many parts as the request says.
pub(crate) struct Parts;

impl Handler for Parts {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let parts = u32::from_le_bytes(incoming.body.try_into().unwrap());
            for part in 0..parts {
                let mut body = vec![0; 1000 * part as usize + 4];
                body[..4].copy_from_slice(&part.to_le_bytes());
                if part + 1 < parts {
                    batch.reply_part(call, &body[..]);
                } else {
                    batch.reply(call, &body[..]);
                }
            }
        }
    }
}

/// Replies with a range of its bytes, which are not copied.
pub(crate) struct Gathered {
    bytes: Shared,
}

impl Gathered {
    pub(crate) fn new() -> Self {
        let memory = Memory::new(MemoryConfig { limit_bytes: 2 << 20 }).unwrap();
        let mut block = memory.allocate(1 << 20, Purpose::Log).unwrap();
        for (at, byte) in block.iter_mut().enumerate() {
            *byte = Self::byte(at as u32);
        }
        Self { bytes: block.freeze() }
    }

    pub(crate) fn byte(at: u32) -> u8 {
        (at * 7 + at / 251) as u8
    }
}

impl Handler for Gathered {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let number = |at: usize| {
                u32::from_le_bytes(incoming.body[at..at + 4].try_into().unwrap()) as usize
            };
            let tail = self.bytes.slice(number(0)..number(4));
            batch.reply_shared(call, incoming.body, tail);
        }
    }
}

/// Never replies.
pub(crate) struct Silent;

impl Handler for Silent {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {}
    }
}

/// Keeps every message.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) kept: Mutex<Vec<Retained>>,
}

impl Handler for Keeper {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.kept.lock().unwrap().push(incoming.retain().unwrap());
        }
    }
}
