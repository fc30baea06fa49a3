//! The nodes that this one shares partitions with: a connection each, and what waits for room on it.
//!
//! Messages between replicas are sent by whoever has made them, on the thread that holds the partition: none waits. What finds no room waits in the
//! node's outbox, in order, for the [pump](Link::pump); and what does not fit there is dropped, as the network might have: replicas send it again. What is
//! too long for one message goes from there in parts.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, RwLock};
use weft_protocol::Member;
use weft_protocol::replication::{Part, PeerMessage};
use weft_transport::limits::MESSAGE_MAX;
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
    /// What may overtake what is in the outbox.
    express: VecDeque<Box<[u8]>>,
    outbox: VecDeque<Box<[u8]>>,
    /// Of both.
    outbox_bytes: usize,
    /// Something of the outbox is being sent, and nothing may overtake it but what is of the express.
    is_sending: bool,
    has_ended: bool,
    pump: Option<Waker>,
}

/// What a message may overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// Everything. Leases run out while they wait behind an entry of 64 MiB.
    Express,
    /// Nothing: replicas ask for what they miss, and have it sent again.
    InOrder,
}

impl Lane {
    fn of(message: &PeerMessage<'_>) -> Lane {
        // About no partition.
        match message.partition() {
            None => Lane::Express,
            Some(_) => Lane::InOrder,
        }
    }
}

impl Peers {
    /// There is a connection to a node, in the place of the one before.
    pub(crate) fn connected(&self, connection: Connection) -> Arc<Link> {
        let peer = connection.peer();
        let member = Member { node: peer.node, incarnation: peer.incarnation };
        let state = State {
            connection: connection.for_replication(),
            express: VecDeque::new(),
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

    /// Knows of no connection any more. Each holds its endpoint, which holds what this is of.
    pub(crate) fn forget(&self) {
        std::mem::take(&mut *self.links.write()).values().for_each(|link| link.end());
    }

    /// Sends a message to a member, if there is a connection to that life of the node. Waits for nobody.
    pub(crate) fn send(&self, to: Member, message: PeerMessage<'_>) {
        let links = self.links.read();
        if let Some(link) = links.get(&to.node)
            && link.member == to
        {
            link.send(message);
        }
    }

    /// Sends a message to a node, whichever life of it there is a connection to: for what says itself whom it is for. Waits for nobody.
    /// Returns whether there is one.
    pub(crate) fn send_to_node(&self, to: NodeId, message: PeerMessage<'_>) -> bool {
        let links = self.links.read();
        let link = links.get(&to);
        if let Some(link) = link {
            link.send(message);
        }
        link.is_some()
    }

    /// The nodes whose connection has ended, and none is known that took its place.
    pub(crate) fn cut_off(&self) -> Vec<Member> {
        let links = self.links.read();
        let cut_off = links.values().filter(|link| {
            let mut state = link.state.lock();
            if !state.connection.is_open() {
                state.follow();
            }
            !state.connection.is_open()
        });
        cut_off.map(|link| link.member).collect()
    }

    /// Who is connected.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.links.read().values().map(|link| link.member).collect()
    }
}

impl Link {
    fn send(&self, message: PeerMessage<'_>) {
        let lane = Lane::of(&message);
        let mut state = self.state.lock();
        if state.is_free(lane) {
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
        match lane {
            Lane::Express => state.express.push_back(bytes),
            Lane::InOrder => state.outbox.push_back(bytes),
        }
        if let Some(pump) = state.pump.take() {
            drop(state);
            pump.wake();
        }
    }

    /// Sends what waits for room, until the node is gone.
    pub(crate) async fn pump(self: Arc<Link>) {
        let mut long: Option<LongMessage> = None;
        loop {
            let next = poll_fn(|context| self.state.lock().next(&mut long, context));
            let Some((connection, next)) = next.await else { return };
            // What was lost with a connection is sent again by who misses an answer.
            let sent = match &next {
                Next::Whole(bytes) => connection.send(&bytes[..]).await,
                Next::Part(long) => connection.send(PeerMessage::Part(long.part())).await,
            };
            if let (Next::Part(mut begun), Ok(())) = (next, sent) {
                begun.offset += begun.part().bytes.len();
                long = (begun.offset < begun.bytes.len()).then_some(begun);
            }
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

/// What the pump sends next.
enum Next {
    Whole(Box<[u8]>),
    Part(LongMessage),
}

/// A message that is too long to be sent whole, and how much of it was.
struct LongMessage {
    bytes: Box<[u8]>,
    offset: usize,
}

impl LongMessage {
    fn part(&self) -> Part<'_> {
        let rest = &self.bytes[self.offset..];
        let bytes = &rest[..rest.len().min(Part::BYTES_MAX)];
        Part { total: self.bytes.len(), offset: self.offset, bytes }
    }
}

impl State {
    /// Whether nothing waits that a message of this lane may not overtake.
    fn is_free(&self, lane: Lane) -> bool {
        match lane {
            Lane::Express => self.express.is_empty(),
            Lane::InOrder => !self.is_sending && self.outbox.is_empty(),
        }
    }

    /// What is to be sent next, and by which connection; nothing once the node is gone.
    fn next(
        &mut self,
        long: &mut Option<LongMessage>,
        context: &Context<'_>,
    ) -> Poll<Option<(Connection, Next)>> {
        self.is_sending = long.is_some();
        if self.has_ended {
            return Poll::Ready(None);
        }
        if !self.connection.is_open() {
            // Of a message in parts the rest is of no use.
            (*long, self.is_sending) = (None, false);
            self.follow();
        }
        let next = if let Some(bytes) = self.express.pop_front() {
            self.outbox_bytes -= bytes.len();
            Next::Whole(bytes)
        } else if let Some(begun) = long.take() {
            Next::Part(begun)
        } else if let Some(bytes) = self.outbox.pop_front() {
            self.outbox_bytes -= bytes.len();
            self.is_sending = true;
            match bytes.len() > MESSAGE_MAX {
                true => Next::Part(LongMessage { bytes, offset: 0 }),
                false => Next::Whole(bytes),
            }
        } else {
            self.pump = Some(context.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(Some((self.connection.clone(), next)))
    }

    /// Goes on by the connection that took the place of the one at hand, if one did: of two that nodes have made to each other, one makes way.
    fn follow(&mut self) {
        if let Some(successor) = self.connection.successor() {
            self.connection = successor.for_replication();
        }
    }
}
