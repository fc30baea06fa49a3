//! What a server implements: one call for all that arrived together on a connection.

mod bodies;
mod messages;
mod pool;
mod responder;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::body::Body;
use crate::connection::{Connection, Core, Peer, Untaken, write_head};
use crate::error::CloseReason;
use crate::frame::{Class, Kind, frame_len};
use crate::lane::{Mark, Producer};
use crate::limits::{LARGE_MAX, MESSAGE_MAX, RETAINED_SHARE};
use crate::memory::{Charge, Memory, MemoryError, Purpose, Shared};
use crate::reactor::again;
use crate::session::departures::{ANNOUNCEMENT_COST, Departure};
use crate::session::inbound::FrameRef;
use crate::session::outbound::Unannounced;
use crate::session::record::write_record;
use crate::time::Time;

pub use self::messages::RetainedMessages;
pub use self::pool::{HandlerPool, MessageHandler, PooledMessages};
pub use self::responder::Responder;

/// Handles requests and messages, to completion, on the thread that received them.
pub trait Handler: Send + Sync + 'static {
    /// Handles a batch: takes what is in it with [`Batch::next`] until there is nothing more.
    /// What blocks holds up all connections of the reactor, so it belongs on another thread: a [`HandlerPool`] has
    /// some, and a [`Responder`] replies from any.
    ///
    /// If it panics, the connection that the batch came by ends, and what else has come by it is not handled. Everything else goes on, also on the thread that it
    /// ran on. The panic is logged, and [`Endpoint::shutdown`](crate::Endpoint::shutdown) panics for it as a rule; of a simulated endpoint, a
    /// [`turn`](crate::Endpoint::turn) does that runs it.
    fn handle(&self, batch: &mut Batch<'_>);
}

/// Handles nothing: requests get no reply, and messages are dropped. For endpoints that only call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHandler;

impl Handler for NoHandler {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {}
    }
}

/// Names a call towards the connection that it came on, for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallId(u64);

/// Whether something incoming wants a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncomingKind {
    /// It does, under this id.
    Call(CallId),
    /// It does not.
    Message,
}

/// A request or a message, read where it was received.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Whether it wants a reply.
    pub kind: IncomingKind,
    /// Its body.
    pub body: &'a [u8],
    range: Range<usize>,
    /// What of the window goes back with it.
    cost: u64,
    class: Class,
    has_responder: bool,
    held: &'a Held<'a>,
}

/// An incoming body that is kept beyond the handler. Its credit goes back when it is dropped.
#[derive(Debug)]
pub struct Retained {
    bytes: RetainedBytes,
    core: Arc<Core>,
    class: Class,
    cost: u64,
    /// Memory that it keeps, in bytes.
    kept: u64,
}

#[derive(Debug)]
enum RetainedBytes {
    /// A copy on the heap, which the limit counts.
    Copied(Box<[u8]>, #[expect(dead_code, reason = "it counts for as long as it lives")] Charge),
    /// A part of a receive buffer, which the limit counts as a whole.
    Received(Shared),
}

/// Where a batch's frames lie, and what has been retained of them.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) source: Source<'a>,
    /// Credit that retained bodies hold back, a class.
    pub(crate) retained: [Cell<u64>; 3],
    /// What is streamed behind the one frame that it has then.
    pub(crate) body: Option<&'a Untaken>,
}

/// Where received bytes lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// In a receive buffer, which can be held on to.
    Buffer(&'a Shared),
    /// In a copy that was made because replies had no room.
    Copy(&'a [u8]),
}

impl<'a> Source<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Buffer(buffer) => buffer,
            Self::Copy(bytes) => bytes,
        }
    }
}

/// What arrived together on one connection. Replies are sent when the handler returns, in one
/// write.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) held: &'a Held<'a>,
    pub(crate) frames: &'a [FrameRef],
    pub(crate) taken: usize,
    pub(crate) lane: &'a mut Option<Producer>,
    /// The lane, if replies were written to it.
    pub(crate) unannounced: Unannounced,
    /// A reply could not be given: the connection has to end, or its caller would wait for ever.
    pub(crate) failed: Option<CloseReason>,
}

impl<'a> Batch<'a> {
    /// The next request or message. Nothing, when the batch is done or when there is no room for
    /// another reply; in that case what is left comes again, once there is room. There is none while 16 MiB of
    /// memory that was taken for large replies waits to be sent, or a thousand replies that lie elsewhere.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "replies are given between two items")]
    pub fn next(&mut self) -> Option<Incoming<'a>> {
        let frame = self.frames.get(self.taken)?;
        let core = self.held.core;
        if self.reply_room() < MESSAGE_MAX
            || core.session.departures.is_full_or_wakes(|| again(core))
        {
            return None;
        }
        self.taken += 1;
        let kind = match frame.kind {
            Kind::Request => IncomingKind::Call(CallId(frame.id)),
            _ => IncomingKind::Message,
        };
        let body = &self.held.source.bytes()[frame.body.clone()];
        let (range, cost, class) = (frame.body.clone(), frame.cost(), frame.class);
        Some(Incoming { kind, body, range, cost, class, has_responder: false, held: self.held })
    }

    /// Gives the last `count` items that were taken back, untouched: they come again, once there is
    /// room. For handlers that take several items before they reply to the first.
    ///
    /// # Panics
    /// If fewer have been taken.
    pub fn give_back(&mut self, count: usize) {
        self.taken = self.taken.checked_sub(count).expect("no more is given back than was taken");
    }

    /// How many requests and messages are left, room or not.
    pub fn remaining(&self) -> usize {
        self.frames.len() - self.taken
    }

    /// Who sent it.
    pub fn peer(&self) -> &Peer {
        self.held.core.peer()
    }

    /// The connection that it came by, to call back whoever sent it, or to wait for its end. Whoever waits for an answer does so
    /// elsewhere than in the handler, which would hold up the answer.
    pub fn connection(&self) -> Connection {
        Connection::new(Arc::clone(self.held.core))
    }

    /// The endpoint's memory, from which what is kept for whoever sent it may be taken.
    pub fn memory(&self) -> &Memory {
        &self.held.core.memory
    }

    /// The time now, by the endpoint's clock.
    pub fn now(&self) -> Time {
        self.held.core.clock.now()
    }

    /// The longest reply that the peer takes, in bytes: [`LARGE_MAX`], or [`MESSAGE_MAX`] if it knows
    /// nothing of longer ones.
    pub fn reply_max(&self) -> usize {
        self.held.core.session.departures.body_max()
    }

    /// Bytes of one reply body up to [`MESSAGE_MAX`] that certainly fit now. A longer one takes next to
    /// nothing of it.
    #[inline]
    pub fn reply_room(&self) -> usize {
        let room = self.held.core.session.send_credit.room(Class::Reply);
        usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(frame_len(0) + 8)
    }

    /// The last or only reply to `call`. One above [`MESSAGE_MAX`] bytes is written into a block of its
    /// own and sent in chunks as far as the peer has memory for it, while others go on; at least one is
    /// taken whenever [`next`](Self::next) has given something. If there is no memory for it, or it is longer than
    /// [`LARGE_MAX`] bytes, which is logged as an error, the call fails at its caller
    /// ([`CallError::Unanswered`](crate::CallError::Unanswered)): such a body is for [`reply_body`](Self::reply_body).
    /// A peer that can be sent less than that ([`reply_max`](Self::reply_max)) is disconnected for a reply that is longer.
    ///
    /// # Panics
    /// If [`next`](Self::next) has not given something to reply to since the last reply, and `body` is longer than
    /// [`reply_room`](Self::reply_room).
    #[inline]
    pub fn reply(&mut self, call: CallId, body: impl Body) {
        self.write(call, body, None, false);
    }

    /// As [`reply`](Self::reply). Returns whether it was taken: if not, the call fails at its caller, or the connection ends, and nobody gets any of it.
    ///
    /// # Panics
    /// See [`reply`](Self::reply).
    #[inline]
    pub fn try_reply(&mut self, call: CallId, body: impl Body) -> bool {
        self.write(call, body, None, false)
    }

    /// A reply to `call` after which more come.
    ///
    /// # Panics
    /// See [`reply`](Self::reply).
    pub fn reply_part(&mut self, call: CallId, body: impl Body) {
        self.write(call, body, None, true);
    }

    /// The last or only reply to `call`: `head`, which is copied, then `tail`, which is gathered
    /// from where it lies and held until it has been sent.
    ///
    /// # Panics
    /// See [`reply`](Self::reply).
    pub fn reply_shared(&mut self, call: CallId, head: impl Body, tail: Shared) {
        self.write(call, head, Some(tail), false);
    }

    /// As [`reply_shared`](Self::reply_shared), with more to come.
    ///
    /// # Panics
    /// See [`reply`](Self::reply).
    pub fn reply_part_shared(&mut self, call: CallId, head: impl Body, tail: Shared) {
        self.write(call, head, Some(tail), true);
    }

    #[inline]
    fn write(&mut self, call: CallId, body: impl Body, tail: Option<Shared>, more: bool) -> bool {
        let core = self.held.core;
        let len = body.len() + tail.as_ref().map_or(0, |tail| tail.len());
        let departures = &core.session.departures;
        if len > MESSAGE_MAX || departures.has_any(Class::Reply) && departures.has_reply_to(call.0)
        {
            return self.write_large(call, body, tail, more);
        }
        let reserved = core.session.send_credit.try_reserve(Class::Reply, frame_len(len));
        assert!(reserved, "a reply of {len} bytes without room");
        let written = match self.lane {
            Some(lane) => Ok(lane),
            None => core.open_lane().map(|lane| self.lane.insert(lane)),
        }
        .and_then(|lane| {
            let header = (Kind::Reply, Class::Reply, call.0, more);
            let before = lane.backlog();
            let gathers = core.link.gathers(body.len(), before);
            write_record(lane, &core.memory, header, body, tail, gathers)?;
            self.unannounced = Unannounced::of(lane);
            let backlog = lane.backlog();
            if core.is_send_due(backlog, backlog.saturating_sub(before)) {
                core.flush_lanes(self.unannounced);
            }
            Ok(())
        });
        if written.is_err() {
            self.give_up(call, frame_len(len), CloseReason::Memory);
        }
        written.is_ok()
    }

    /// Leaves a reply that is too long for one frame, or follows such a part of the same reply, to be
    /// sent in its turn.
    #[cold]
    fn write_large(
        &mut self,
        call: CallId,
        body: impl Body,
        tail: Option<Shared>,
        more: bool,
    ) -> bool {
        let core = self.held.core;
        let len = body.len() + tail.as_ref().map_or(0, |tail| tail.len());
        let is_too_long = len > LARGE_MAX;
        if !is_too_long && len > self.reply_max() {
            self.failed = Some(CloseReason::Violation("no large messages, though a reply is one"));
            return false;
        }
        let cost = if len > MESSAGE_MAX { ANNOUNCEMENT_COST } else { frame_len(len) };
        let reserved = core.session.send_credit.try_reserve(Class::Reply, cost);
        assert!(reserved, "a reply of {len} bytes without room");
        if is_too_long {
            tracing::error!(
                bytes = len,
                limit = LARGE_MAX,
                peer = %self.peer().node,
                "a reply is longer than any may be, so its call fails: Batch::reply_body has no limit"
            );
            let reason = CloseReason::Violation("a reply is longer than any may be");
            self.give_up(call, cost, reason);
            return false;
        }
        match write_head(&core.memory, body) {
            Ok(head) => {
                let header = (Kind::Reply, Class::Reply, call.0, more);
                let departure = Departure::new(header, head, tail).behind(self.mark());
                core.session.departures.reserve(Class::Reply, departure.queued_bytes());
                core.session.departures.push(departure);
                true
            }
            Err(_) => {
                self.give_up(call, cost, CloseReason::Memory);
                false
            }
        }
    }

    /// The replies that nobody has taken for sending yet, for what is not to overtake them. The sender is told of
    /// them.
    fn mark(&self) -> Option<Mark> {
        let lane = self.lane.as_ref()?;
        let mark = lane.mark()?;
        self.held.core.session.lanes.announce(Unannounced::of(lane));
        Some(mark)
    }

    /// There can be no reply to `call`, for which `reserved` bytes of window have been: its caller is told
    /// that none comes, if it knows of such; else the connection ends, for `reason`.
    #[cold]
    fn give_up(&mut self, call: CallId, reserved: usize, reason: CloseReason) {
        let core = self.held.core;
        if !core.session.departures.tells_unanswered() {
            self.failed = Some(reason);
            return;
        }
        core.session.send_credit.cancel(Class::Reply, reserved - frame_len(0));
        core.push_unanswered(call.0, self.mark());
    }
}

impl Incoming<'_> {
    /// Keeps the body beyond the handler: by holding on to the buffer that it was received into, if
    /// it is half of that at least and not too much is held already, else by copying it. Its credit
    /// stays with it, and what it keeps counts as retained.
    ///
    /// # Errors
    /// When there is no memory for the copy.
    pub fn retain(self) -> Result<Retained, MemoryError> {
        let core = self.held.core;
        let retained_bytes = &core.reactor.common.retained_bytes;
        let (bytes, kept) = match self.held.source {
            Source::Buffer(buffer)
                if self.body.len() * 2 >= buffer.block_len()
                    && retained_bytes.load(Ordering::Relaxed) + buffer.block_len() as u64
                        <= core.memory.account().limit_bytes / RETAINED_SHARE =>
            {
                (RetainedBytes::Received(buffer.slice(self.range)), buffer.block_len() as u64)
            }
            _ => {
                let kept = self.body.len() as u64;
                let charge = core.memory.charge(kept, Purpose::Receive)?;
                (RetainedBytes::Copied(self.body.into(), charge), kept)
            }
        };
        retained_bytes.fetch_add(kept, Ordering::Relaxed);
        core.retained.fetch_add(1, Ordering::SeqCst);
        let retained = &self.held.retained[self.class as usize];
        retained.set(retained.get() + self.cost);
        Ok(Retained { bytes, core: Arc::clone(core), class: self.class, cost: self.cost, kept })
    }
}

impl std::ops::Deref for Retained {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            RetainedBytes::Copied(copy, _) => copy,
            RetainedBytes::Received(shared) => shared,
        }
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.core.reactor.common.retained_bytes.fetch_sub(self.kept, Ordering::Relaxed);
        if self.core.session.receive_credit.release(self.class, self.cost) {
            self.core.send_soon(Unannounced::NONE);
        }
        self.core.retained.fetch_sub(1, Ordering::SeqCst);
    }
}
