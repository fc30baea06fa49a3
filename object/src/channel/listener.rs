//! What an endpoint's connections bring: channels, and graphs on them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use weft_transport::{
    Batch, Handler, Incarnation, Incoming, IncomingKind, Memory, NodeId, Purpose,
};

use super::inlet::{Inlet, Left, SEGMENT_COST};
use super::message::{Answer, HEADER_BYTES, Header, Kind, Status};
use super::received::WeakKept;
use super::receiver::GraphReceiver;
use crate::assembly::Limits;
use crate::types::{TOLD_COST, TOLD_MAX, Types};

/// Channels that wait to be accepted at most, and of one life of a node.
const WAITING_MAX: usize = 128;
const WAITING_OF_PEER_MAX: usize = 32;
/// Channels that one life of a node may have.
const CHANNELS_MAX: usize = 1024;

/// What a listener takes on each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLimits {
    /// Of one graph.
    pub per_graph: Limits,
    /// Bytes of graphs that may wait to be received, on each channel; 512 are counted for each message beside its own. On one that was accepted,
    /// a graph that is larger may come when all before it were received.
    pub granted_bytes: u64,
}

impl GraphLimits {
    /// What one graph can cost, its segments' share included.
    pub(super) fn cost_max(&self) -> u64 {
        let segments = u64::from(self.per_graph.pages).saturating_add(1);
        self.per_graph.bytes.saturating_add(segments.saturating_mul(SEGMENT_COST))
    }
}

impl Default for GraphLimits {
    /// Graphs of up to 1 GiB, of which 4 MiB may wait.
    fn default() -> Self {
        GraphLimits { per_graph: Limits::default(), granted_bytes: 4 << 20 }
    }
}

/// Takes graphs from whoever opens a channel: the handler of an endpoint, or a part of one that lets it [`take`](Self::take) what is
/// its own.
pub struct GraphListener {
    types: Types,
    limits: GraphLimits,
    memory: Memory,
    state: Mutex<State>,
    /// For those who tell it later.
    itself: Weak<GraphListener>,
}

/// Which life of which node opened a channel, and its number there.
pub(super) type ChannelId = (NodeId, Incarnation, u64);

#[derive(Default)]
struct State {
    channels: HashMap<ChannelId, Arc<Inlet>, RandomState>,
    waiting: VecDeque<ChannelId>,
    /// What the channels of a peer hold on to of the window, for as long as anything that came by one is used.
    kept: HashMap<(NodeId, Incarnation), WeakKept, RandomState>,
    /// Who waits to accept one, by number.
    wakers: Vec<(u64, Waker)>,
    accepts: u64,
}

impl GraphListener {
    /// A listener for graphs of these types. Copies of short segments take `memory`.
    pub fn new(types: &Types, limits: GraphLimits, memory: &Memory) -> Arc<GraphListener> {
        let (types, memory) = (types.clone(), memory.clone());
        Arc::new_cyclic(|itself| {
            let (state, itself) = (Mutex::default(), itself.clone());
            GraphListener { types, limits, memory, state, itself }
        })
    }

    /// The next channel that a sender has opened. One whose sender is gone has what it had sent whole; without any of that, it is not given.
    pub async fn accept(self: &Arc<Self>) -> GraphReceiver {
        let mut accepting = Accepting { listener: self, number: None };
        let (id, inlet) = poll_fn(|context| accepting.poll(context)).await;
        GraphReceiver::new(Arc::clone(self), id, inlet)
    }

    /// Gives up the channels that nobody has accepted, with what came by them. What they hold on to may hold on to the endpoint, and that to this.
    pub fn close(&self) {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let gone: Vec<_> = waiting.iter().filter_map(|id| state.channels.remove(id)).collect();
        drop(state);
        gone.iter().for_each(|inlet| inlet.leave());
    }

    /// Takes a message or call, if it is one of a sender of graphs. Gives back what is not: a call among that gets no reply here.
    pub fn take<'a>(&self, batch: &mut Batch<'_>, incoming: Incoming<'a>) -> Option<Incoming<'a>> {
        match Header::decode(incoming.body) {
            Some(header) => {
                self.work_off(header, batch, incoming);
                None
            }
            None => Some(incoming),
        }
    }

    fn work_off(&self, header: Header, batch: &mut Batch<'_>, mut incoming: Incoming<'_>) {
        let peer = batch.peer();
        let id = (peer.node, peer.incarnation, header.channel);
        let (number, kind) = (header.number, incoming.kind);
        let IncomingKind::Call(call) = kind else {
            let Some(inlet) = self.inlet(id) else { return };
            match header.kind {
                Kind::Segments => inlet.take(incoming, number, header.index),
                // What was not accepted can still be, if there is something to receive.
                Kind::Close => {
                    inlet.close(number, header.index != 0);
                    if number == 0 {
                        self.forget_unaccepted(id);
                    }
                }
                _ => {}
            }
            return;
        };
        let answer = match (header.kind, self.inlet(id)) {
            (Kind::Open, _) => Some(self.open(batch, id, &incoming.body[HEADER_BYTES..])),
            (_, None) => Some(Answer::failed(Status::Closed, String::new())),
            (Kind::Last, Some(inlet)) => {
                // A graph of one segment is there when that is; others may still be on their way, and are answered later.
                let responder = (header.index > 0).then(|| incoming.responder()).flatten();
                inlet.take(incoming, number, header.index);
                match responder {
                    None => inlet.answer(number, || None),
                    Some(responder) => return later(&inlet, number, responder),
                }
            }
            (Kind::Held, Some(inlet)) => inlet.answer(number, || incoming.responder()),
            (Kind::More, Some(inlet)) => inlet.ask(number, || incoming.responder()),
            (Kind::Segments | Kind::Close, Some(_)) => {
                Some(Answer::failed(Status::Refused, "a call for a message".to_owned()))
            }
        };
        if let Some(answer) = answer {
            let (head, words) = answer.encode();
            batch.reply(call, [&head[..], words]);
        }
    }

    fn inlet(&self, id: ChannelId) -> Option<Arc<Inlet>> {
        self.state.lock().channels.get(&id).cloned()
    }

    fn open(&self, batch: &Batch<'_>, id: ChannelId, told: &[u8]) -> Answer {
        if told.len() > TOLD_MAX {
            let words = format!("a list of types of {} bytes, at most {TOLD_MAX}", told.len());
            return Answer::failed(Status::TypesDiffer, words);
        }
        let peer = (id.0, id.1);
        let is_of_peer = |(node, life, _): &&ChannelId| (*node, *life) == peer;
        let mut state = self.state.lock();
        let count = state.channels.keys().filter(is_of_peer).count();
        let waiting = state.waiting.iter().filter(is_of_peer).count();
        if state.waiting.len() >= WAITING_MAX
            || waiting >= WAITING_OF_PEER_MAX
            || count >= CHANNELS_MAX
            || state.channels.contains_key(&id)
        {
            return Answer::failed(Status::TooMany, String::new());
        }
        let charge = self.memory.charge(TOLD_COST * told.len() as u64, Purpose::Receive);
        let Ok(charge) = charge else { return Answer::failed(Status::TooMany, String::new()) };
        let types = match self.types.agree(told) {
            Ok(types) => types,
            Err(differ) => return Answer::failed(Status::TypesDiffer, differ.to_string()),
        };
        state.kept.retain(|_, kept| kept.is_used());
        let kept = state.kept.get(&peer).and_then(WeakKept::upgrade).unwrap_or_default();
        state.kept.insert(peer, kept.downgrade());
        let connection = batch.connection();
        let inlet =
            Arc::new(Inlet::new(connection, (types, charge), self.limits, (&self.memory, kept)));
        let granted = inlet.granted();
        state.channels.insert(id, Arc::clone(&inlet));
        state.waiting.push_back(id);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        self.watch(id, &inlet);
        Answer::done(granted)
    }

    /// The connection of a channel has ended. If nobody has accepted that, it is kept for what had come whole, unless this side has
    /// ended the connection: who has shut down accepts nothing.
    fn peer_gone(&self, id: ChannelId) {
        let Some(inlet) = self.inlet(id) else { return };
        match inlet.leave_connection() {
            Left::GoesOn => self.watch(id, &inlet),
            Left::Readable => {}
            Left::Empty => self.forget_unaccepted(id),
        }
    }

    /// Gives up a channel that has nothing to give, if nobody has accepted it.
    fn forget_unaccepted(&self, id: ChannelId) {
        let mut state = self.state.lock();
        if state.waiting.contains(&id) {
            state.waiting.retain(|waiting| *waiting != id);
            let gone = state.channels.remove(&id);
            drop(state);
            drop(gone);
        }
    }

    /// Has [`peer_gone`](Self::peer_gone) called when the connection ends.
    fn watch(&self, id: ChannelId, inlet: &Inlet) {
        inlet.watch(Waker::from(Arc::new(Gone { listener: self.itself.clone(), id })));
    }

    /// Nobody receives from it any more.
    pub(super) fn forget(&self, id: ChannelId) {
        self.state.lock().channels.remove(&id);
    }
}

/// Answers when all of a graph is there.
fn later(inlet: &Inlet, number: u64, responder: weft_transport::Responder) {
    let mut responder = Some(responder);
    let answer = inlet.answer(number, || responder.take());
    if let (Some(answer), Some(responder)) = (answer, responder) {
        super::inlet::reply(responder, &answer);
    }
}

/// Waits for a channel to accept, and leaves no waker behind.
struct Accepting<'a> {
    listener: &'a GraphListener,
    number: Option<u64>,
}

impl Accepting<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(ChannelId, Arc<Inlet>)> {
        let mut state = self.listener.state.lock();
        while let Some(id) = state.waiting.pop_front() {
            if let Some(inlet) = state.channels.get(&id) {
                return Poll::Ready((id, Arc::clone(inlet)));
            }
        }
        let number = *self.number.get_or_insert_with(|| {
            state.accepts += 1;
            state.accepts
        });
        match state.wakers.iter_mut().find(|(waiting, _)| *waiting == number) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => state.wakers.push((number, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.listener.state.lock();
        let at = state.wakers.iter().position(|(waiting, _)| *waiting == number);
        let waker = at.map(|at| state.wakers.swap_remove(at));
        drop(state);
        drop(waker);
    }
}

/// Tells a listener that the connection of a channel has ended.
struct Gone {
    listener: Weak<GraphListener>,
    id: ChannelId,
}

impl Wake for Gone {
    fn wake(self: Arc<Self>) {
        if let Some(listener) = self.listener.upgrade() {
            listener.peer_gone(self.id);
        }
    }
}

impl Handler for GraphListener {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let _ = self.take(batch, incoming);
        }
    }
}

impl fmt::Debug for GraphListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channels = self.state.lock().channels.len();
        f.debug_struct("GraphListener").field("channels", &channels).finish_non_exhaustive()
    }
}
