//! What is kept of one call that waits.

use std::collections::VecDeque;
use std::task::Waker;

use crate::error::CallError;
use crate::reply::Reply;
use crate::sync::LatchGuard;
use crate::time::Time;

/// A place in the table, and the call that has it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) used: bool,
    /// Where the request begins, and in which lane: tells whether it has left.
    pub(super) sent: Sent,
    /// When whoever waits is woken without a reply: at the deadline, or once before.
    pub(super) wake_at: Time,
    pub(super) deadline: Time,
    pub(super) waker: Option<Waker>,
    pub(super) reply: Option<Result<Reply, CallError>>,
    pub(super) more: VecDeque<Result<Reply, CallError>>,
    /// No reply follows those that are here.
    pub(super) complete: bool,
}

/// Where a request lies in its lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) lane: u32,
    pub(crate) position: u64,
}

impl Sent {
    /// In place of a lane: the request goes in chunks, and the position is its ticket.
    pub(crate) const LARGE: u32 = u32::MAX;
}

/// The slot of a call whose request is being written.
pub(crate) struct Opened<'a>(pub(super) LatchGuard<'a, Slot>);

impl Opened<'_> {
    /// The request lies there.
    #[inline]
    pub(crate) fn written(mut self, sent: Sent) {
        self.0.sent = sent;
    }
}

/// What nobody has asked for of a call that is over.
pub(super) type LeftOver =
    (Option<Waker>, Option<Result<Reply, CallError>>, VecDeque<Result<Reply, CallError>>);

impl Slot {
    #[inline]
    pub(super) fn has_left_over(&self) -> bool {
        self.waker.is_some() || self.reply.is_some() || !self.more.is_empty()
    }

    #[cold]
    pub(super) fn take_left_over(&mut self) -> LeftOver {
        (self.waker.take(), self.reply.take(), std::mem::take(&mut self.more))
    }

    pub(super) fn fail(&mut self, error: CallError, wakers: &mut Vec<Waker>) {
        self.complete = true;
        if self.reply.is_none() {
            self.reply = Some(Err(error));
        } else {
            self.more.push_back(Err(error));
        }
        wakers.extend(self.waker.take());
    }
}
