//! Which nodes this endpoint knows and is connected to (DESIGN T11).
//!
//! Many threads that ask for one address make one attempt and all wait for it; no other address
//! waits with them. Two nodes that connect to each other at the same moment keep the connection
//! that the node with the lower id began. A hello from an older life of a node is refused.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use dashmap::{DashMap, Entry};
use parking_lot::Mutex;

use crate::connection::{Connection, Core, Peer};
use crate::error::{CloseReason, ConnectError};
use crate::identity::{Incarnation, NodeId};
use crate::limits::NODES_KEPT;

/// The attempts and the nodes of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    attempts: DashMap<SocketAddr, Arc<Attempt>>,
    nodes: DashMap<NodeId, Known>,
    /// How many hellos of nodes there have been.
    hellos: AtomicU64,
}

#[derive(Debug)]
struct Known {
    incarnation: Incarnation,
    connection: Option<Arc<Core>>,
    /// Which of all hellos was its last.
    hello: u64,
}

/// One attempt to connect, with all who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    state: Mutex<AttemptState>,
}

#[derive(Debug, Default)]
struct AttemptState {
    outcome: Option<Result<Connection, ConnectError>>,
    waiting: Vec<Waker>,
}

/// Connections that peers have begun, until somebody asks for them.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Only where messages go to posted receives: elsewhere nobody asks.
    is_kept: bool,
    state: Mutex<AcceptedState>,
}

#[derive(Debug, Default)]
struct AcceptedState {
    waiting: VecDeque<Arc<Core>>,
    wakers: Vec<Waker>,
}

impl Accepted {
    pub(crate) fn new(is_kept: bool) -> Self {
        Self { is_kept, state: Mutex::default() }
    }

    /// A peer has begun a connection.
    pub(crate) fn add(&self, core: &Arc<Core>) {
        if !self.is_kept {
            return;
        }
        let mut state = self.state.lock();
        state.waiting.push_back(Arc::clone(core));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A connection has ended. If something has come over it that can still be received, it is handed out
    /// nevertheless.
    pub(crate) fn forget(&self, core: &Arc<Core>) {
        if core.session.receives.waiting() == 0 {
            self.state.lock().waiting.retain(|waiting| !Arc::ptr_eq(waiting, core));
        }
    }

    /// The connection that has waited longest, or later.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Connection> {
        let mut state = self.state.lock();
        if let Some(core) = state.waiting.pop_front() {
            return Poll::Ready(Connection { core });
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// What becomes of a connection whose peer has said hello.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is used.
    Used,
    /// Another connection to the same node is used in its place; this one is closed.
    Replaced(Arc<Core>),
}

impl Registry {
    /// The attempt for `address`, and whether the caller has to begin it.
    pub(crate) fn attempt(&self, address: SocketAddr) -> (Arc<Attempt>, bool) {
        match self.attempts.entry(address) {
            Entry::Occupied(entry) if entry.get().is_useful() => (Arc::clone(entry.get()), false),
            entry => (Arc::clone(&entry.insert(Arc::default())), true),
        }
    }

    /// Decides on a connection whose peer has said hello.
    ///
    /// # Errors
    /// Why the connection is refused.
    pub(crate) fn admit(
        &self,
        own: NodeId,
        core: &Arc<Core>,
        peer: &Peer,
    ) -> Result<Admission, CloseReason> {
        if peer.node == own {
            return Err(CloseReason::Violation("a peer with our own id"));
        }
        if peer.node.is_client() {
            // Clients listen nowhere, so that nobody can have connected to one.
            let violation = CloseReason::Violation("a client's id where a node listens");
            return if core.initiated { Err(violation) } else { Ok(Admission::Used) };
        }
        let hello = self.hellos.fetch_add(1, Ordering::Relaxed);
        self.forget_nodes(hello);
        let known = || Known { incarnation: peer.incarnation, connection: None, hello };
        let mut known = self.nodes.entry(peer.node).or_insert_with(known);
        if peer.incarnation < known.incarnation {
            return Err(CloseReason::StaleIncarnation {
                node: peer.node,
                stale: peer.incarnation,
                current: known.incarnation,
            });
        }
        let restarted = peer.incarnation > known.incarnation;
        known.incarnation = peer.incarnation;
        known.hello = hello;
        let existing = known.connection.take().filter(|c| c.closed().is_none());
        known.connection = Some(Arc::clone(core));
        let Some(existing) = existing else { return Ok(Admission::Used) };
        if restarted {
            drop(known);
            existing.close(CloseReason::PeerGone);
            return Ok(Admission::Used);
        }
        let ours_wins = own < peer.node;
        let keep_existing = match (existing.initiated, core.initiated) {
            (true, true) => true,
            (false, false) => false,
            (existing_is_ours, _) => existing_is_ours == ours_wins,
        };
        if keep_existing {
            known.connection = Some(Arc::clone(&existing));
            // The one that began a connection ends it.
            return Ok(if core.initiated {
                Admission::Replaced(existing)
            } else {
                Admission::Used
            });
        }
        if existing.initiated {
            existing.retired.store(true, Ordering::SeqCst);
        }
        Ok(Admission::Used)
    }

    /// Forgets a connection that has ended.
    pub(crate) fn forget(&self, core: &Arc<Core>) {
        if let Some(peer) = core.peer_if_greeted()
            && let Some(mut known) = self.nodes.get_mut(&peer.node)
        {
            known.connection.take_if(|known| Arc::ptr_eq(known, core));
        }
        if core.initiated {
            self.forget_attempt(core.address);
        }
    }

    /// Forgets the attempt for `address`, if it has ended and led to nothing.
    pub(crate) fn forget_attempt(&self, address: SocketAddr) {
        self.attempts.remove_if(&address, |_, attempt| !attempt.is_useful());
    }

    /// Whoever says hello can name any node. Incarnations of nodes that are not connected are kept
    /// for the last [`NODES_KEPT`] hellos at least, and no more than twice as many.
    fn forget_nodes(&self, hello: u64) {
        if hello.is_multiple_of(NODES_KEPT) && hello > 0 {
            let since = hello - NODES_KEPT;
            self.nodes.retain(|_, known| known.connection.is_some() || known.hello >= since);
        }
    }
}

impl Attempt {
    /// Whether it is under way, or led to a connection that can be used.
    fn is_useful(&self) -> bool {
        match &self.state.lock().outcome {
            None => true,
            Some(Ok(connection)) => {
                connection.is_open() && !connection.core.retired.load(Ordering::SeqCst)
            }
            Some(Err(_)) => false,
        }
    }

    /// Ends the attempt, for all who wait for it.
    pub(crate) fn finish(&self, outcome: Result<Connection, ConnectError>) {
        let waiting = {
            let mut state = self.state.lock();
            state.outcome.get_or_insert(outcome);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Waits for an attempt to end.
pub(crate) struct Attempted<'a>(pub(crate) &'a Attempt);

impl Future for Attempted<'_> {
    type Output = Result<Connection, ConnectError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match &state.outcome {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_said_hello_once_are_forgotten_and_those_that_come_back_are_not() {
        let registry = Registry::default();
        let hello = |node: u64| {
            let hello = registry.hellos.fetch_add(1, Ordering::Relaxed);
            registry.forget_nodes(hello);
            let known = Known { incarnation: Incarnation(1), connection: None, hello };
            registry.nodes.insert(NodeId(node), known);
        };
        for number in 0..NODES_KEPT * 10 {
            hello(1);
            hello(number + 2);
            assert!(registry.nodes.len() as u64 <= NODES_KEPT * 2);
            assert!(registry.nodes.contains_key(&NodeId(1)));
        }
    }

    #[test]
    fn an_attempt_that_failed_is_forgotten() {
        let registry = Registry::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let (attempt, fresh) = registry.attempt(address);
        assert!(fresh && !registry.attempt(address).1);
        registry.forget_attempt(address);
        assert_eq!(registry.attempts.len(), 1, "it is under way");
        attempt.finish(Err(ConnectError::ShutDown { address }));
        registry.forget_attempt(address);
        assert_eq!(registry.attempts.len(), 0);
    }
}
