//! The nodes that this one shares partitions with: a connection each, and what waits for room on it.
//!
//! Messages between replicas are sent by whoever has made them, on the thread that holds the partition: none waits. What finds no room waits in the
//! node's outbox, in order, for the [pump](Link::pump); and what does not fit there is dropped, as the network might have: replicas send it again.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, RwLock};
use weft_protocol::Member;
use weft_protocol::replication::PeerMessage;
use weft_transport::{Body, Connection, NodeId};

use crate::limits::OUTBOX_BYTES;

/// The other nodes, by id.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    links: RwLock<BTreeMap<NodeId, Arc<Link>>>,
}

/// The way to one life of a node.
#[derive(Debug)]
pub(crate) struct Link {
    member: Member,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Connection,
    outbox: VecDeque<Box<[u8]>>,
    outbox_bytes: usize,
    /// Something of the outbox is being sent, and nothing may overtake it.
    is_sending: bool,
    has_ended: bool,
    pump: Option<Waker>,
}

impl Peers {
    /// There is a connection to a node, in the place of the one before.
    pub(crate) fn connected(&self, connection: Connection) -> Arc<Link> {
        let peer = connection.peer();
        let member = Member { node: peer.node, incarnation: peer.incarnation };
        let state = State {
            connection: connection.for_replication(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            is_sending: false,
            has_ended: false,
            pump: None,
        };
        let link = Arc::new(Link { member, state: Mutex::new(state) });
        if let Some(former) = self.links.write().insert(member.node, Arc::clone(&link)) {
            former.end();
        }
        link
    }

    /// There is no connection to a node any more.
    pub(crate) fn lost(&self, node: NodeId) {
        if let Some(link) = self.links.write().remove(&node) {
            link.end();
        }
    }

    /// Sends a message to a member, if there is a connection to that life of the node. Waits for nobody.
    pub(crate) fn send(&self, to: Member, message: PeerMessage<'_>) {
        let link = self.links.read().get(&to.node).cloned();
        if let Some(link) = link
            && link.member == to
        {
            link.send(message);
        }
    }

    /// Sends a message to a node, whichever life of it there is a connection to: for what says itself whom it is for. Waits for nobody.
    pub(crate) fn send_to_node(&self, to: NodeId, message: PeerMessage<'_>) {
        let link = self.links.read().get(&to).cloned();
        if let Some(link) = link {
            link.send(message);
        }
    }

    /// Who is connected.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.links.read().values().map(|link| link.member).collect()
    }
}

impl Link {
    fn send(&self, message: PeerMessage<'_>) {
        let mut state = self.state.lock();
        if !state.is_sending && state.outbox.is_empty() {
            if !state.connection.is_open() {
                state.follow();
            }
            match state.connection.try_send(message, &mut None) {
                // Whoever is gone is told nothing.
                Poll::Ready(_) => return,
                Poll::Pending => {}
            }
        }
        let len = message.encoded_len();
        if state.outbox_bytes + len > OUTBOX_BYTES && state.outbox_bytes > 0 {
            return;
        }
        let mut bytes = vec![0; len].into_boxed_slice();
        message.write(&mut bytes);
        state.outbox_bytes += len;
        state.outbox.push_back(bytes);
        if let Some(pump) = state.pump.take() {
            drop(state);
            pump.wake();
        }
    }

    /// Sends what waits for room, until the node is gone.
    pub(crate) async fn pump(self: Arc<Link>) {
        loop {
            let next = poll_fn(|context| {
                let mut state = self.state.lock();
                state.is_sending = false;
                if state.has_ended {
                    return Poll::Ready(None);
                }
                let Some(bytes) = state.outbox.pop_front() else {
                    state.pump = Some(context.waker().clone());
                    return Poll::Pending;
                };
                if !state.connection.is_open() {
                    state.follow();
                }
                state.outbox_bytes -= bytes.len();
                state.is_sending = true;
                Poll::Ready(Some((state.connection.clone(), bytes)))
            });
            let Some((connection, bytes)) = next.await else { return };
            // What was lost with a connection is sent again by who misses an answer.
            let _ = connection.send(&bytes[..]).await;
        }
    }

    /// There is no connection any more.
    fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        if let Some(pump) = state.pump.take() {
            drop(state);
            pump.wake();
        }
    }
}

impl State {
    /// Goes on by the connection that took the place of the one at hand, if one did: of two that nodes have made to each other, one makes way.
    fn follow(&mut self) {
        if let Some(successor) = self.connection.successor() {
            self.connection = successor.for_replication();
        }
    }
}
