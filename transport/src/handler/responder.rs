//! Replying when the handler has returned, from whichever thread or task.
//!
//! What blocks, or waits for other nodes, is no work for a handler: it takes a [`Responder`] of the call along and
//! returns. A lone reply needs no order among others, so it goes by the lane of the thread that gives it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::{Batch, CallId, Incoming, IncomingKind};
use crate::body::Body;
use crate::connection::{BodyWriter, Core, Peer, Sending, check_head};
use crate::driver;
use crate::error::{Applied, BodyError, SendError};
use crate::frame::{Class, HEADER_BYTES, Kind, frame_len};
use crate::lane::Mark;
use crate::local;
use crate::memory::Shared;
use crate::session::departures::Departure;
use crate::session::outbound::Unannounced;

/// Gives the one reply to a call, beyond the handler that was given the call.
///
/// It keeps 16 bytes of the window that the call came by, so that the peer's window bounds how many there are,
/// and the connection counts as in use. Dropped without a reply, it lets the caller know
/// ([`CallError::Unanswered`](crate::CallError::Unanswered)), unless the peer has no room for that either: then the
/// call waits for its deadline. When the connection has ended, nobody waits for the reply, and giving it is an error.
#[derive(Debug)]
pub struct Responder {
    core: Arc<Core>,
    call: u64,
    /// Of the request.
    class: Class,
    is_answered: bool,
}

/// What of a request's cost its responder holds back.
pub(super) const RESPONDER_COST: u64 = HEADER_BYTES as u64;

impl Incoming<'_> {
    /// What replies to this call when the handler has returned; the first time, and if it is a call. Nothing may be
    /// replied to it by the [batch](super::Batch) then, before or after.
    pub fn responder(&mut self) -> Option<Responder> {
        let IncomingKind::Call(call) = self.kind else { return None };
        if std::mem::replace(&mut self.has_responder, true) {
            return None;
        }
        self.cost -= RESPONDER_COST;
        let retained = &self.held.retained[self.class as usize];
        retained.set(retained.get() + RESPONDER_COST);
        Some(Responder::new(self.held.core, call.0, self.class))
    }
}

impl Responder {
    pub(super) fn new(core: &Arc<Core>, call: u64, class: Class) -> Self {
        core.retained.fetch_add(1, Ordering::SeqCst);
        Self { core: Arc::clone(core), call, class, is_answered: false }
    }

    /// Who waits for the reply.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }

    /// Replies. Waits for the window of replies, and, with more than [`MESSAGE_MAX`](crate::limits::MESSAGE_MAX) bytes,
    /// while 16 MiB of memory that was taken for large replies is still to be sent.
    ///
    /// # Errors
    /// See [`SendError`]. Success means that the reply was taken, not that it has arrived.
    ///
    /// # Panics
    /// In the destructor of a thread-local value, as whatever sends, if this thread's part of the transport is gone by then.
    ///
    /// # Cancel safety
    /// Dropping the future is dropping the responder.
    pub async fn reply(mut self, body: impl Body) -> Result<(), SendError> {
        let sent = Sending::reply(&self.core, self.call, body, None).await;
        self.is_answered = sent.is_ok();
        sent
    }

    /// Replies with `head`, which is copied, and then `tail`, if the window has room for that now and all of it is no longer than
    /// [`MESSAGE_MAX`](crate::limits::MESSAGE_MAX): for handlers, which wait for nobody. If there is no memory for it, the call fails at its caller; a connection
    /// that has ended takes every reply, since nobody waits for it.
    ///
    /// # Errors
    /// The responder and `tail` themselves, if there is no room: [`reply_shared`](Self::reply_shared) waits for it.
    ///
    /// # Panics
    /// As [`reply`](Self::reply).
    pub fn try_reply(
        mut self,
        head: impl Body,
        mut tail: Option<Shared>,
    ) -> Result<(), (Self, Option<Shared>)> {
        let header = (Kind::Reply, Class::Reply, self.call);
        match Sending::try_now(&self.core, header, head, &mut tail) {
            Poll::Ready(sent) => {
                self.is_answered = sent.is_ok();
                Ok(())
            }
            Poll::Pending => Err((self, tail)),
        }
    }

    /// Replies with the others of the batch that the call came with, whose handler has not returned: as
    /// [`Batch::reply`] does, which takes no memory that a lane of this thread might have none of.
    ///
    /// # Panics
    /// The batch is another connection's.
    pub fn reply_with(mut self, batch: &mut Batch<'_>, body: impl Body) {
        assert_eq!(
            batch.connection().id(),
            self.core.id,
            "a call is replied to where it came from"
        );
        self.is_answered = true;
        batch.reply(CallId(self.call), body);
    }

    /// As [`reply`](Self::reply), with `head`, which is copied, and then `tail`, which is gathered from where it lies
    /// and held until it has been sent.
    ///
    /// # Errors
    /// See [`SendError`].
    ///
    /// # Cancel safety
    /// Dropping the future is dropping the responder.
    pub async fn reply_shared(mut self, head: impl Body, tail: Shared) -> Result<(), SendError> {
        let sent = Sending::reply(&self.core, self.call, head, Some(tail)).await;
        self.is_answered = sent.is_ok();
        sent
    }

    /// As [`reply`](Self::reply), with a body of any length behind `head`.
    ///
    /// # Errors
    /// See [`BodyError`]. Nothing has been replied then.
    ///
    /// # Cancel safety
    /// Dropping the future is dropping the responder.
    pub async fn reply_body(mut self, head: impl Body) -> Result<BodyWriter, BodyError> {
        let core = Arc::clone(&self.core);
        let cost = frame_len(head.len());
        check_head(&core, head.len())?;
        poll_fn(|context| {
            if core.session.send_credit.reserve_or_wait(Class::Reply, cost, context.waker()) {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = core.ended_for(Class::Reply) {
                let (applied, reason) = (Applied::No, reason.clone());
                return Poll::Ready(Err(BodyError::Disconnected { applied, reason }));
            }
            core.reactor.ensure_driver();
            Poll::Pending
        })
        .await?;
        let (flow, _) =
            core.open_body((Kind::Reply, Class::Reply, self.call), head, local::mark(&core))?;
        self.is_answered = true;
        Ok(BodyWriter::new(&core, flow))
    }

    /// As [`reply`](Self::reply), blocking this thread, which drives the links meanwhile, as in
    /// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
    ///
    /// # Errors
    /// See [`SendError`].
    ///
    /// # Panics
    /// As [`reply`](Self::reply), and on a simulated endpoint, which only its simulator drives.
    pub fn reply_blocking(self, body: impl Body) -> Result<(), SendError> {
        self.core.assert_real();
        let core = Arc::clone(&self.core);
        driver::block_on(&core.reactor, self.reply(body))
    }
}

impl Core {
    /// Leaves word for the caller of `id` that no reply comes, behind `mark`. Window for an empty frame has been
    /// reserved.
    pub(super) fn push_unanswered(&self, id: u64, mark: Option<Mark>) {
        // Not by a lane: a thread that ends has none of any more, and one may not have got one.
        let header = (Kind::Unanswered, Class::Reply, id, false);
        self.session.departures.push(Departure::new(header, None, None).behind(mark));
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let session = &self.core.session;
        let mut is_due = session.receive_credit.release(self.class, RESPONDER_COST);
        if !self.is_answered
            && self.core.closed().is_none()
            && session.departures.tells_unanswered()
            && session.send_credit.try_reserve(Class::Reply, frame_len(0))
        {
            self.core.push_unanswered(self.call, None);
            is_due = true;
        }
        if is_due {
            self.core.send_soon(Unannounced::NONE);
        }
        self.core.retained.fetch_sub(1, Ordering::SeqCst);
    }
}
