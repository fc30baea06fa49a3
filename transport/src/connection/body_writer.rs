//! Sending a streamed body: what is written goes as the receiver takes it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::driver;
use crate::error::{Applied, BodyError, CloseReason, StopReason};
use crate::limits::{BODY_COPIED_MAX, CHUNK_BYTES};
use crate::memory::{Filling, Purpose, Shared};
use crate::session::outbound::Unannounced;
use crate::session::outflow::{Outflow, Over};

use super::patience::Patience;
use super::{Core, Peer};

/// The sending end of a streamed body of any length; see
/// [`Connection::send_body`](super::Connection::send_body),
/// [`Connection::call_body`](super::Connection::call_body) and
/// [`Batch::reply_body`](crate::Batch::reply_body).
///
/// What is written waits here until 64 KiB are together or [`send_now`](Self::send_now) is called, and goes as
/// the receiver takes it: with 256 KiB on their way and as much waiting, a write waits. Other traffic of the
/// connection goes on meanwhile.
///
/// [`finish`](Self::finish) ends the body. Dropping the writer without that gives the body up: its reader gets
/// [`BodyError::Aborted`], behind what was sent before.
pub struct BodyWriter {
    core: Arc<Core>,
    flow: Arc<Outflow>,
    /// What is being filled, and from where on it has not been handed on.
    filling: Option<(Filling, usize)>,
    /// Bytes written.
    written: u64,
    patience: Patience,
}

impl BodyWriter {
    pub(crate) fn new(core: &Arc<Core>, flow: Arc<Outflow>) -> Self {
        let patience = Patience::new(core.reactor.common.stall_timeout);
        Self { core: Arc::clone(core), flow, filling: None, written: 0, patience }
    }

    /// Who it goes to.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }

    /// Bytes that have been written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// For how long a write waits at most for the receiver to take something, before it gives the body up with
    /// [`BodyError::Silent`]. At first, as long as a peer may stall
    /// ([`EndpointConfig::stall_timeout`](crate::EndpointConfig::stall_timeout)). While this process is stopped, or its
    /// handlers keep the driver from the links, no time passes for this but 100 ms each time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience.set(patience, &self.core);
    }

    /// Writes all of `bytes`, which are copied.
    ///
    /// # Errors
    /// See [`BodyError`]. The body has ended then, and every further write fails likewise.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a part of `bytes` written, which [`written`](Self::written) tells.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = poll_fn(|context| self.poll_write(context, rest)).await?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Writes all of `bytes`, which are gathered from where they lie and held until they have been sent,
    /// unless they are so few that copying costs less.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Dropping the future leaves all of it written or nothing; of up to 4 KiB, as for `write`.
    pub async fn write_shared(&mut self, bytes: Shared) -> Result<(), BodyError> {
        if bytes.len() <= BODY_COPIED_MAX {
            return self.write(&bytes).await;
        }
        poll_fn(|context| self.poll_room(context)).await?;
        let before = self.hand_on();
        self.written += bytes.len() as u64;
        let is_news = self.flow.write(bytes) || before;
        self.send(is_news);
        Ok(())
    }

    /// Has what has been written sent, though it does not fill a chunk.
    pub fn send_now(&mut self) {
        self.hand_on();
        let is_news = self.flow.flush();
        self.send(is_news);
    }

    /// As [`send_now`](Self::send_now), and waits until all of it has been sent: taken by the link, not by its
    /// reader.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Once the future has been polled what has been written is sent, whether it is dropped or not.
    pub async fn flush(&mut self) -> Result<(), BodyError> {
        poll_fn(|context| self.poll_sent(context)).await
    }

    /// Ends the body, and waits until all of it has been sent: taken by the link, not by its reader. Returns
    /// its length in bytes.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Cancel safety
    /// Once the future has been polled the body ends, whether it is dropped or not.
    pub async fn finish(mut self) -> Result<u64, BodyError> {
        poll_fn(|context| self.poll_finish(context)).await?;
        Ok(self.written)
    }

    /// Gives the body up: nothing more of it is sent. Its reader gets [`BodyError::Aborted`] with this reason.
    pub fn abort(self, code: u32, text: &str) {
        self.give_up(StopReason::Program { code, text: text.to_owned() });
    }

    /// As [`write`](Self::write), blocking this thread, which drives the links meanwhile, as in
    /// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn write_blocking(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        let core = self.real_core();
        driver::block_on(&core.reactor, self.write(bytes))
    }

    /// As [`write_shared`](Self::write_shared), blocking this thread, which drives the links meanwhile, as in
    /// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn write_shared_blocking(&mut self, bytes: Shared) -> Result<(), BodyError> {
        let core = self.real_core();
        driver::block_on(&core.reactor, self.write_shared(bytes))
    }

    /// As [`finish`](Self::finish), blocking this thread, which drives the links meanwhile, as in
    /// [`Endpoint::block_on`](crate::Endpoint::block_on): not for handlers.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn finish_blocking(self) -> Result<u64, BodyError> {
        let core = self.real_core();
        driver::block_on(&core.reactor, self.finish())
    }

    fn real_core(&self) -> Arc<Core> {
        self.core.assert_real();
        Arc::clone(&self.core)
    }

    /// Copies a part of `bytes`, of which there are some, when there is room. Returns how many.
    pub(super) fn poll_write(
        &mut self,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, BodyError>> {
        std::task::ready!(self.poll_room(context))?;
        let (filling, _) = match &mut self.filling {
            Some(filling) => filling,
            None => match self.core.memory.allocate(CHUNK_BYTES, Purpose::Send) {
                Ok(block) => self.filling.insert((block.fill_up(), 0)),
                Err(error) => {
                    self.give_up(StopReason::Memory);
                    return Poll::Ready(Err(BodyError::Memory(error)));
                }
            },
        };
        // No further than a chunk goes, so that the next one begins with a block.
        let to_end = CHUNK_BYTES - (self.written % CHUNK_BYTES as u64) as usize;
        let count = bytes.len().min(to_end).min(filling.unfilled().len());
        filling.unfilled()[..count].copy_from_slice(&bytes[..count]);
        filling.fill(count);
        let is_full = count == to_end || filling.unfilled().is_empty();
        self.written += count as u64;
        if is_full {
            let is_news = self.hand_on();
            self.filling = None;
            self.send(is_news);
        }
        Poll::Ready(Ok(count))
    }

    /// Is ready when all that has been written has been sent.
    pub(super) fn poll_sent(&mut self, context: &Context<'_>) -> Poll<Result<(), BodyError>> {
        self.send_now();
        let sent = self.flow.poll_sent(context.waker());
        self.unless_ended(sent, context)
    }

    /// Ends the body, and is ready when all of it has been sent.
    pub(super) fn poll_finish(&mut self, context: &Context<'_>) -> Poll<Result<(), BodyError>> {
        if !self.flow.is_left() {
            self.hand_on();
            self.filling = None;
            self.flow.finish();
            self.send(true);
        }
        let over = match self.flow.poll_over(context.waker()) {
            Poll::Ready(over) => over,
            Poll::Pending => match self.poll_ended(context) {
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(over)) => over,
                None => return Poll::Pending,
            },
        };
        self.patience.end_wait(&self.core);
        Poll::Ready(match over {
            Over::Whole => Ok(()),
            over => Err(self.error(over)),
        })
    }

    /// Whether there is room for more.
    fn poll_room(&mut self, context: &Context<'_>) -> Poll<Result<(), BodyError>> {
        let room = self.flow.poll_room(context.waker());
        self.unless_ended(room, context)
    }

    /// What has come of a poll, or that nothing ever will.
    fn unless_ended(
        &mut self,
        polled: Poll<Result<(), Over>>,
        context: &Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        let room = match polled {
            Poll::Ready(room) => room,
            Poll::Pending => match self.poll_ended(context) {
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(over)) => Err(over),
                None => return Poll::Pending,
            },
        };
        self.patience.end_wait(&self.core);
        Poll::Ready(room.map_err(|over| self.error(over)))
    }

    /// The receiver has taken nothing. Returns why it never will, if that is so.
    fn poll_ended(&mut self, context: &Context<'_>) -> Option<Result<Over, BodyError>> {
        if self.core.closed().is_some() {
            // What is sent from here on was not sent before: whether it has begun is certain then.
            self.core.abandon_sends();
            return Some(Ok(match self.flow.poll_over(context.waker()) {
                Poll::Ready(over) => over,
                Poll::Pending => Over::Closed,
            }));
        }
        if let Err(silent) = self.patience.wait(&self.core, context) {
            self.give_up(StopReason::Silent);
            return Some(Err(silent));
        }
        self.core.reactor.ensure_driver();
        None
    }

    fn error(&self, over: Over) -> BodyError {
        match over {
            Over::Refused(reason) => BodyError::Refused(reason),
            Over::Aborted => BodyError::Aborted(StopReason::Dropped),
            Over::Whole | Over::Closed => {
                let applied = if self.flow.is_opened() { Applied::Maybe } else { Applied::No };
                let reason = self.core.closed().cloned().unwrap_or(CloseReason::Closed);
                BodyError::Disconnected { applied, reason }
            }
        }
    }

    /// Hands what has been copied on to the sender. Returns whether that may send something by now.
    fn hand_on(&mut self) -> bool {
        let Some((filling, handed_on)) = &mut self.filling else { return false };
        let (from, to) = (*handed_on, filling.filled());
        *handed_on = to;
        self.flow.write(filling.part(from..to))
    }

    fn give_up(&self, reason: StopReason) {
        let is_news = self.flow.abort(reason);
        self.send(is_news);
    }

    /// Sees to it that it is sent, if there is something.
    fn send(&self, is_news: bool) {
        if is_news {
            self.core.session.departures.note_written();
            self.core.send_soon(Unannounced::NONE);
        }
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.patience.end_wait(&self.core);
        if !self.flow.is_left() {
            self.give_up(StopReason::Dropped);
        }
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter")
            .field("peer", &self.core.peer())
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}
