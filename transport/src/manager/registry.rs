//! Which nodes this endpoint knows and is connected to (DESIGN T11).
//!
//! Many threads that ask for one address make one attempt and all wait for it; no other address
//! waits with them. Two nodes that connect to each other at the same moment keep the connection
//! that the node with the lower id began. A hello from an older life of a node is refused.

mod admission;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use dashmap::{DashMap, Entry};

use crate::catching;
use crate::connection::{Connection, Core, Peer};
use crate::error::ConnectError;
use crate::identity::{Incarnation, NodeId};
use crate::limits::NODES_KEPT;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::time::Time;

use super::Backoff;
use super::attempt::Attempt;
use super::event::{Listeners, NodeEvent, NodeEvents};
use super::pauses::{Pause, Pauses};
use super::schedule::{ListedAddress, Schedule};

pub(crate) use admission::Admission;

/// The attempts and the nodes of one endpoint.
///
/// Of locks that are held together, a node's comes before the schedule's and the listeners'.
#[derive(Debug)]
pub(crate) struct Registry {
    attempts: DashMap<SocketAddr, Arc<Attempt>>,
    nodes: DashMap<NodeId, Known>,
    /// How many hellos of nodes there have been.
    hellos: AtomicU64,
    schedule: Mutex<Schedule>,
    listeners: Listeners,
    pauses: Pauses,
}

#[derive(Debug)]
struct Known {
    incarnation: Incarnation,
    connection: Option<Arc<Core>>,
    /// One that the node began and that is still open, in whose place another one that it began later is used, as far as is known here: what comes
    /// late may be of an attempt that the node has given up, and then this is the one that it uses.
    former: Option<Arc<Core>>,
    /// Which of all hellos was its last.
    hello: u64,
}

impl Known {
    /// Goes on by the connection that another one was used in the place of, if that is still open, when the other one has ended.
    fn fall_back(&mut self) -> Option<&Arc<Core>> {
        self.connection = self.former.take().filter(|former| former.ended().is_none());
        self.connection.as_ref()
    }
}

/// Who asks for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Somebody who wants the connection, and waits for the end of the pause after a failure.
    ByCaller,
    /// Somebody who has to know now, and asks once.
    AtOnce,
    /// The schedule, which has waited.
    BySchedule,
}

/// That an attempt has failed a moment ago, and is not made again yet.
#[derive(Debug)]
pub(crate) struct TooEarly {
    /// When it may be made.
    pub(crate) until: Time,
    /// What the last one failed with.
    pub(crate) failure: ConnectError,
}

impl Registry {
    pub(crate) fn new(backoff: Backoff, discovery_interval: Duration, seed: u64) -> Self {
        Self {
            attempts: DashMap::new(),
            nodes: DashMap::new(),
            hellos: AtomicU64::new(0),
            schedule: Mutex::new(Schedule::new(backoff, discovery_interval, seed)),
            listeners: Listeners::default(),
            pauses: Pauses::default(),
        }
    }

    pub(super) fn add(&self, address: SocketAddr, now: Time) -> bool {
        self.schedule.lock().add(address, now)
    }

    pub(super) fn remove(&self, address: SocketAddr) -> bool {
        self.schedule.lock().remove(address)
    }

    pub(super) fn listed(&self) -> Vec<ListedAddress> {
        self.schedule.lock().list()
    }

    pub(super) fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.schedule.lock().address_of(node)
    }

    pub(super) fn events(&self) -> NodeEvents {
        self.listeners.join()
    }

    /// Nothing more will happen. Connections are let go of: they hold their endpoint, and so this.
    pub(crate) fn end(&self) {
        self.listeners.end();
        self.attempts.clear();
        for mut known in self.nodes.iter_mut() {
            (known.connection, known.former) = (None, None);
        }
    }

    /// The connection that is used with a node.
    pub(crate) fn connection(&self, node: NodeId) -> Option<Connection> {
        let core = self.nodes.get(&node)?.connection.clone()?;
        core.ended().is_none().then_some(Connection::new(core))
    }

    /// A newer life of a node than this one is forgotten, unless it is connected. Returns whether there was one.
    pub(super) fn go_back_to(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let Some(mut known) = self.nodes.get_mut(&node) else { return false };
        let is_open = known.connection.as_ref().is_some_and(|core| core.ended().is_none());
        let goes_back = known.incarnation > incarnation && !is_open;
        if goes_back {
            known.incarnation = incarnation;
        }
        goes_back
    }

    pub(super) fn connected(&self) -> Vec<Peer> {
        let nodes = self.nodes.iter().filter_map(|known| known.connection.clone());
        let open = nodes.filter(|core| core.ended().is_none());
        let mut peers: Vec<_> = open.map(|core| *core.peer()).collect();
        peers.sort_by_key(|peer| peer.node);
        peers
    }

    /// `address` leads to this endpoint itself, because it listens there or has been found there: it is not tried.
    pub(crate) fn leads_here(&self, address: SocketAddr) {
        self.schedule.lock().leads_here(address);
    }

    /// When addresses are due to be tried by themselves.
    pub(crate) fn next_due(&self) -> Time {
        self.schedule.lock().next_at()
    }

    /// The addresses that are due.
    pub(crate) fn due(&self, now: Time) -> Vec<SocketAddr> {
        self.schedule.lock().due(now)
    }

    /// The attempt for `address`, and whether the caller has to begin it. One that would come too early
    /// after a failure is not made: see [`TooEarly`].
    pub(crate) fn attempt(
        &self,
        address: SocketAddr,
        asked: Asked,
        now: Time,
    ) -> Result<(Arc<Attempt>, bool), TooEarly> {
        let node = self.schedule.lock().node_at(address);
        if let Some(connection) = node.and_then(|node| self.connection(node)) {
            self.succeed(address, &connection, now);
            return Ok((Arc::new(Attempt::ended(connection)), false));
        }
        let entry = match self.attempts.entry(address) {
            Entry::Occupied(entry) if entry.get().is_useful() => {
                let attempt = Arc::clone(entry.get());
                drop(entry);
                // It may have begun before the address came on the list.
                match attempt.connection() {
                    Some(connection) => self.succeed(address, &connection, now),
                    None => self.schedule.lock().begin(address),
                }
                return Ok((attempt, false));
            }
            entry => entry,
        };
        let mut schedule = self.schedule.lock();
        if asked == Asked::ByCaller
            && let Some((until, failure)) = schedule.pause(address, now)
        {
            return Err(TooEarly { until, failure });
        }
        schedule.begin(address);
        Ok((Arc::clone(&entry.insert(Arc::default())), true))
    }

    /// Ends an attempt at `address`, for all who wait for it.
    pub(crate) fn finish(
        &self,
        address: SocketAddr,
        attempt: &Attempt,
        outcome: Result<Connection, ConnectError>,
        now: Time,
    ) {
        // First, so that who is woken finds the pause.
        match &outcome {
            Ok(connection) => self.succeed(address, connection, now),
            Err(failure) => self.schedule.lock().fail(address, failure, now),
        }
        let is_connected = outcome.is_ok();
        attempt.finish(outcome);
        if is_connected {
            let mut wakers = Vec::new();
            self.pauses.end(address, &mut wakers);
            wakers.into_iter().for_each(catching::wake);
        }
    }

    /// Waits for a connection to `address`, from now on, where it is too early for an attempt.
    pub(crate) fn pause(&self, address: SocketAddr) -> Pause<'_> {
        self.pauses.begin(address)
    }

    /// `address` has led to a connection.
    fn succeed(&self, address: SocketAddr, connection: &Connection, now: Time) {
        let peer = connection.peer();
        self.schedule.lock().succeed(address, peer, now);
        if let Some(reason) = connection.core.ended() {
            // It may have been forgotten before the schedule knew of it.
            self.schedule.lock().lost(peer.node, reason, now);
        }
    }

    /// Forgets a connection that has ended.
    pub(crate) fn forget(&self, core: &Arc<Core>, now: Time, wakers: &mut Vec<Waker>) {
        if let (Some(peer), Some(reason)) = (core.peer_if_greeted(), core.ended())
            && let Some(mut known) = self.nodes.get_mut(&peer.node)
        {
            known.former.take_if(|former| Arc::ptr_eq(former, core));
            if known.connection.take_if(|known| Arc::ptr_eq(known, core)).is_some() {
                let lost = NodeEvent::Lost { peer: *peer, reason: reason.clone() };
                self.listeners.tell(&lost, wakers);
                match known.fall_back() {
                    Some(former) => {
                        self.listeners.tell(&NodeEvent::Connected(*former.peer()), wakers);
                    }
                    None => self.schedule.lock().lost(peer.node, reason, now),
                }
            }
        }
        if core.initiated {
            self.forget_attempt(core.address);
        }
    }

    /// Forgets the attempt for `address`, if it has ended and led to nothing.
    pub(crate) fn forget_attempt(&self, address: SocketAddr) {
        self.attempts.remove_if(&address, |_, attempt| !attempt.is_useful());
    }

    /// Whoever says hello can name any node. Incarnations of nodes that are neither connected nor on the
    /// list are kept for the last [`NODES_KEPT`] hellos at least, and no more than twice as many.
    fn forget_nodes(&self, hello: u64) {
        if hello.is_multiple_of(NODES_KEPT) && hello > 0 {
            let since = hello - NODES_KEPT;
            let listed = self.schedule.lock().nodes();
            self.nodes.retain(|node, known| {
                known.connection.is_some() || known.hello >= since || listed.contains(node)
            });
        }
    }
}

#[cfg(test)]
mod tests;
