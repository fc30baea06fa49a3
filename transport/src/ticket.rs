//! Tickets: what stands for a buffer while it is posted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::buffer::RegisteredBuffer;
use crate::connection::Core;
use crate::driver;
use crate::error::{CloseReason, PostError};
use crate::frame::Class;
use crate::memory::Block;
use crate::registration::Registration;
use crate::session::posting::{Claim, Outcome, Place, Posting, Undone};
use crate::time::Time;

/// Stands for a posted buffer, and gives it back when the transport is done with it.
///
/// It is a future; `&mut Ticket` is one too, so that a ticket can be one of several that a task waits
/// for and still be there afterwards. [`wait`](Self::wait) and [`wait_until`](Self::wait_until) wait by
/// blocking the thread, which drives the links meanwhile, as in
/// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
///
/// Dropping a ticket lets the transport keep the buffer until it is done, and drops it then. A receive
/// that no message has been matched with is taken back at once; if one has begun to come, that message
/// is lost with the buffer.
#[must_use = "the ticket gives the buffer back"]
pub struct Ticket {
    core: Arc<Core>,
    posting: Arc<Posting>,
    direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Send,
    Receive,
}

/// A posted buffer that the transport is done with.
#[derive(Debug)]
pub struct Completed {
    /// The buffer.
    pub buffer: RegisteredBuffer,
    /// Bytes of the message that was sent from its beginning or received there.
    pub length: usize,
}

impl Completed {
    /// The message.
    pub fn message(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// A posted buffer that nothing has come of, and why. It reads as that reason does.
#[derive(Debug)]
pub struct PostFailed {
    /// The buffer. What a receive has written to it is unspecified. An empty one that is not registered, where it is
    /// [lost](PostError::Lost).
    pub buffer: RegisteredBuffer,
    /// Why.
    pub error: PostError,
}

impl fmt::Display for PostFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for PostFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // What stands behind the reason: the reason itself has been said.
        self.error.source()
    }
}

/// A ticket that was not done in time. It is as good as before: it can be waited for again.
#[derive(Debug, thiserror::Error)]
#[error("a posted buffer is not done in time")]
pub struct TimedOut {
    /// The ticket.
    pub ticket: Ticket,
}

impl Ticket {
    /// Posts the first `len` bytes of a block to be sent.
    pub(crate) fn send(
        core: Arc<Core>,
        block: Block,
        registration: Option<Registration>,
        len: usize,
    ) -> Self {
        let posting = Posting::new(registration);
        core.post_send(&posting, block, len);
        Self { core, posting, direction: Direction::Send }
    }

    /// Posts a block for a message.
    pub(crate) fn receive(
        core: Arc<Core>,
        block: Block,
        registration: Option<Registration>,
    ) -> Self {
        Self::post_receive(core, registration, Place::Buffer(block))
    }

    /// Posts a receive into memory that is allocated when the message's length is known.
    pub(crate) fn receive_allocated(core: Arc<Core>) -> Self {
        Self::post_receive(core, None, Place::Allocated)
    }

    fn post_receive(core: Arc<Core>, registration: Option<Registration>, place: Place) -> Self {
        let posting = Posting::new(registration);
        core.post_receive(Claim::new(&posting, place));
        Self { core, posting, direction: Direction::Receive }
    }

    /// Whether the transport is done with the buffer, so that waiting for it takes no time.
    pub fn is_done(&self) -> bool {
        self.posting.is_done()
    }

    /// Bytes of the message, once it has been sent or received.
    pub fn length(&self) -> Option<usize> {
        self.posting.length()
    }

    /// Waits until the transport is done with the buffer.
    ///
    /// # Errors
    /// [`PostFailed`], which has the buffer.
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn wait(self) -> Result<Completed, PostFailed> {
        let core = Arc::clone(&self.core);
        core.assert_real();
        driver::block_on(&core.reactor, self)
    }

    /// Waits until the transport is done with the buffer, or until `deadline` by the endpoint's clock.
    ///
    /// # Errors
    /// [`TimedOut`], which has the ticket; then nothing has changed.
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn wait_until(self, deadline: Time) -> Result<Result<Completed, PostFailed>, TimedOut> {
        let core = Arc::clone(&self.core);
        core.assert_real();
        driver::block_on(&core.reactor, self.until(deadline))
    }

    /// As [`wait_until`](Self::wait_until), for tasks.
    ///
    /// # Cancel safety
    /// Dropping the future drops the ticket. To keep it, wait for `&mut Ticket`.
    pub fn until(self, deadline: Time) -> Until {
        Until { ticket: Some(self), deadline, timer: None }
    }

    /// Takes the buffer back before anything has come of it: a receive that no message has been matched
    /// with, or a send that waits for the peer's window.
    ///
    /// # Errors
    /// The ticket, if it is too late for that.
    pub fn cancel(self) -> Result<RegisteredBuffer, Self> {
        let session = &self.core.session;
        let is_cancelled = match self.direction {
            Direction::Send => session.sends.cancel(&self.posting),
            Direction::Receive => session.receives.cancel(|claim| claim.is_of(&self.posting)),
        };
        if !is_cancelled {
            return Err(self);
        }
        match self.posting.poll(Waker::noop()) {
            Poll::Ready((outcome, registration)) => {
                let core = Arc::clone(&self.core);
                Ok(RegisteredBuffer::new(core, outcome.block, registration))
            }
            Poll::Pending => unreachable!("what is cancelled gives its buffer back"),
        }
    }

    /// What has come of it, or later.
    pub(crate) fn poll_outcome(
        &self,
        waker: &Waker,
    ) -> Poll<(Result<usize, PostError>, Block, Option<Registration>)> {
        let polled = match self.posting.poll(waker) {
            Poll::Pending if self.core.closed().is_some() => {
                // Its reactor may have nobody to drive it any more.
                self.core.abandon_sends();
                self.posting.poll(waker)
            }
            polled => polled,
        };
        let Poll::Ready((Outcome { block, result }, registration)) = polled else {
            self.core.reactor.ensure_driver();
            return Poll::Pending;
        };
        let result = result.map_err(|undone| match undone {
            Undone::TooLong { message, buffer } => PostError::TooLong { message, buffer },
            Undone::TooLarge { len, limit } => PostError::TooLarge { len, limit },
            Undone::Memory(error) => PostError::Memory(error),
            Undone::Handled => PostError::Handled,
            Undone::Lost => PostError::Lost,
            Undone::Abandoned => {
                let reason = self.core.refused_for(Class::Request).cloned();
                PostError::Disconnected(reason.unwrap_or(CloseReason::Closed))
            }
        });
        Poll::Ready((result, block, registration))
    }
}

impl Future for Ticket {
    type Output = Result<Completed, PostFailed>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(context.waker()).map(|(result, block, registration)| {
            let buffer = RegisteredBuffer::new(Arc::clone(&self.core), block, registration);
            match result {
                Ok(length) => Ok(Completed { buffer, length }),
                Err(error) => Err(PostFailed { buffer, error }),
            }
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.direction == Direction::Receive && !self.posting.is_done() {
            self.core.session.receives.cancel(|claim| claim.is_of(&self.posting));
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direction, posting, .. } = self;
        f.debug_struct("Ticket")
            .field("direction", direction)
            .field("is_done", &posting.is_done())
            .finish_non_exhaustive()
    }
}

/// Waits for a ticket until a deadline; see [`Ticket::until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Until {
    ticket: Option<Ticket>,
    deadline: Time,
    timer: Option<(Time, u64)>,
}

impl Until {
    fn forget_timer(&mut self) {
        if let (Some(ticket), Some(timer)) = (&self.ticket, self.timer.take()) {
            ticket.core.reactor.forget_timer(timer);
        }
    }
}

impl Future for Until {
    type Output = Result<Result<Completed, PostFailed>, TimedOut>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.forget_timer();
        let mut ticket = self.ticket.take().expect("it is not polled again after it was ready");
        if let Poll::Ready(outcome) = Pin::new(&mut ticket).poll(context) {
            return Poll::Ready(Ok(outcome));
        }
        if ticket.core.clock.now() >= self.deadline {
            return Poll::Ready(Err(TimedOut { ticket }));
        }
        self.timer = ticket.core.reactor.wake_at(self.deadline, context.waker().clone());
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        self.forget_timer();
    }
}
