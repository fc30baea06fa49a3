//! What a call or a message may have to wait for before it can be written.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{Applied, CallError, CloseReason};
use crate::frame::{Class, frame_len};
use crate::session::call::{CallKey, Refused};
use crate::time::Time;

use super::Core;

/// Waits for room in a window.
pub(super) struct CreditWait<'a> {
    core: &'a Core,
    class: Class,
    len: usize,
    deadline: Time,
    noted: bool,
}

pub(super) enum WaitFailed {
    Deadline,
    Closed(CloseReason),
}

impl From<WaitFailed> for CallError {
    fn from(failed: WaitFailed) -> Self {
        let applied = Applied::No;
        match failed {
            WaitFailed::Deadline => Self::DeadlineExceeded { applied },
            WaitFailed::Closed(reason) => Self::Disconnected { applied, reason },
        }
    }
}

impl<'a> CreditWait<'a> {
    pub(super) fn new(core: &'a Core, class: Class, len: usize, deadline: Time) -> Self {
        Self { core, class, len, deadline, noted: false }
    }
}

impl Future for CreditWait<'_> {
    type Output = Result<(), WaitFailed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.core;
        let cost = frame_len(self.len);
        if core.session.send_credit.reserve_or_wait(self.class, cost, context.waker()) {
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = core.refused_for(self.class) {
            return Poll::Ready(Err(WaitFailed::Closed(reason.clone())));
        }
        let deadline = self.deadline;
        if core.clock.now() >= deadline {
            return Poll::Ready(Err(WaitFailed::Deadline));
        }
        if !std::mem::replace(&mut self.noted, true) {
            core.reactor.wake_at(deadline, context.waker().clone());
        }
        core.reactor.ensure_driver();
        Poll::Pending
    }
}

/// Waits for a free slot in the call table.
pub(super) struct SlotWait<'a> {
    pub(super) core: &'a Core,
    pub(super) class: Class,
    pub(super) deadline: Time,
}

impl Future for SlotWait<'_> {
    type Output = Result<CallKey, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = self.core.session.calls.begin(self.class, Some(context.waker()));
        let failed = |reason| Err(CallError::Disconnected { applied: Applied::No, reason });
        // Behind it, so that who refuses everything from now on finds the waker or is seen here.
        let refused = begun.is_err().then(|| self.core.refused_for(self.class)).flatten();
        match begun {
            Ok(key) => Poll::Ready(Ok(key)),
            Err(Refused::Closed(reason)) => Poll::Ready(failed(reason)),
            Err(Refused::Full) if let Some(reason) = refused => Poll::Ready(failed(reason.clone())),
            Err(Refused::Full) if self.core.clock.now() >= self.deadline => {
                Poll::Ready(Err(CallError::DeadlineExceeded { applied: Applied::No }))
            }
            Err(Refused::Full) => {
                self.core.reactor.wake_at(self.deadline, context.waker().clone());
                self.core.reactor.ensure_driver();
                Poll::Pending
            }
        }
    }
}

/// Window that is reserved for a frame which is yet to be written; given back if it never is.
pub(in crate::connection) struct Reserved<'a> {
    core: &'a Core,
    class: Class,
    len: usize,
}

impl<'a> Reserved<'a> {
    /// Window for a frame with a body of `len` bytes, which has been reserved.
    pub(in crate::connection) fn new(core: &'a Core, class: Class, len: usize) -> Self {
        Self { core, class, len }
    }

    /// Leaves it to who writes the frame.
    pub(in crate::connection) fn used(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.core.give_back(self.class, self.len);
    }
}
