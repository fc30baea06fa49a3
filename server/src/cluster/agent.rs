//! What goes on in a node beside requests: other nodes come and go, leases are asked for, time passes, learners are given what there is.
//!
//! One future, which a thread of the shell drives, or the simulator: it owns no thread and no clock.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_protocol::Member;
use weft_transport::{
    AddressState, CloseReason, ConnectError, ConnectionManager, Endpoint, ListedAddress, NodeEvent,
    NodeEvents, Peer, Sleep, Time,
};

use super::coordination::Reply;
use super::hosted::Due;
use super::pacing::Pacing;
use crate::coordinator::{Ask, Update};
use crate::handler::NodeHandler;
use crate::limits::INQUIRIES_MAX;

/// A process that is ending closes what it has one by one, within milliseconds.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// How long others may refuse a life of the node until that counts. As long as another process waits to be taken for it they do so, too, and that ends when it finds
/// that this one lives.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// What goes on beside: what waits for room is sent, or an answer is waited for.
type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What has happened.
enum Happened {
    Event(Option<NodeEvent>),
    Tick,
    Fed,
    Update(Box<Update>),
    Question(Ask, Reply),
}

/// What the agent of a node goes by.
struct Agent {
    node: Arc<NodeHandler>,
    endpoint: Endpoint,
    manager: ConnectionManager,
    events: NodeEvents,
    pumps: FuturesUnordered<Errand>,
    questions: FuturesUnordered<Errand>,
    /// Where nodes are to be found as long as nobody tells of them.
    seeds: Vec<SocketAddr>,
    /// The versions of what is known by which other nodes were looked for.
    looked_at: Option<(u64, u64)>,
    listed: BTreeSet<SocketAddr>,
    pacing: Pacing,
    /// Nothing is fed before.
    pausing: Option<Sleep>,
    /// Since when others refuse this life of the node.
    refused_since: Option<Time>,
}

impl NodeHandler {
    /// Takes part in the cluster for as long as the endpoint is there. Until the node is of it, it looks for others at `seeds`. The future is to be
    /// driven by one thread.
    pub async fn take_part(self: Arc<NodeHandler>, endpoint: Endpoint, seeds: Vec<SocketAddr>) {
        let manager = endpoint.manager();
        let events = manager.events();
        let mut agent = Agent {
            node: self,
            endpoint: endpoint.clone(),
            manager,
            events,
            pumps: FuturesUnordered::new(),
            questions: FuturesUnordered::new(),
            seeds,
            looked_at: None,
            listed: BTreeSet::new(),
            pacing: Pacing::default(),
            pausing: None,
            refused_since: None,
        };
        agent.node.coordination.updates.open();
        agent.node.coordination.questions.open();
        for peer in agent.manager.connected() {
            agent.connected(&peer);
        }
        let mut next_tick = endpoint.clock().now();
        loop {
            let mut ticking = endpoint.sleep_until(next_tick);
            match poll_fn(|context| agent.poll(&mut ticking, context)).await {
                Happened::Event(None) => break,
                Happened::Event(Some(event)) => agent.handle(event),
                Happened::Tick => {
                    agent.tick();
                    next_tick = endpoint.clock().now() + agent.node.cluster.heartbeat;
                }
                Happened::Fed => {}
                Happened::Update(update) => {
                    agent.node.take_in(*update);
                    agent.welcome();
                }
                Happened::Question(ask, reply) => agent.ask(ask, reply),
            }
        }
        agent.node.coordination.updates.close();
        agent.node.coordination.questions.close();
    }
}

impl Agent {
    fn poll(&mut self, ticking: &mut Sleep, context: &mut Context<'_>) -> Poll<Happened> {
        while let Poll::Ready(Some(())) = self.pumps.poll_next_unpin(context) {}
        while let Poll::Ready(Some(())) = self.questions.poll_next_unpin(context) {}
        if let Poll::Ready(event) = pin!(self.events.next()).poll(context) {
            return Poll::Ready(Happened::Event(event));
        }
        if Pin::new(ticking).poll(context).is_ready() {
            return Poll::Ready(Happened::Tick);
        }
        let coordination = &self.node.coordination;
        if let Some(update) = coordination.updates.take(context.waker()) {
            return Poll::Ready(Happened::Update(update));
        }
        if self.questions.len() < INQUIRIES_MAX
            && let Some((ask, reply)) = coordination.questions.take(context.waker())
        {
            return Poll::Ready(Happened::Question(ask, reply));
        }
        if let Some(pausing) = &mut self.pausing {
            ready!(Pin::new(pausing).poll(context));
            self.pausing = None;
        }
        self.node.cluster.feeds.lock().wakes(context.waker());
        if self.feed() { Poll::Ready(Happened::Fed) } else { Poll::Pending }
    }

    fn handle(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Found(_) => {}
            NodeEvent::Connected(peer) => self.connected(&peer),
            NodeEvent::Lost { peer, reason } => self.lost(&peer, &reason),
            NodeEvent::Missed(_) => {
                for peer in self.manager.connected() {
                    self.connected(&peer);
                }
            }
        }
    }

    /// There is a connection. Nothing is kept for whoever is not of the cluster, as far as that is known.
    fn connected(&mut self, peer: &Peer) {
        let view = self.node.cluster.view.lock();
        let is_stranger = view.version() > 0 && view.node(peer.node).is_none();
        drop(view);
        if is_stranger {
            return;
        }
        // It may be gone again.
        let Some(connection) = self.manager.connection(peer.node) else { return };
        let link = self.node.cluster.peers.connected(connection);
        self.pumps.push(Box::pin(link.pump()));
        self.peer_changed(peer, true);
    }

    /// Those who are connected may have been strangers before, or are now.
    fn welcome(&mut self) {
        let linked: BTreeSet<Member> = self.node.cluster.peers.members().into_iter().collect();
        for peer in self.manager.connected() {
            if !linked.contains(&Member { node: peer.node, incarnation: peer.incarnation }) {
                self.connected(&peer);
            }
        }
        let view = self.node.cluster.view.lock();
        let strangers = linked.iter().filter(|member| view.node(member.node).is_none());
        strangers.for_each(|member| self.node.cluster.no_connection_to(member.node));
    }

    fn lost(&mut self, peer: &Peer, reason: &CloseReason) {
        // Another may have taken its place.
        if self.manager.connection(peer.node).is_none() {
            self.node.cluster.no_connection_to(peer.node);
            self.peer_changed(peer, false);
            if ended_with_its_process(reason) {
                self.see_whether_gone(peer);
            }
        }
    }

    /// Has it found out whether the process of the node is gone: then the system that it ran on refuses connections where it listened.
    fn see_whether_gone(&mut self, peer: &Peer) {
        let member = Member { node: peer.node, incarnation: peer.incarnation };
        let view = self.node.cluster.view.lock();
        let address = view.node(peer.node).map(|node| node.description.data_address.parse());
        drop(view);
        let Some(Ok(address)) = address else { return };
        let (node, manager) = (Arc::clone(&self.node), self.manager.clone());
        let (endpoint, now) = (self.endpoint.clone(), self.endpoint.clock().now());
        // After that its silence is heard.
        let deadline = now + node.cluster.settings().unreachable_after;
        self.pumps.push(Box::pin(async move {
            if is_refused(&manager, &endpoint, address, deadline).await {
                node.coordination.hear_gone(member);
            }
        }));
    }

    fn peer_changed(&self, peer: &Peer, is_connected: bool) {
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let member = Member { node: peer.node, incarnation: peer.incarnation };
        let mut due = Due::default();
        cluster.peer_changed(partitions, member, is_connected, self.node.now_by_both(), &mut due);
        cluster.deliver(answers, &mut due);
    }

    /// Of two connections that nodes have made to each other, one makes way. If that is lost before it has ended in good order, nobody is told: there
    /// was a connection all along, and it is the other one.
    fn go_on_by_others(&mut self) {
        let cut_off = self.node.cluster.peers.cut_off();
        if cut_off.is_empty() {
            return;
        }
        for peer in self.manager.connected() {
            if cut_off.contains(&Member { node: peer.node, incarnation: peer.incarnation }) {
                self.connected(&peer);
            }
        }
    }

    fn tick(&mut self) {
        self.look_for_others();
        self.see_whose_lives();
        self.node.try_refused_again();
        self.go_on_by_others();
        self.node.send_heartbeats();
        self.pacing.answered(self.node.counters.total().all_requests());
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let (now, mut due) = (self.node.now_by_both(), Due::default());
        cluster.ask_for_leases(now);
        cluster.tick(partitions, now, &mut due);
        cluster.deliver(answers, &mut due);
    }

    /// Has connections made to the nodes of the cluster; and until this one is of it, to those of the map, and to where some are said to be.
    fn look_for_others(&mut self) {
        let view = self.node.cluster.view.lock();
        let version = view.version();
        let map = self.node.map();
        let looked_at = (version, map.as_ref().map_or(0, |map| map.epoch()));
        if self.looked_at == Some(looked_at) {
            return;
        }
        self.looked_at = Some(looked_at);
        let others = view.nodes().filter(|other| other.id != self.node.node);
        let mut addresses: BTreeSet<SocketAddr> =
            others.filter_map(|other| other.description.data_address.parse().ok()).collect();
        let has_joined = view.has(self.node.cluster.me);
        drop(view);
        if !has_joined {
            addresses.extend(&self.seeds);
            let listed = map.iter().flat_map(|map| map.nodes());
            let others = listed.filter(|other| other.id != self.node.node);
            addresses.extend(others.filter_map(|other| other.address.parse::<SocketAddr>().ok()));
        }
        for gone in self.listed.difference(&addresses) {
            self.manager.remove(*gone);
        }
        for new in addresses.difference(&self.listed) {
            self.manager.add(*new);
        }
        self.listed = addresses;
    }

    /// The lives of nodes are those that the cluster has. Another process that has said it is one of them, in a life that the cluster never took, is not to keep out
    /// the node itself when it is gone again. And whoever is refused by others for a newer life is not of the cluster any more, or another process says that it is
    /// this node.
    fn see_whose_lives(&mut self) {
        let view = self.node.cluster.view.lock();
        let others = view.nodes().filter(|other| other.id != self.node.node);
        for other in others {
            if self.manager.go_back_to(other.id, other.incarnation) {
                let node = other.id.0;
                tracing::debug!(node, "a life of this node that the cluster has not taken is gone");
            }
        }
        drop(view);
        let is_refused = |listed: &ListedAddress| {
            listed.state != AddressState::Connected
                && matches!(&listed.failure, Some(ConnectError::Closed { reason, .. }) if reason.is_of_earlier_life())
        };
        let now = self.endpoint.clock().now();
        let is_refused = self.manager.listed().iter().any(is_refused);
        self.refused_since =
            self.refused_since.filter(|_| is_refused).or(is_refused.then_some(now));
        let is_long = self.refused_since.is_some_and(|since| now.since(since) >= REFUSED_FOR);
        self.node.coordination.set_superseded(is_long);
    }

    /// Has a question answered, whoever can.
    fn ask(&mut self, ask: Ask, reply: Reply) {
        let (node, endpoint) = (Arc::clone(&self.node), self.endpoint.clone());
        self.questions.push(Box::pin(async move {
            reply(node.ask_coordinators(&endpoint, &ask).await);
        }));
    }

    /// Gives learners some of what there is. Returns whether there may be more to do.
    fn feed(&mut self) -> bool {
        let NodeHandler { cluster, partitions, answers, .. } = &*self.node;
        let mut due = Due::default();
        let now = self.node.now_by_both();
        let has_fed = cluster.feed(partitions, self.pacing.untaken_max(), now, &mut due);
        cluster.deliver(answers, &mut due);
        let ended = self.endpoint.clock().now();
        let pause = self.pacing.pause_after(ended.since(now.time));
        if has_fed && !pause.is_zero() {
            self.pausing = Some(self.endpoint.sleep_until(ended + pause));
        }
        has_fed
    }
}

/// Whether a connection ended as it does with the process at its other end.
fn ended_with_its_process(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::PeerGone | CloseReason::Link { .. } | CloseReason::ShuttingDown)
}

/// Whether the system at `address` refuses connections before `deadline`, and nobody takes one.
async fn is_refused(
    manager: &ConnectionManager,
    endpoint: &Endpoint,
    address: SocketAddr,
    deadline: Time,
) -> bool {
    loop {
        match manager.connect_at_once(address, deadline).await {
            Err(ConnectError::Refused { kind: ErrorKind::ConnectionRefused, .. }) => return true,
            // The system takes what a process listens for, one that is ending too, until that is done.
            Err(ConnectError::Closed { .. } | ConnectError::Refused { .. }) => {}
            Ok(_) | Err(_) => return false,
        }
        let next = endpoint.clock().now() + ASKED_AGAIN_AFTER;
        if next >= deadline {
            return false;
        }
        endpoint.sleep_until(next).await;
    }
}
