//! Receiving a streamed body: pieces are lent from where they were received.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::driver;
use crate::error::{Applied, BodyError, CloseReason, StopReason};
use crate::reactor::Command;
use crate::session::inflow::{BodyPiece, End, Inflow};
use crate::sync::Mutex;

use super::patience::Patience;
use super::{Core, Peer};

/// The receiving end of a streamed body of any length: with a request or message, from
/// [`Incoming::take_body`](crate::Incoming::take_body); with a reply, from
/// [`Reply::take_body`](crate::Reply::take_body).
///
/// Its sender is 256 KiB ahead at most, for which there is memory here: whoever reads slowly holds the sender
/// of this body back, and nothing else.
///
/// Dropping it before the end gives the body up: its writer gets [`BodyError::Refused`].
pub struct BodyReader {
    core: Arc<Core>,
    flow: Arc<Inflow>,
    /// Bytes lent.
    taken: u64,
    /// What has been read of as bytes, and from where on it has not.
    part: Option<(BodyPiece, usize)>,
    /// What every further read ends with.
    over: Option<Result<(), BodyError>>,
    patience: Patience,
}

/// A body that somebody may take, once. If nobody has by the time this is dropped, its writer is told so.
#[derive(Debug)]
pub(crate) struct Untaken {
    /// In a box: most of what may have one has none.
    body: Mutex<Option<Box<BodyReader>>>,
}

impl Untaken {
    pub(crate) fn new(body: BodyReader) -> Self {
        Self { body: Mutex::new(Some(Box::new(body))) }
    }

    pub(crate) fn take(&self) -> Option<BodyReader> {
        self.body.lock().take().map(|body| *body)
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(body) = self.take() {
            body.flow.stop(StopReason::NotTaken);
        }
    }
}

/// Has the receiver of a connection look again what it may grant.
struct Retry(Arc<Core>);

impl Wake for Retry {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.reactor.submit(Command::Retry(Arc::clone(&self.0)));
    }
}

impl BodyReader {
    pub(crate) fn new(core: &Arc<Core>, flow: Arc<Inflow>) -> Self {
        flow.set_retry(Waker::from(Arc::new(Retry(Arc::clone(core)))));
        let patience = Patience::new(core.reactor.common.stall_timeout);
        Self { core: Arc::clone(core), flow, taken: 0, part: None, over: None, patience }
    }

    /// Who it comes from.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }

    /// Bytes that have been lent so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// For how long a read waits at most for the sender to go on, before it gives the body up with
    /// [`BodyError::Silent`]. At first, as long as a peer may stall
    /// ([`EndpointConfig::stall_timeout`](crate::EndpointConfig::stall_timeout)). While this process is stopped, or its
    /// handlers keep the driver from the links, no time passes for this but 100 ms each time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience.set(patience, &self.core);
    }

    /// The next piece, in order and never empty; nothing at the end. It begins where reading as bytes has got to,
    /// if that is in the middle of one. While pieces are held, less comes: each
    /// keeps a block of 64 KiB, and there are four.
    ///
    /// # Errors
    /// See [`BodyError`]. What came before an error is lent before it, and every further read ends with the
    /// same.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<BodyPiece>, BodyError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`next`](Self::next), blocking this thread, which drives the links meanwhile, as in
    /// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn next_blocking(&mut self) -> Result<Option<BodyPiece>, BodyError> {
        self.core.assert_real();
        let core = Arc::clone(&self.core);
        driver::block_on(&core.reactor, self.next())
    }

    /// Gives the body up: nothing more of it is taken. Its writer gets [`BodyError::Refused`] with this
    /// reason.
    pub fn cancel(self, code: u32, text: &str) {
        self.flow.stop(StopReason::Program { code, text: text.to_owned() });
    }

    pub(super) fn poll_next(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<BodyPiece>, BodyError>> {
        if let Some((piece, from)) = self.part.take() {
            return Poll::Ready(Ok(Some(piece.skip(from))));
        }
        if let Some(over) = &self.over {
            return Poll::Ready(over.clone().map(|()| None));
        }
        let mut polled = self.flow.poll_next(context.waker());
        if polled.is_pending() && self.core.closed().is_some() {
            // What came before it ended is there by now.
            polled = match self.flow.poll_next(context.waker()) {
                Poll::Pending => Poll::Ready(Err(End::Closed)),
                ready => ready,
            };
        }
        let Poll::Ready(next) = polled else {
            if let Err(silent) = self.patience.wait(&self.core, context) {
                self.flow.stop(StopReason::Silent);
                self.over = Some(Err(silent.clone()));
                return Poll::Ready(Err(silent));
            }
            self.core.reactor.ensure_driver();
            return Poll::Pending;
        };
        self.patience.end_wait(&self.core);
        let over = match next {
            Ok(piece) => {
                self.taken += piece.len() as u64;
                return Poll::Ready(Ok(Some(piece)));
            }
            Err(End::Whole) => Ok(()),
            Err(End::Aborted(reason)) => Err(BodyError::Aborted(reason)),
            Err(End::Closed) => {
                let reason = self.core.closed().cloned().unwrap_or(CloseReason::Closed);
                Err(BodyError::Disconnected { applied: Applied::Maybe, reason })
            }
        };
        self.over = Some(over.clone());
        Poll::Ready(over.map(|()| None))
    }
}

#[cfg(feature = "streams")]
impl BodyReader {
    /// What has not been read of the piece that is read as bytes.
    pub(super) fn part_read(&self) -> &[u8] {
        self.part.as_ref().map_or(&[], |(piece, from)| &piece[*from..])
    }

    /// Reads `piece` as bytes.
    pub(super) fn set_part(&mut self, piece: Option<BodyPiece>) {
        self.part = piece.map(|piece| (piece, 0));
    }

    /// `count` bytes more have been read of it.
    ///
    /// # Panics
    /// If it has fewer.
    pub(super) fn consume_part(&mut self, count: usize) {
        if let Some((piece, from)) = &mut self.part {
            *from += count;
            assert!(*from <= piece.len(), "no more is consumed than there is");
            if *from == piece.len() {
                self.part = None;
            }
        }
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.patience.end_wait(&self.core);
        self.flow.stop(StopReason::Dropped);
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("peer", &self.core.peer())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}
