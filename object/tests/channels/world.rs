//! Two endpoints, over a link or in simulated time, and graphs that go between them.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use weft_object::channel::{GraphLimits, GraphListener, GraphReceiver, GraphSender, ReceivedBytes};
use weft_object::{Frozen, Graph, Link, Seq, Text, Types, View, Wire};
use weft_transport::{
    Clock, CloseReason, Connection, Endpoint, EndpointConfig, EndpointError, Handler, Incarnation,
    LinkPolicy, ManualClock, Memory, MemoryConfig, NoHandler, NodeId, Purpose, SimConfig,
    SimNetwork, Time, VerbsError,
};

/// A list that ends where it begins, with a name and numbers a node.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Node {
    pub(crate) next: Option<Link<Node>>,
    pub(crate) name: Text,
    pub(crate) numbers: Seq<u32>,
    pub(crate) _zero: u32,
}

pub(crate) fn types() -> Types {
    Types::new().with::<Node>()
}

pub(crate) struct World {
    kind: Kind,
    pub(crate) clock: Clock,
    pub(crate) memory: Memory,
    pub(crate) listener: Arc<GraphListener>,
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
    address: SocketAddr,
}

enum Kind {
    Real,
    Sim { network: SimNetwork, hand: ManualClock },
}

/// Verbs where there is a device and they were built, else every link that needs none, and some orders of things in simulated time.
pub(crate) fn on_every_link(limits: GraphLimits, case: impl Fn(&World)) {
    on_links_of(NodeId::client(1), limits, case);
}

/// The same between two nodes, each of which may connect to the other.
pub(crate) fn between_nodes(limits: GraphLimits, case: impl Fn(&World)) {
    on_links_of(NodeId(2), limits, case);
}

fn on_links_of(sender: NodeId, limits: GraphLimits, case: impl Fn(&World)) {
    if has_device() {
        return case(&World::real_of(sender, LinkPolicy::Verbs, limits));
    }
    case(&World::real_of(sender, LinkPolicy::Tcp, limits));
    case(&World::real_of(sender, LinkPolicy::Shm, limits));
    for seed in 0..10 {
        case(&World::simulated_of(sender, seed, limits));
    }
}

/// Whether there is a device, and verbs were built.
fn has_device() -> bool {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
    config.links = LinkPolicy::Verbs;
    match Endpoint::start(config, Arc::new(NoHandler)) {
        Ok(_) => true,
        Err(EndpointError::Verbs(VerbsError::NotBuilt | VerbsError::NoDevice)) => false,
        Err(error) => panic!("{error:?}"),
    }
}

impl World {
    pub(crate) fn real_of(sender: NodeId, links: LinkPolicy, limits: GraphLimits) -> World {
        let start = |config: EndpointConfig, handler| {
            Endpoint::start(EndpointConfig { links, ..config }, handler).unwrap()
        };
        World::with(Kind::Real, Clock::system(), (sender, limits), start)
    }

    pub(crate) fn simulated(seed: u64, limits: GraphLimits) -> World {
        World::simulated_of(NodeId::client(1), seed, limits)
    }

    fn simulated_of(sender: NodeId, seed: u64, limits: GraphLimits) -> World {
        let (clock, hand) = Clock::manual();
        let delay = Duration::from_micros(20)..Duration::from_micros(900);
        let config = SimConfig { seed, delay, loss: 0.0, partial: 0.3 };
        let network = SimNetwork::new(config, hand.clone());
        let start = |config: EndpointConfig, handler| {
            Endpoint::simulated(config, handler, &network).unwrap()
        };
        World::with(Kind::Sim { network: network.clone(), hand }, clock, (sender, limits), start)
    }

    fn with(
        kind: Kind,
        clock: Clock,
        (sender, limits): (NodeId, GraphLimits),
        start: impl Fn(EndpointConfig, Arc<dyn Handler>) -> Endpoint,
    ) -> World {
        let memory = || Memory::new(MemoryConfig { limit_bytes: 512 << 20 }).unwrap();
        let config = |node, memory: Memory| {
            let config = EndpointConfig::new(node, Incarnation(1), memory);
            EndpointConfig { clock: clock.clone(), ..config }
        };
        let at_server = memory();
        let listener = GraphListener::new(&types(), limits, &at_server);
        let server = start(config(NodeId(1), at_server), Arc::clone(&listener) as _);
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let memory = memory();
        let client = start(config(sender, memory.clone()), Arc::new(NoHandler));
        World { kind, clock, memory, listener, server, client, address }
    }

    /// Lets time pass, where it is virtual, with nobody at work but the sending side.
    pub(crate) fn pass(&self, time: Duration) {
        if let Kind::Sim { hand, .. } = &self.kind {
            self.client.turn();
            hand.advance_to(self.clock.now() + time);
        }
    }

    /// Has the link fail, of which nobody hears before somebody sends something.
    pub(crate) fn lose_link(&self) {
        let Kind::Sim { network, hand } = &self.kind else { panic!("a link that is simulated") };
        assert!(network.lose_one());
        hand.advance_to(self.clock.now() + Duration::from_millis(10));
    }

    /// Far enough away that only a hang reaches it.
    pub(crate) fn deadline(&self) -> Time {
        self.clock.now() + Duration::from_secs(60)
    }

    pub(crate) async fn connect(&self) -> Connection {
        self.client.connect(self.address, self.deadline()).await.unwrap()
    }

    /// Has the receiving node connect to the sending one, for which the connection makes way.
    pub(crate) async fn make_way(&self, connection: &Connection) {
        let address = self.client.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let second = self.server.connect(address, self.deadline()).await.unwrap();
        assert_eq!(connection.ended().await, CloseReason::Duplicate);
        assert!(second.is_open());
    }

    /// Both ends of a channel.
    pub(crate) async fn channel(&self) -> (GraphSender, GraphReceiver) {
        let connection = self.connect().await;
        let sender = GraphSender::open(&connection, &types(), self.deadline()).await.unwrap();
        (sender, self.listener.accept().await)
    }

    /// Runs `future` until it is done.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        let Kind::Sim { network, hand } = &self.kind else {
            return self.client.block_on(future);
        };
        let mut future = pin!(future);
        for _ in 0..10_000_000 {
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let endpoints = [&self.server, &self.client];
            let is_active = endpoints.map(Endpoint::turn).contains(&true);
            if let Poll::Ready(output) = polled {
                return output;
            }
            if !is_active {
                let timers = endpoints.into_iter().filter_map(Endpoint::next_timer).min();
                let next = network.next_event().into_iter().chain(timers).min();
                hand.advance_to(next.expect("nothing will ever happen again"));
            }
        }
        panic!("the future does not end");
    }

    /// A ring of `nodes` nodes, each with as many numbers as are said.
    pub(crate) fn ring(&self, nodes: usize, numbers: usize) -> Frozen<Node> {
        Graph::build(&self.memory, Purpose::Send, &types(), |graph| {
            let mut ring = Vec::new();
            for at in 0..nodes as u32 {
                let name = graph.text(&format!("node {at}"))?;
                let values: Vec<u32> = (0..numbers as u32).map(|number| at + number).collect();
                let numbers = graph.seq(&values)?;
                ring.push(graph.alloc(Node { next: None, name, numbers, _zero: 0 })?);
            }
            for (at, node) in ring.iter().enumerate() {
                graph.get_mut(*node).next = Some(ring[(at + 1) % nodes].link());
            }
            Ok(ring[0])
        })
        .unwrap()
    }
}

/// Goes through all of a ring, and says how many nodes and numbers a node it has.
pub(crate) fn walked(graph: &View<ReceivedBytes>) -> (usize, usize) {
    let first: &Node = graph.root().unwrap();
    let (mut node, mut count) = (first, 0);
    loop {
        assert_eq!(graph.text(&node.name), format!("node {count}"));
        let numbers = graph.seq(node.numbers);
        assert!((count as u32..).zip(numbers).all(|(at, number)| *number == at), "node {count}");
        count += 1;
        let next = graph.get(node.next.unwrap());
        if std::ptr::eq(next, first) {
            return (count, numbers.len());
        }
        node = next;
    }
}

/// Sends messages that nobody wants, until the window has no room for one.
pub(crate) fn fill_window(connection: &Connection) {
    for len in [100_000, 1] {
        while connection.send(&vec![0; len][..]).now_or_never().is_some() {}
    }
}
