//! A call that has been sent, from its request to its first reply, or to who takes all of them.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::body::Body;
use crate::driver;
use crate::error::{Applied, CallError};
use crate::frame::Class;
use crate::local;
use crate::reply::Reply;
use crate::session::call::{CallKey, Sent, Wait};

use super::{Core, Replies};

/// A call whose request is sent, while its caller is there. Dropping it gives up the call.
pub(super) struct Outstanding<'a> {
    /// Another connection's, if that has taken the place of the one that was called on.
    core: Cow<'a, Arc<Core>>,
    key: CallKey,
    /// Its waker is known, and has not been called when it was polled first.
    fresh: bool,
    /// The last reply has been taken.
    is_over: bool,
    /// Its replies are somebody else's.
    is_taken: bool,
}

impl<'a> Outstanding<'a> {
    pub(super) fn new(core: Cow<'a, Arc<Core>>, key: CallKey) -> Self {
        Self { core, key, fresh: true, is_over: false, is_taken: false }
    }

    /// Sends the request of a call that has a slot, and window reserved for the `len` bytes of its body. `waker` is woken when there is a reply.
    #[inline]
    pub(super) fn send<B: Body>(
        core: Cow<'a, Arc<Core>>,
        (key, class, wait): (CallKey, Class, Wait),
        body: &mut Option<B>,
        len: usize,
        waker: &Waker,
    ) -> Result<Self, CallError> {
        let call = Self::new(core, key);
        let core = &*call.core;
        let (sent, committed) = core
            .request((key, class, wait), body, len, waker)
            .map_err(|_| CallError::Memory(local::take_refusal(core)))?;
        core.reactor.note_deadline(wait.wake_at);
        core.committed(committed);
        call.unless_closed(sent)
    }

    /// The same, unless the connection closed while the call began, which may have missed this one. A reply may have been
    /// faster than that.
    #[inline]
    pub(super) fn unless_closed(self, sent: Sent) -> Result<Self, CallError> {
        let Some(reason) = self.core.closed() else { return Ok(self) };
        if self.core.session.calls.is_answered(self.key) {
            return Ok(self);
        }
        let applied = if self.core.session.has_stayed(sent) { Applied::No } else { Applied::Maybe };
        Err(CallError::Disconnected { applied, reason: reason.clone() })
    }

    /// The first reply. To be polled by the task that the request was sent by, whose waker is known.
    #[inline]
    pub(super) fn poll_reply(&mut self, waker: &Waker) -> Poll<Result<Reply, CallError>> {
        // It has just been sent: to look would cost more than to be woken.
        if std::mem::take(&mut self.fresh) {
            driver::rely();
            return Poll::Pending;
        }
        let polled = self.core.poll_reply(self.key, waker);
        polled.map(|(reply, last)| {
            self.is_over = last;
            reply
        })
    }

    /// All of its replies.
    pub(super) fn into_replies(mut self) -> Replies {
        self.is_taken = true;
        Replies { core: Arc::clone(&self.core), key: self.key, is_over: self.is_over }
    }
}

impl Drop for Outstanding<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_taken {
            self.core.leave(self.key, self.is_over);
        }
    }
}
