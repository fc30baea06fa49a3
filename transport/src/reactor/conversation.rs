//! One connection, as its reactor drives it: from bytes to the handler and back.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use crate::connection::{BodyReader, Connection, Core, Peer, Untaken};
use crate::error::{CloseReason, ConnectError};
use crate::frame::{Class, Kind};
use crate::handler::{Batch, Held, Source};
use crate::handshake::Hello;
use crate::lane::Producer;
use crate::link::Transfer;
use crate::manager::{Admission, Attempt};
use crate::memory::{Block, Shared};
use crate::reply::Reply;
use crate::session::Session;
use crate::session::call::CallKey;
use crate::session::inbound::{Delivery, FrameRef, Inbound};
use crate::session::landings::Landed;
use crate::session::outbound::Unannounced;
use crate::time::Time;

use super::deferred::Deferred;
use super::handle::Common;
use super::overdue::{Stalled, Unfinished};

/// How often within the time after which a peer is taken to have stalled it is told that a large message
/// still waits for a receive to be posted: a peer that is as patient as this side hears of it in time.
const REMINDERS: u32 = 6;

/// What a turn lends to the conversations that it drives.
pub(super) struct Turn<'a> {
    pub(super) common: &'a Common,
    /// Those whose reply or window has come.
    pub(super) wakers: &'a mut Vec<Waker>,
    /// Empty between two receives.
    pub(super) frames: &'a mut Vec<FrameRef>,
    /// Likewise.
    pub(super) landed: &'a mut Vec<Landed>,
    pub(super) now: Time,
}

/// A connection and what only its reactor touches.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) core: Arc<Core>,
    pub(super) phase: Phase,
    inbound: Inbound,
    /// The lane that handlers reply through.
    lane: Option<Producer>,
    deferred: Deferred,
    /// The turn has to flush it: there is credit to give, or something to tell about a transfer.
    flush_due: bool,
    attempt: Option<Arc<Attempt>>,
    /// Something waits for the peer to read.
    stalled: Option<Stalled>,
    /// All large bodies wait for the peer to grant more of them.
    ungranted: Option<Stalled>,
    /// The peer is in the middle of a frame.
    unfinished: Option<Unfinished>,
    /// The peer may go on with a large body: counted by its chunks.
    landing: Option<Unfinished>,
    /// A large body has memory of this side: the oldest, by its number.
    landing_first: Option<Unfinished>,
    /// Streamed bodies have memory of this side: counted by what of it has been filled.
    streamed: Option<Unfinished>,
    /// Messages wait for somebody to post a receive.
    unasked: Option<Unfinished>,
    /// When the peer was last told that a large message waits for that.
    reminded_at: Time,
}

/// How far a conversation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The link is coming about.
    Connecting {
        /// Until when the greeting is to be over.
        by: Time,
        /// Until when it waits for this link, if it can go on over another.
        link_by: Option<Time>,
    },
    /// The peer has yet to say hello.
    Greeting { by: Time },
    /// Frames go both ways.
    Open,
    /// Over; what still comes in is dropped, so that our goodbye is not lost with the socket.
    Draining { until: Time },
}

/// What one receive brought.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    /// Bytes that went into a frame with a block of its own.
    filled: usize,
    /// End of the bytes in the reactor's buffer.
    end: usize,
    pub(super) count: usize,
}

impl Conversation {
    pub(super) fn new(core: Arc<Core>, phase: Phase, attempt: Option<Arc<Attempt>>) -> Self {
        Self {
            core,
            phase,
            inbound: Inbound::new(),
            lane: None,
            deferred: Deferred::default(),
            flush_due: false,
            attempt,
            stalled: None,
            ungranted: None,
            unfinished: None,
            landing: None,
            landing_first: None,
            streamed: None,
            unasked: None,
            reminded_at: Time::ZERO,
        }
    }

    /// Receives what is there, into `scratch` behind what is carried over. Nothing if there is
    /// nothing; zero bytes at the end of the stream.
    pub(super) fn receive(&mut self, scratch: &mut Block) -> io::Result<Option<Received>> {
        let front = self.inbound.copy_carry(scratch);
        let end = self.inbound.receive_max(&self.core.session).min(scratch.len());
        let rest = IoSliceMut::new(&mut scratch[front..end]);
        let mut own = 0;
        let result = match self.inbound.unfilled() {
            Some([body, padding]) => {
                own = body.len() + padding.len();
                let (body, padding) = (IoSliceMut::new(body), IoSliceMut::new(padding));
                self.core.link.receive(&mut [body, padding, rest])
            }
            None => self.core.link.receive(&mut [rest]),
        };
        match result {
            Ok(count) => {
                let filled = count.min(own);
                let end = front + count - filled;
                scratch.mark_touched(end);
                Ok(Some(Received { filled, end, count }))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Handles what was received. Returns the buffer, unless something in it has been retained.
    pub(super) fn handle(
        &mut self,
        received: Received,
        scratch: Block,
        turn: &mut Turn<'_>,
    ) -> Option<Block> {
        let buffer = scratch.freeze();
        if let Phase::Draining { .. } = self.phase {
            return buffer.try_reclaim().ok();
        }
        self.core.used_at.store(turn.now.nanos(), Ordering::Relaxed);
        let result =
            if received.filled > 0 { self.handle_filled(received.filled, turn) } else { Ok(()) };
        let result = result.and_then(|()| self.handle_part(&buffer, received.end, turn));
        if let Err(reason) = result {
            turn.frames.clear();
            turn.landed.clear();
            self.core.close(reason);
        }
        buffer.try_reclaim().ok()
    }

    /// Handles what the link has read of the peer's memory.
    pub(super) fn handle_fetched(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Draining { .. } = self.phase {
            return;
        }
        self.core.used_at.store(turn.now.nanos(), Ordering::Relaxed);
        let result = self.deliver(turn, |inbound, delivery| {
            inbound.handle_fetched(delivery);
            Ok(())
        });
        if let Err(reason) = result.and_then(|()| self.dispatch_landed(turn)) {
            turn.landed.clear();
            self.core.close(reason);
        }
    }

    fn handle_filled(&mut self, filled: usize, turn: &mut Turn<'_>) -> Result<(), CloseReason> {
        let mut block = None;
        self.deliver(turn, |inbound, delivery| {
            block = inbound.handle_filled(filled, delivery)?;
            Ok(())
        })?;
        block.map_or(Ok(()), |block| self.dispatch(&block, turn))?;
        self.dispatch_landed(turn)
    }

    fn handle_part(
        &mut self,
        buffer: &Shared,
        end: usize,
        turn: &mut Turn<'_>,
    ) -> Result<(), CloseReason> {
        let delivered =
            self.deliver(turn, |inbound, delivery| inbound.handle_bytes(buffer, 0..end, delivery));
        // What came ahead of a goodbye, or of what is wrong, was sent in good order; what came behind a
        // hello that was refused was not.
        if self.core.peer_if_greeted().is_some() {
            self.dispatch(buffer, turn)?;
            self.dispatch_landed(turn)?;
        }
        delivered
    }

    /// Runs the session's receiving half and sees to what it found besides messages and requests.
    fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        run: impl FnOnce(&mut Inbound, &mut Delivery<'_>) -> Result<(), CloseReason>,
    ) -> Result<(), CloseReason> {
        let Self { core, inbound, .. } = self;
        let (mut hello, mut left, mut replied, mut grant_due) = (None, None, false, false);
        let mut delivery = Delivery {
            session: &core.session,
            link: &core.link,
            memory: &turn.common.memory,
            wakers: turn.wakers,
            frames: turn.frames,
            landed: turn.landed,
            hello: &mut hello,
            left: &mut left,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        let result = run(inbound, &mut delivery);
        if replied || !turn.frames.is_empty() {
            core.heard.store(true, Ordering::Relaxed);
        }
        self.flush_due |= grant_due;
        if let Some(hello) = hello {
            self.handle_hello(&hello, turn.common, turn.wakers)?;
        }
        match left {
            Some(CloseReason::Duplicate) => turn.common.registry.replace(&self.core, turn.wakers),
            Some(reason) => self.core.peer_leaves(reason, turn.wakers),
            None => {}
        }
        result
    }

    /// The peer has said who it is.
    fn handle_hello(
        &mut self,
        hello: &Hello,
        common: &Common,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), CloseReason> {
        if !common.trusts(hello) {
            return Err(CloseReason::Secret);
        }
        let core = &self.core;
        let (node, incarnation) = (hello.node, hello.incarnation);
        let peer = Peer { node, incarnation, address: core.address };
        let open = || {
            if !core.initiated {
                core.session.lanes.greet(common.hello().encode());
            }
            core.open(peer, &hello.windows, hello.features);
        };
        let admission = common.registry.admit(common.node, core, &peer, open, wakers)?;
        if !core.initiated {
            core.flush(false);
        }
        self.phase = Phase::Open;
        let used = match admission {
            Admission::Used => Arc::clone(core),
            Admission::Replaced(existing) => existing,
        };
        let replaced = !Arc::ptr_eq(&used, core);
        if replaced {
            core.retired.store(true, Ordering::SeqCst);
        } else if !core.initiated {
            common.accepted.add(core);
        }
        if let Some(attempt) = self.attempt.take() {
            common.finish_attempt(core.address, &attempt, Ok(Connection { core: used }));
        }
        Ok(())
    }

    /// Hands requests and messages to the handler, unless earlier ones are still waiting.
    fn dispatch(&mut self, buffer: &Shared, turn: &mut Turn<'_>) -> Result<(), CloseReason> {
        if turn.frames.is_empty() {
            return Ok(());
        }
        let taken = if self.deferred.is_empty() {
            self.run_handler(turn.frames, (Source::Buffer(buffer), None), turn.common)?
        } else {
            0
        };
        let kept = self.deferred.push(&turn.frames[taken..], buffer, &turn.common.memory);
        turn.frames.clear();
        kept.map_err(|_| CloseReason::Memory)
    }

    /// Hands large requests and messages, and those with streamed bodies, to the handler, unless earlier ones
    /// are still waiting, and replies with bodies to their calls.
    fn dispatch_landed(&mut self, turn: &mut Turn<'_>) -> Result<(), CloseReason> {
        for Landed { frame, block, flow } in turn.landed.drain(..) {
            let body = flow.map(|flow| BodyReader::new(&self.core, flow));
            let body = match body {
                Some(body) if frame.kind == Kind::Reply => {
                    let Session { calls, receive_credit, .. } = &self.core.session;
                    let reply = Reply::opened(block.narrow(frame.body.clone()), body);
                    turn.wakers.extend(calls.deliver(CallKey(frame.id), reply, false));
                    self.flush_due |= receive_credit.release(frame.class, frame.cost());
                    continue;
                }
                body => body.map(Untaken::new),
            };
            let frames = std::slice::from_ref(&frame);
            let taken = if self.deferred.is_empty() {
                let source = (Source::Buffer(&block), body.as_ref());
                self.run_handler(frames, source, turn.common)?
            } else {
                0
            };
            if taken == 0 {
                self.deferred.push_whole(frame, block, body);
            }
        }
        Ok(())
    }

    /// Goes on with what had to wait: requests for room for their replies, large bodies for memory.
    pub(super) fn retry(&mut self, common: &Common) {
        self.retry_deferred(common);
        if self.inbound.is_landing()
            && self.core.closed().is_none()
            && self.inbound.retry_landings(&self.core.session, &common.memory, &self.core.link)
        {
            self.flush_due = true;
        }
    }

    /// Whether the turn has to flush it, asked once.
    pub(super) fn take_flush_due(&mut self) -> bool {
        std::mem::take(&mut self.flush_due)
    }

    /// Lets the handler have what had to wait, as far as replies have room now.
    fn retry_deferred(&mut self, common: &Common) {
        if self.deferred.is_empty() || self.core.closed().is_some() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        let mut frames = Vec::new();
        while let Some(source) = deferred.front(&mut frames) {
            match self.run_handler(&frames, (source, deferred.front_body()), common) {
                Ok(taken) => {
                    deferred.drop_front(&frames[..taken]);
                    if taken < frames.len() {
                        break;
                    }
                }
                Err(reason) => return self.core.close(reason),
            }
        }
        self.deferred = deferred;
    }

    /// Notes what stays after a turn: a frame that has not ended, and whether the connection could
    /// be closed to make room.
    pub(super) fn settle(&mut self, now: Time) {
        let inbound = &self.inbound;
        self.unfinished = Unfinished::follow(self.unfinished, inbound.unfinished(), now);
        self.landing = Unfinished::follow(self.landing, inbound.landing_progress(), now);
        self.landing_first = Unfinished::follow(self.landing_first, inbound.oldest_landing(), now);
        self.streamed = Unfinished::follow(self.streamed, inbound.streamed(), now);
        let receives = &self.core.session.receives;
        let unasked = (receives.waiting() > 0).then_some(0);
        self.unasked = Unfinished::follow(self.unasked, unasked, now);
        let busy = self.phase != Phase::Open
            || !self.deferred.is_empty()
            || self.unfinished.is_some()
            || inbound.is_landing();
        if self.core.busy.load(Ordering::Relaxed) != busy {
            self.core.busy.store(busy, Ordering::SeqCst);
        }
        self.leave_if_done(now);
    }

    /// Ends a connection that is not to be used any more, when nothing is under way on it.
    fn leave_if_done(&self, now: Time) {
        match self.core.leaving() {
            // Who streams a body sees to it how long that takes.
            Some(leaving)
                if now >= leaving.by && !self.streams()
                    || leaving.is_peer && self.core.is_settled() =>
            {
                self.core.close(leaving.reason.clone());
            }
            None if self.core.retired.load(Ordering::SeqCst) && self.phase == Phase::Open => {
                self.core.try_leave(CloseReason::Duplicate);
            }
            _ => {}
        }
    }

    /// Whether a streamed body is under way, which the peer may have begun when this side left.
    fn streams(&self) -> bool {
        self.inbound.streams() || self.core.session.departures.has_bodies()
    }

    /// Since when it has kept memory that others wait for: an unfinished frame or large body, a streamed one that
    /// does not go on, requests that were set aside, messages that nobody receives, replies that are not read. Only of connections that others have begun.
    pub(super) fn keeps_memory_since(&self) -> Option<Time> {
        if self.core.initiated || self.core.closed().is_some() {
            return None;
        }
        let stalled = [self.stalled, self.ungranted].into_iter().flatten();
        let unfinished = [self.unfinished, self.landing_first, self.streamed, self.unasked];
        let unfinished = unfinished.into_iter().flatten();
        stalled
            .map(|stalled| stalled.began)
            .chain(unfinished.map(|unfinished| unfinished.since))
            .min()
    }

    /// Runs the handler over `frames`; returns how many it took.
    fn run_handler(
        &mut self,
        frames: &[FrameRef],
        (source, body): (Source<'_>, Option<&Untaken>),
        common: &Common,
    ) -> Result<usize, CloseReason> {
        let Self { core, lane, .. } = self;
        let held = Held { core, source, retained: Default::default(), body };
        let unannounced = Unannounced::NONE;
        let mut batch = Batch { held: &held, frames, taken: 0, lane, unannounced, failed: None };
        common.handler.handle(&mut batch);
        let (taken, unannounced, failed) = (batch.taken, batch.unannounced, batch.failed.take());
        let mut released = [0; 3];
        for frame in &frames[..taken] {
            released[frame.class as usize] += frame.cost();
        }
        for class in Class::ALL {
            let index = class as usize;
            let bytes = released[index] - held.retained[index].get();
            if bytes > 0 {
                self.flush_due |= core.session.receive_credit.release(class, bytes);
            }
        }
        if unannounced != Unannounced::NONE || core.session.departures.is_ready() {
            // The rest of the turn is nothing that replies should wait for.
            core.flush_lanes(unannounced);
        }
        failed.map_or(Ok(taken), Err)
    }

    /// Whether it has to be looked at again before long though nothing comes in.
    pub(super) fn needs_housekeeping(&self) -> bool {
        self.phase != Phase::Open
            || self.core.is_blocked()
            || !self.deferred.is_empty()
            || self.unfinished.is_some()
            || self.unasked.is_some()
            || self.inbound.is_landing()
            || !self.core.session.departures.is_idle()
            || self.core.retired.load(Ordering::SeqCst)
            || self.core.leaving().is_some()
    }

    /// For so long, nobody could see what the peer did: its time begins later by as much.
    pub(super) fn forgive(&mut self, time: Duration) {
        for stalled in [&mut self.stalled, &mut self.ungranted].into_iter().flatten() {
            stalled.began = stalled.began + time;
            stalled.since = stalled.since + time;
        }
        let Self { unfinished, landing, landing_first, streamed, unasked, .. } = self;
        let begun = [unfinished, landing, landing_first, streamed, unasked];
        for begun in begun.into_iter().flatten() {
            begun.since = begun.since + time;
        }
        if let Phase::Connecting { by, .. } | Phase::Greeting { by } = &mut self.phase {
            *by = *by + time;
        }
    }

    /// Closes what has run out of time. Returns whether the conversation is over and done.
    pub(super) fn housekeep(&mut self, common: &Common, now: Time) -> bool {
        match self.phase {
            Phase::Connecting { by, .. } | Phase::Greeting { by } if now >= by => {
                self.core.close(CloseReason::HandshakeTimeout);
            }
            Phase::Draining { until } => return now >= until,
            _ => {}
        }
        if self.core.is_blocked() || !self.deferred.is_empty() {
            let taken = self.core.traffic().bytes;
            self.stalled = Some(Stalled::follow(self.stalled, taken, now));
        } else {
            self.stalled = None;
        }
        let waits = self.core.session.departures.waits_since();
        self.ungranted = waits.map(|taken| Stalled::follow(self.ungranted, taken, now));
        let stalled = [self.stalled, self.ungranted].into_iter().flatten();
        if stalled.into_iter().any(|stalled| now.since(stalled.since) >= common.stall_timeout) {
            self.core.close(CloseReason::Stalled);
        }
        let mut unfinished = [self.unfinished, self.landing].into_iter().flatten();
        if unfinished.any(|unfinished| now.since(unfinished.since) >= common.stall_timeout) {
            self.core.close(CloseReason::Unfinished);
        }
        if now.since(self.reminded_at) >= common.stall_timeout / REMINDERS
            && self.inbound.remind(&self.core.session)
        {
            self.reminded_at = now;
            self.core.schedule();
        }
        false
    }

    /// The link has come about.
    pub(super) fn greet(&mut self, common: &Common, by: Time) {
        self.phase = Phase::Greeting { by };
        self.core.greet(common.hello().encode());
    }

    /// Who waits for it to come about waits for another in its place.
    pub(super) fn take_attempt(&mut self) -> Option<Arc<Attempt>> {
        self.attempt.take()
    }

    /// The link cannot come about.
    pub(super) fn fail_connect(&mut self, kind: io::ErrorKind) {
        self.end_attempt(|address| ConnectError::Refused { address, kind });
        self.core.close(CloseReason::Link(kind));
    }

    /// The link was to be shared memory alone, and the peer shares none.
    pub(super) fn fail_to_share(&mut self) {
        self.end_attempt(|address| ConnectError::NotShared { address });
        self.core.close(CloseReason::Link(io::ErrorKind::ConnectionRefused));
    }

    /// The connection has ended; whoever waits for it to come about is told.
    pub(super) fn begin_draining(&mut self, until: Time) {
        let reason = self.core.closed().cloned().unwrap_or(CloseReason::Closed);
        self.end_attempt(|address| ConnectError::Closed { address, reason });
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        self.phase = Phase::Draining { until };
        self.deferred = Deferred::default();
        self.inbound = Inbound::new();
        (self.unfinished, self.landing, self.landing_first) = (None, None, None);
        self.streamed = None;
        self.unasked = None;
        if let Some(lane) = self.lane.take() {
            self.core.session.lanes.retire(lane);
        }
        // Nothing follows a goodbye.
        let discarded = self.core.session.outbound.lock().discard(&self.core.session);
        drop(discarded);
    }

    fn end_attempt(&mut self, error: impl FnOnce(SocketAddr) -> ConnectError) {
        if let Some(attempt) = self.attempt.take() {
            let address = self.core.address;
            let common = &self.core.reactor.common;
            common.finish_attempt(address, &attempt, Err(error(address)));
        }
    }
}
