//! What is told of nodes: found, connected, lost.
//!
//! Whoever wants to know has a queue, from which they take at their own pace. So nobody is called while
//! a lock is held, and nobody who is slow holds up a reactor: who falls too far behind misses the
//! oldest events, and is told how many.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use crate::catching;
use crate::connection::Peer;
use crate::error::CloseReason;
use crate::limits::EVENTS_MAX;
use crate::sync::Mutex;

/// What has become of a node. Of one node, events come in the order in which things happened: found,
/// then connected and lost in turn, then found again when it has a new life.
///
/// Clients, which are no nodes, are not told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// This life of the node has said hello for the first time.
    Found(Peer),
    /// There is a connection to it, whoever began it. Calls may be made on it from now on.
    Connected(Peer),
    /// There is none any more.
    Lost {
        /// The node, as it had been connected.
        peer: Peer,
        /// What the connection ended with. One that made way for others ends with
        /// [`CloseReason::Evicted`], one to an earlier life of the node with
        /// [`CloseReason::StaleIncarnation`].
        reason: CloseReason,
    },
    /// So many events were not taken in time and are gone;
    /// [`ConnectionManager::connected`](crate::ConnectionManager::connected) tells how things stand.
    Missed(u64),
}

/// The events of an endpoint's nodes from one moment on; see
/// [`ConnectionManager::events`](crate::ConnectionManager::events).
#[derive(Debug)]
pub struct NodeEvents {
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<NodeEvent>,
    missed: u64,
    waker: Option<Waker>,
    ended: bool,
}

impl NodeEvents {
    /// The next event, as soon as there is one; none after the endpoint has been [shut down](crate::Endpoint::shutdown)
    /// and what was told by then has been taken.
    #[expect(clippy::should_implement_trait, reason = "an asynchronous iterator's usual name")]
    pub fn next(&mut self) -> impl Future<Output = Option<NodeEvent>> + '_ {
        std::future::poll_fn(|context| {
            let mut queue = self.queue.lock();
            if queue.missed > 0 {
                return Poll::Ready(Some(NodeEvent::Missed(std::mem::take(&mut queue.missed))));
            }
            match queue.events.pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None if queue.ended => Poll::Ready(None),
                None => {
                    queue.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

/// Those who want to know.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    state: Mutex<ListenersState>,
}

#[derive(Debug, Default)]
struct ListenersState {
    queues: Vec<Weak<Mutex<Queue>>>,
    ended: bool,
}

impl Listeners {
    /// One more. If nothing more will happen, it is told so.
    pub(super) fn join(&self) -> NodeEvents {
        let mut state = self.state.lock();
        let queue = Arc::new(Mutex::new(Queue { ended: state.ended, ..Queue::default() }));
        state.queues.push(Arc::downgrade(&queue));
        NodeEvents { queue }
    }

    /// Tells everybody. Who waits is to be woken when no lock is held any more.
    pub(super) fn tell(&self, event: &NodeEvent, wakers: &mut Vec<Waker>) {
        self.state.lock().for_each(|queue| {
            if queue.events.len() == EVENTS_MAX {
                queue.events.pop_front();
                queue.missed += 1;
            }
            queue.events.push_back(event.clone());
            wakers.extend(queue.waker.take());
        });
    }

    /// Nothing more will happen.
    pub(super) fn end(&self) {
        let mut wakers = Vec::new();
        let mut state = self.state.lock();
        state.ended = true;
        state.for_each(|queue| {
            queue.ended = true;
            wakers.extend(queue.waker.take());
        });
        drop(state);
        wakers.into_iter().for_each(catching::wake);
    }
}

impl ListenersState {
    fn for_each(&mut self, mut change: impl FnMut(&mut Queue)) {
        self.queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                change(&mut queue.lock());
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures_util::FutureExt;

    use super::*;
    use crate::identity::{Incarnation, NodeId};

    fn found(number: usize) -> NodeEvent {
        let address = SocketAddr::from(([10, 0, 0, 1], 7400));
        let (node, incarnation) = (NodeId(number as u64), Incarnation(1));
        NodeEvent::Found(Peer { node, incarnation, address })
    }

    fn tell(listeners: &Listeners, number: usize) {
        listeners.tell(&found(number), &mut Vec::new());
    }

    #[test]
    fn everybody_is_told_in_order_from_when_they_join() {
        let listeners = Listeners::default();
        let mut early = listeners.join();
        tell(&listeners, 1);
        let mut late = listeners.join();
        tell(&listeners, 2);
        let next = |events: &mut NodeEvents| events.next().now_or_never();
        assert_eq!([next(&mut early), next(&mut early)], [1, 2].map(|n| Some(Some(found(n)))));
        assert_eq!(next(&mut late), Some(Some(found(2))));
        assert_eq!(next(&mut late), None);
        listeners.end();
        assert_eq!([next(&mut early), next(&mut late)], [Some(None), Some(None)]);
        assert_eq!(next(&mut listeners.join()), Some(None), "too late for anything");
    }

    #[test]
    fn who_falls_behind_misses_the_oldest_and_is_told() {
        let listeners = Listeners::default();
        let mut events = listeners.join();
        (0..EVENTS_MAX + 3).for_each(|number| tell(&listeners, number));
        let mut next = || events.next().now_or_never().flatten();
        assert_eq!(next(), Some(NodeEvent::Missed(3)));
        for number in 3..EVENTS_MAX + 3 {
            assert_eq!(next(), Some(found(number)));
        }
        assert_eq!(next(), None);
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let listeners = Listeners::default();
        drop(listeners.join());
        tell(&listeners, 1);
        assert!(listeners.state.lock().queues.is_empty());
    }
}
