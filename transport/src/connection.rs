//! One connection, as its users hold it: calls, messages, replies.

mod core;
mod sending;
mod wait;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::body::Body;
use crate::error::{Applied, CallError, CloseReason};
use crate::frame::{Class, frame_len};
use crate::identity::{Incarnation, NodeId};
use crate::limits::MESSAGE_MAX;
use crate::link::LinkKind;
use crate::local;
use crate::memory::Shared;
use crate::reply::Reply;
use crate::session::call::{CallKey, Refused};
use crate::time::Time;

use wait::{CreditWait, SlotWait, WaitFailed};

pub use self::sending::Sending;

pub(crate) use self::core::{Charges, Core, Unwritten};

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Its address on the link.
    pub address: SocketAddr,
}

/// A connection to another endpoint. Clones are the same connection; dropping them does not close
/// it, so that the next [`Endpoint::connect`](crate::Endpoint::connect) finds it open.
#[derive(Debug, Clone)]
pub struct Connection {
    pub(crate) core: Arc<Core>,
}

impl Connection {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }

    /// What it runs over.
    pub fn link(&self) -> LinkKind {
        self.core.link.kind()
    }

    /// Whether it has not ended, as far as this side knows.
    pub fn is_open(&self) -> bool {
        self.core.closed().is_none()
    }

    /// Calls the peer's handler and waits for its one reply. Of a reply in parts, the first.
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::applied`] tells whether the call may have had its effect.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call: the request may still be sent and have its effect,
    /// and a reply is dropped.
    #[inline]
    pub async fn call(&self, body: impl Body, deadline: Time) -> Result<Reply, CallError> {
        let mut replies = self.call_streamed(body, deadline).await?;
        match replies.next().await {
            Some(reply) => reply,
            None => Err(CallError::Disconnected {
                applied: Applied::Maybe,
                reason: CloseReason::Violation("a call that ended without a reply"),
            }),
        }
    }

    /// Calls the peer's handler, which may reply in several parts.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    #[inline]
    pub async fn call_streamed(
        &self,
        body: impl Body,
        deadline: Time,
    ) -> Result<Replies, CallError> {
        let len = body.len();
        if len > MESSAGE_MAX {
            return Err(CallError::TooLarge { len, limit: MESSAGE_MAX });
        }
        let core = &self.core;
        if !core.session.send_credit.try_reserve(Class::Request, frame_len(len)) {
            CreditWait::new(core, len, deadline).await.map_err(|failed| match failed {
                WaitFailed::Deadline => CallError::DeadlineExceeded { applied: Applied::No },
                WaitFailed::Closed(reason) => {
                    CallError::Disconnected { applied: Applied::No, reason }
                }
            })?;
        }
        let key = match core.session.calls.begin(deadline, None) {
            Ok(key) => key,
            Err(Refused::Closed(reason)) => {
                return Err(CallError::Disconnected { applied: Applied::No, reason });
            }
            Err(Refused::Full) => SlotWait { core, deadline }.await.inspect_err(|_| {
                core.session.send_credit.cancel(Class::Request, frame_len(len));
            })?,
        };
        let replies = Replies { core: Arc::clone(core), key };
        core.reactor.note_deadline(deadline);
        let (sent, committed) = core
            .request(key, &mut Some(body))
            .map_err(|_| CallError::Memory(core.unwritten(len)))?;
        core.committed(committed);
        if let Some(reason) = core.closed() {
            // It closed while the call began, which may have missed this one.
            let applied =
                if core.session.lanes.has_left(sent) { Applied::Maybe } else { Applied::No };
            return Err(CallError::Disconnected { applied, reason: reason.clone() });
        }
        Ok(replies)
    }

    /// Sends a message that is not answered. It is sent when this returns, or soon after; waits
    /// only for the window.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError). Success means that the message was taken, not that it has arrived.
    #[inline]
    pub fn send<B: Body>(&self, body: B) -> Sending<'_, B> {
        Sending::new(&self.core, body, None)
    }

    /// Sends a message that is not answered: `head`, which is copied, then `tail`, which is gathered
    /// from where it lies and held until it has been sent.
    ///
    /// # Errors
    /// See [`SendError`](crate::SendError).
    pub fn send_shared<B: Body>(&self, head: B, tail: Shared) -> Sending<'_, B> {
        Sending::new(&self.core, head, Some(tail))
    }

    /// Sends what this thread has committed, now. Nothing has to be flushed to be sent; this is
    /// for callers who know that nothing more comes.
    pub fn flush(&self) {
        local::announce_all();
        self.core.flush(false);
    }

    /// Ends the connection. Calls that wait fail.
    pub fn close(&self) {
        local::announce_all();
        self.core.close(CloseReason::Closed);
    }
}

/// The replies of one call, in order. Dropping it gives up the call.
#[derive(Debug)]
pub struct Replies {
    core: Arc<Core>,
    key: CallKey,
}

impl Replies {
    /// The next part, or nothing after the last.
    ///
    /// # Errors
    /// See [`CallError`]; after an error nothing more comes.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an asynchronous iterator's usual name")]
    pub fn next(&mut self) -> impl Future<Output = Option<Result<Reply, CallError>>> {
        std::future::poll_fn(|context| {
            self.core.session.calls.poll_reply(self.key, context.waker())
        })
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.core.session.calls.end(self.key);
    }
}
