//! Sending a body that is too long for one frame.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::body::Body;
use crate::error::CloseReason;
use crate::frame::{Class, Kind};
use crate::local;
use crate::memory::{Memory, MemoryError, Purpose, Shared};
use crate::reactor::Command;
use crate::session::call::CallKey;
use crate::session::departures::{ANNOUNCEMENT_COST, Departure};
use crate::session::outbound::Unannounced;
use crate::time::Time;

use super::Core;
use super::wait::WaitFailed;

/// Room for one large body, in the window and among those that wait; given back if it is not used.
#[derive(Debug)]
pub(super) struct Room<'a> {
    core: &'a Arc<Core>,
    class: Class,
    /// What it counts for among those that wait, in bytes.
    cost: usize,
    is_used: bool,
}

impl<'a> Room<'a> {
    /// Room in `class` for what counts for `cost` bytes (`queued_cost`), when there is some.
    pub(super) fn poll(
        core: &'a Arc<Core>,
        class: Class,
        cost: usize,
        context: &Context<'_>,
    ) -> Poll<Result<Self, CloseReason>> {
        let (credit, departures) = (&core.session.send_credit, &core.session.departures);
        if credit.reserve_or_wait(class, ANNOUNCEMENT_COST, context.waker()) {
            if departures.reserve_or_wait(class, cost, context.waker()) {
                return Poll::Ready(Ok(Self { core, class, cost, is_used: false }));
            }
            credit.cancel(class, ANNOUNCEMENT_COST);
        }
        if let Some(reason) = core.refused_for(class) {
            return Poll::Ready(Err(reason.clone()));
        }
        core.reactor.ensure_driver();
        Poll::Pending
    }

    /// Writes the body into memory of its own, and sees to it that it is sent. Returns its ticket.
    pub(super) fn send(
        mut self,
        (kind, id): (Kind, u64),
        body: impl Body,
        tail: Option<Shared>,
    ) -> Result<u64, MemoryError> {
        let head = write_head(&self.core.memory, body)?;
        let departure = Departure::new((kind, self.class, id, false), head, tail);
        let departure = departure.behind(local::mark(self.core));
        self.is_used = true;
        let ticket = self.core.session.departures.push(departure);
        self.core.send_soon(Unannounced::NONE);
        // Nothing may come in that would have the reactor look whether the peer goes on.
        self.core.reactor.submit(Command::Housekeep);
        Ok(ticket)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.core.session.departures.release(self.class, self.cost);
            self.core.session.send_credit.cancel(self.class, ANNOUNCEMENT_COST);
        }
    }
}

/// Waits for [`Room`].
pub(super) struct RoomWait<'a> {
    core: &'a Arc<Core>,
    class: Class,
    len: usize,
    deadline: Time,
    noted: bool,
}

impl<'a> RoomWait<'a> {
    pub(super) fn new(core: &'a Arc<Core>, class: Class, len: usize, deadline: Time) -> Self {
        Self { core, class, len, deadline, noted: false }
    }
}

impl<'a> Future for RoomWait<'a> {
    type Output = Result<Room<'a>, WaitFailed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(room) = Room::poll(self.core, self.class, self.len, context) {
            return Poll::Ready(room.map_err(WaitFailed::Closed));
        }
        if self.core.clock.now() >= self.deadline {
            return Poll::Ready(Err(WaitFailed::Deadline));
        }
        if !std::mem::replace(&mut self.noted, true) {
            self.core.reactor.wake_at(self.deadline, context.waker().clone());
        }
        Poll::Pending
    }
}

impl Core {
    /// The caller of `key` goes: the call is given up unless it is over, and what has not been sent
    /// of a large request never is.
    #[inline]
    pub(super) fn leave(self: &Arc<Self>, key: CallKey, is_over: bool) {
        if !is_over {
            self.session.calls.end(key);
        }
        let any = |class| self.session.departures.has_any(class);
        if any(Class::Request) || any(Class::Replication) {
            self.cancel_request(key);
        }
    }

    #[cold]
    fn cancel_request(self: &Arc<Self>, key: CallKey) {
        if let Some((class, window)) = self.session.departures.cancel_request(key.0) {
            if window > 0 {
                self.session.send_credit.cancel(class, window);
            }
            self.send_soon(Unannounced::NONE);
        }
    }
}

/// Writes `body` into memory that it is sent from.
pub(crate) fn write_head(memory: &Memory, body: impl Body) -> Result<Option<Shared>, MemoryError> {
    let len = body.len();
    if len == 0 {
        return Ok(None);
    }
    let mut block = memory.allocate(len, Purpose::Send)?;
    block.mark_touched(len);
    body.write(&mut block[..len]);
    Ok(Some(block.freeze().narrow(0..len)))
}
