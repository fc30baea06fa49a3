//! Handing what has come to the handler, and going on with what had to wait.

use crate::catching::Panicked;
use crate::connection::{BodyReader, Untaken};
use crate::error::CloseReason;
use crate::frame::{Class, Kind};
use crate::handler::{Batch, Held, Source};
use crate::handling;
use crate::memory::Shared;
use crate::reactor::Common;
use crate::reply::Reply;
use crate::session::Session;
use crate::session::call::CallKey;
use crate::session::inbound::FrameRef;
use crate::session::landings::Landed;
use crate::session::outbound::Unannounced;
use crate::sync::atomic::Ordering;

use super::{Brought, Conversation, Turn};

impl Conversation {
    /// Hands requests and messages to the handler, unless earlier ones are still waiting.
    pub(super) fn dispatch(
        &mut self,
        buffer: &Shared,
        turn: &mut Turn<'_>,
    ) -> Result<(), CloseReason> {
        if turn.brought.frames.is_empty() {
            return Ok(());
        }
        let taken = if self.deferred.is_empty() {
            let Brought { frames, panic, .. } = &mut *turn.brought;
            self.run_handler(frames, (Source::Buffer(buffer), None), turn.common, panic)?
        } else {
            0
        };
        let kept = self.deferred.push(&turn.brought.frames[taken..], buffer, &turn.common.memory);
        turn.brought.frames.clear();
        kept.map_err(|_| CloseReason::Memory)
    }

    /// Hands large requests and messages, and those with streamed bodies, to the handler, unless earlier ones
    /// are still waiting, and replies with bodies to their calls.
    pub(super) fn dispatch_landed(&mut self, turn: &mut Turn<'_>) -> Result<(), CloseReason> {
        for Landed { frame, block, flow } in turn.brought.landed.drain(..) {
            let body = flow.map(|flow| BodyReader::new(&self.core, flow));
            let body = match body {
                Some(body) if frame.kind == Kind::Reply => {
                    let Session { calls, receive_credit, .. } = &self.core.session;
                    let reply = Reply::opened(block.narrow(frame.body.clone()), body);
                    turn.brought.wakers.extend(calls.deliver(CallKey(frame.id), reply, false));
                    self.flush_due |= receive_credit.release(frame.class, frame.cost());
                    continue;
                }
                body => body.map(Untaken::new),
            };
            let frames = std::slice::from_ref(&frame);
            let taken = if self.deferred.is_empty() {
                let source = (Source::Buffer(&block), body.as_ref());
                self.run_handler(frames, source, turn.common, &mut turn.brought.panic)?
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
    pub(in crate::reactor) fn retry(&mut self, turn: &mut Turn<'_>) {
        self.retry_deferred(turn);
        let common = turn.common;
        if self.inbound.is_landing()
            && self.core.closed().is_none()
            && self.inbound.retry_landings(&self.core.session, &common.memory, &self.core.link)
        {
            self.flush_due = true;
        }
    }

    /// Lets the handler have what had to wait, as far as replies have room now.
    fn retry_deferred(&mut self, turn: &mut Turn<'_>) {
        if self.deferred.is_empty() || self.core.closed().is_some() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        let mut frames = Vec::new();
        while let Some(source) = deferred.front(&mut frames) {
            let source = (source, deferred.front_body());
            match self.run_handler(&frames, source, turn.common, &mut turn.brought.panic) {
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

    /// Runs the handler over `frames`; returns how many it took. What it panics with goes to `panic`, unless something
    /// is there already.
    fn run_handler(
        &mut self,
        frames: &[FrameRef],
        (source, body): (Source<'_>, Option<&Untaken>),
        common: &Common,
        panic: &mut Option<Panicked>,
    ) -> Result<usize, CloseReason> {
        let Self { core, lane, .. } = self;
        if core.is_forsaken() {
            return Err(CloseReason::Closed);
        }
        let held = Held { core, source, retained: Default::default(), body };
        let unannounced = Unannounced::NONE;
        let mut batch = Batch { held: &held, frames, taken: 0, lane, unannounced, failed: None };
        if let Err(panicked) = handling::run(|| common.handler.handle(&mut batch)) {
            // Before the connection ends: who learns of that, and shuts the endpoint down, is told. Who turns a simulated one hears
            // of it at the end of the turn.
            if common.sim.is_none() {
                common.handler_panicked.store(true, Ordering::SeqCst);
            }
            core.forsake();
            match panic {
                None => *panic = Some(panicked),
                Some(_) => panicked.discard(),
            }
            return Err(CloseReason::Closed);
        }
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
}
