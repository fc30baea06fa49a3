//! Which nodes this endpoint knows and is connected to (DESIGN T11).
//!
//! Many threads that ask for one address make one attempt and all wait for it; no other address
//! waits with them. Two nodes that connect to each other at the same moment keep the connection
//! that the node with the lower id began. A hello from an older life of a node is refused.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use dashmap::{DashMap, Entry};
use parking_lot::Mutex;

use crate::connection::{Connection, Core, Peer};
use crate::error::{CloseReason, ConnectError};
use crate::identity::{Incarnation, NodeId};

/// The attempts and the nodes of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    attempts: DashMap<SocketAddr, Arc<Attempt>>,
    nodes: DashMap<NodeId, Known>,
}

#[derive(Debug)]
struct Known {
    incarnation: Incarnation,
    connection: Option<Arc<Core>>,
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
        if peer.node.is_client() {
            return Ok(Admission::Used);
        }
        let known = || Known { incarnation: peer.incarnation, connection: None };
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
            self.attempts.remove_if(&core.address, |_, attempt| !attempt.is_useful());
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
