//! One connection, as its reactor drives it: from bytes to the handler and back.

mod dispatch;
mod ends;
mod patience;

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::catching::Panicked;
use crate::connection::Core;
use crate::error::CloseReason;
use crate::lane::Producer;
use crate::link::Transfer;
use crate::manager::Attempt;
use crate::memory::{Block, Shared};
use crate::session::inbound::{Delivery, FrameRef, Inbound};
use crate::session::landings::Landed;
#[cfg(test)]
use crate::session::ledger::ReceivedBody;
use crate::time::Time;

use super::Common;
use super::deferred::Deferred;
use super::overdue::{Stalled, Unfinished};

/// What a turn lends to the conversations that it drives.
pub(super) struct Turn<'a> {
    pub(super) common: &'a Common,
    pub(super) brought: &'a mut Brought,
    pub(super) now: Time,
}

/// What input has brought, until those whom it concerns have it. Kept by the reactor for its capacity.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Those whose reply or window has come.
    pub(super) wakers: Vec<Waker>,
    /// Small requests and messages; empty between two receives.
    frames: Vec<FrameRef>,
    /// Large ones, and those with streamed bodies; likewise.
    landed: Vec<Landed>,
    /// How many frames have come whole in this turn.
    pub(super) count: u64,
    /// What a handler has panicked with in this turn: the first, if several have.
    pub(super) panic: Option<Panicked>,
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

    /// The streamed bodies on their way in.
    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<ReceivedBody> {
        self.inbound.ledger()
    }

    /// Whether requests wait for room for their replies.
    pub(super) fn has_set_aside(&self) -> bool {
        !self.deferred.is_empty()
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
            turn.brought.frames.clear();
            turn.brought.landed.clear();
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
            turn.brought.landed.clear();
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
            wakers: &mut turn.brought.wakers,
            frames: &mut turn.brought.frames,
            landed: &mut turn.brought.landed,
            hello: &mut hello,
            left: &mut left,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        let before = inbound.frames();
        let result = run(inbound, &mut delivery);
        turn.brought.count += inbound.frames() - before;
        if replied || !turn.brought.frames.is_empty() {
            core.heard.store(true, Ordering::Relaxed);
        }
        self.flush_due |= grant_due;
        if let Some(hello) = hello {
            self.handle_hello(&hello, turn.common, &mut turn.brought.wakers)?;
        }
        match left {
            Some(CloseReason::Duplicate) => {
                turn.common.registry.replace(&self.core, &mut turn.brought.wakers)
            }
            Some(reason) => self.core.peer_leaves(reason, &mut turn.brought.wakers),
            None => {}
        }
        result
    }

    /// Whether the turn has to flush it, asked once.
    pub(super) fn take_flush_due(&mut self) -> bool {
        std::mem::take(&mut self.flush_due)
    }
}
