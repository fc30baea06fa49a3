//! What an endpoint's connections bring: channels, and graphs on them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use weft_transport::{Batch, Handler, Incarnation, Incoming, IncomingKind, Memory, NodeId};

use super::inlet::Inlet;
use super::message::{Answer, HEADER_BYTES, Header, Kind, Status};
use super::received::Kept;
use super::receiver::GraphReceiver;
use crate::assembly::Limits;
use crate::types::Types;

/// Channels that wait to be accepted at most.
const WAITING_MAX: usize = 128;
/// Channels that one life of a node may have.
const CHANNELS_MAX: usize = 1024;

/// What a listener takes on each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLimits {
    /// Of one graph.
    pub per_graph: Limits,
    /// Bytes of graphs that may wait to be received; 512 are counted for each segment beside its own.
    pub granted_bytes: u64,
}

impl GraphLimits {
    /// Bytes that may have been granted and not received: of those that wait, and of one that is larger.
    pub(super) fn together_bytes(&self) -> u64 {
        self.per_graph.bytes.saturating_add(self.granted_bytes)
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
}

/// Which life of which node opened a channel, and its number there.
pub(super) type ChannelId = (NodeId, Incarnation, u64);

#[derive(Default)]
struct State {
    channels: HashMap<ChannelId, Arc<Inlet>, RandomState>,
    waiting: VecDeque<ChannelId>,
    waker: Option<Waker>,
}

impl GraphListener {
    /// A listener for graphs of these types. Copies of short segments take `memory`.
    pub fn new(types: &Types, limits: GraphLimits, memory: &Memory) -> Arc<GraphListener> {
        let (types, memory) = (types.clone(), memory.clone());
        Arc::new(GraphListener { types, limits, memory, state: Mutex::default() })
    }

    /// The next channel that a sender has opened.
    pub async fn accept(self: &Arc<Self>) -> GraphReceiver {
        let (id, inlet) = poll_fn(|context| {
            let mut state = self.state.lock();
            while let Some(id) = state.waiting.pop_front() {
                if let Some(inlet) = state.channels.get(&id) {
                    return Poll::Ready((id, Arc::clone(inlet)));
                }
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        GraphReceiver::new(Arc::clone(self), id, inlet)
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
                Kind::Segment => inlet.take(incoming, number, header.index),
                // What was not accepted can still be.
                Kind::Close => inlet.close(number, header.index != 0),
                _ => {}
            }
            return;
        };
        let answer = match (header.kind, self.inlet(id)) {
            (Kind::Open, _) => Some(self.open(batch, id, &incoming.body[HEADER_BYTES..])),
            (_, None) => Some(Answer::failed(Status::Closed, String::new())),
            (Kind::Last, Some(inlet)) => {
                let mut responder = None;
                // The last of a graph is rarely there before the others, so a responder, which costs more than a reply, is rarely needed.
                if header.index > 0 {
                    responder = incoming.responder();
                }
                inlet.take(incoming, number, header.index);
                match responder {
                    None => inlet.answer(number, || None),
                    Some(responder) => return later(&inlet, number, responder),
                }
            }
            (Kind::Held, Some(inlet)) => inlet.answer(number, || incoming.responder()),
            (Kind::More, Some(inlet)) => inlet.ask(number, || incoming.responder()),
            (Kind::Segment | Kind::Close, Some(_)) => {
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
        let types = match self.types.agree(told) {
            Ok(types) => types,
            Err(differ) => return Answer::failed(Status::TypesDiffer, differ.to_string()),
        };
        let mut state = self.state.lock();
        let State { channels, waiting, waker } = &mut *state;
        // Of whoever is gone before being accepted nobody has said so.
        if waiting.len() >= WAITING_MAX {
            waiting.retain(|id| {
                let is_there = channels.get(id).is_some_and(|inlet| inlet.connection.is_open());
                if !is_there {
                    channels.remove(id);
                }
                is_there
            });
        }
        let is_of_peer = |(node, life, _): &ChannelId| (*node, *life) == (id.0, id.1);
        let of_peer = || channels.iter().filter(|(id, _)| is_of_peer(id));
        if waiting.len() >= WAITING_MAX
            || channels.contains_key(&id)
            || of_peer().count() >= CHANNELS_MAX
        {
            return Answer::failed(Status::TooMany, String::new());
        }
        let kept = of_peer().next().map_or_else(Kept::default, |(_, inlet)| inlet.kept.clone());
        let inlet = Inlet::new(batch.connection(), types, self.limits, (self.memory.clone(), kept));
        let granted = inlet.granted();
        channels.insert(id, Arc::new(inlet));
        waiting.push_back(id);
        let waker = waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Answer::done(granted)
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
