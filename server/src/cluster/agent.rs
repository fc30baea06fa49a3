//! What goes on in a node beside requests: other nodes come and go, leases are asked for, time passes, learners are given what there is.
//!
//! One future, which a thread of the shell drives, or the simulator: it owns no thread and no clock.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_protocol::Member;
use weft_transport::{ConnectionManager, Endpoint, NodeEvent, NodeEvents, Peer, Sleep};

use super::hosted::Due;
use crate::handler::NodeHandler;
use crate::limits::HEARTBEAT;

/// Pieces that learners are given before something else has its turn.
const PIECES_TOGETHER: usize = 4;

/// What sends what waits for room.
type Pump = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What has happened.
enum Happened {
    Event(Option<NodeEvent>),
    Tick,
    Fed,
}

/// What the agent of a node goes by.
struct Agent {
    node: Arc<NodeHandler>,
    manager: ConnectionManager,
    events: NodeEvents,
    pumps: FuturesUnordered<Pump>,
    /// The version of the map by which other nodes are looked for.
    looked_at: u64,
    listed: BTreeSet<SocketAddr>,
}

impl NodeHandler {
    /// Takes part in the cluster for as long as the endpoint is there. The future is to be driven by one thread.
    pub async fn take_part(self: Arc<NodeHandler>, endpoint: Endpoint) {
        let manager = endpoint.manager();
        let events = manager.events();
        let mut agent = Agent {
            node: self,
            manager,
            events,
            pumps: FuturesUnordered::new(),
            looked_at: 0,
            listed: BTreeSet::new(),
        };
        for peer in agent.manager.connected() {
            agent.connected(&peer);
        }
        let mut next_tick = endpoint.clock().now();
        loop {
            let mut ticking = endpoint.sleep_until(next_tick);
            match poll_fn(|context| agent.poll(&mut ticking, context)).await {
                Happened::Event(None) => return,
                Happened::Event(Some(event)) => agent.handle(event),
                Happened::Tick => {
                    agent.tick();
                    next_tick = endpoint.clock().now() + HEARTBEAT;
                }
                Happened::Fed => {}
            }
        }
    }
}

impl Agent {
    fn poll(&mut self, ticking: &mut Sleep, context: &mut Context<'_>) -> Poll<Happened> {
        while let Poll::Ready(Some(())) = self.pumps.poll_next_unpin(context) {}
        if let Poll::Ready(event) = pin!(self.events.next()).poll(context) {
            return Poll::Ready(Happened::Event(event));
        }
        if Pin::new(ticking).poll(context).is_ready() {
            return Poll::Ready(Happened::Tick);
        }
        self.node.cluster.feeds.lock().wakes(context.waker());
        if self.feed() { Poll::Ready(Happened::Fed) } else { Poll::Pending }
    }

    fn handle(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Found(_) => {}
            NodeEvent::Connected(peer) => self.connected(&peer),
            NodeEvent::Lost { peer, .. } => self.lost(&peer),
            NodeEvent::Missed(_) => {
                for peer in self.manager.connected() {
                    self.connected(&peer);
                }
            }
        }
    }

    fn connected(&mut self, peer: &Peer) {
        // It may be gone again.
        let Some(connection) = self.manager.connection(peer.node) else { return };
        let link = self.node.cluster.peers.connected(connection);
        self.pumps.push(Box::pin(link.pump()));
        self.peer_changed(peer, true);
    }

    fn lost(&mut self, peer: &Peer) {
        // Another may have taken its place.
        if self.manager.connection(peer.node).is_none() {
            self.node.cluster.peers.lost(peer.node);
            self.peer_changed(peer, false);
        }
    }

    fn peer_changed(&self, peer: &Peer, is_connected: bool) {
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let member = Member { node: peer.node, incarnation: peer.incarnation };
        let mut due = Due::default();
        cluster.peer_changed(partitions, member, is_connected, self.node.now_by_both(), &mut due);
        cluster.deliver(answers, &mut due);
    }

    fn tick(&mut self) {
        self.look_for_others();
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let (now, mut due) = (self.node.now_by_both(), Due::default());
        cluster.ask_for_leases(now);
        cluster.tick(partitions, now, &mut due);
        cluster.deliver(answers, &mut due);
    }

    /// Has connections made to the nodes of the map.
    fn look_for_others(&mut self) {
        let Some(map) = self.node.map().filter(|map| map.epoch() > self.looked_at) else { return };
        self.looked_at = map.epoch();
        let others = map.nodes().iter().filter(|entry| entry.id != self.node.node);
        let addresses: BTreeSet<SocketAddr> =
            others.filter_map(|entry| entry.address.parse().ok()).collect();
        for gone in self.listed.difference(&addresses) {
            self.manager.remove(*gone);
        }
        for new in addresses.difference(&self.listed) {
            self.manager.add(*new);
        }
        self.listed = addresses;
    }

    /// Gives learners some of what there is. Returns whether there may be more to do.
    fn feed(&self) -> bool {
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let mut due = Due::default();
        let now = self.node.now_by_both();
        let has_fed = (0..PIECES_TOGETHER).any(|_| cluster.feed(partitions, now, &mut due));
        cluster.deliver(answers, &mut due);
        has_fed
    }
}
