//! One connection, as its users hold it: calls, messages, replies.

mod body_reader;
#[cfg(feature = "streams")]
mod body_tokio;
mod body_writer;
mod calling;
mod core;
mod ended;
mod large;
mod opening;
mod outstanding;
mod patience;
mod posts;
mod sending;
mod wait;

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use crate::body::Body;
use crate::driver;
use crate::endpoint::Sleep;
use crate::error::{Applied, CallError, CloseReason, SendError};
use crate::frame::{Class, Kind, frame_len};
use crate::identity::{Incarnation, NodeId};
use crate::limits::MESSAGE_MAX;
use crate::link::LinkKind;
use crate::local;
use crate::memory::{Memory, Shared};
use crate::reply::Reply;
use crate::session::call::{CallKey, Refused, Sent};
use crate::time::{Clock, Time};

use large::RoomWait;
use outstanding::Outstanding;
use wait::{CreditWait, Reserved, SlotWait, WaitFailed};

pub use self::body_reader::BodyReader;
pub use self::body_writer::BodyWriter;
pub use self::calling::Calling;
pub use self::ended::Ended;
pub use self::posts::Receiving;
pub use self::sending::Sending;

pub(crate) use self::body_reader::Untaken;
pub(crate) use self::core::{Charges, Core, Unwritten};
pub(crate) use self::ended::Endings;
pub(crate) use self::large::write_head;
pub(crate) use self::opening::check_head;

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
    /// What it sends in.
    class: Class,
}

impl Connection {
    /// As clients have it.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, class: Class::Request }
    }

    /// The same connection, for what a node sends on behalf of requests that it has not answered yet: to its
    /// backups, say, before the client hears that the write is done.
    ///
    /// Calls, messages and bodies of it have a window, call slots, transfers and memory that clients' requests do
    /// not take, so that nodes which are clients and backups of one another never wait in a circle: requests wait for
    /// what is sent by this, and that waits for replies alone. For that, whoever handles it has to answer without
    /// calling somebody else, and on a thread that does not wait for one who does: a
    /// [`HandlerPool`](crate::HandlerPool) has threads of their own for it. Posted buffers go with clients' requests
    /// nevertheless.
    #[must_use]
    pub fn for_replication(&self) -> Self {
        Self { core: Arc::clone(&self.core), class: Class::Replication }
    }

    /// Whether this thread is so far in ending that it can neither send nor call, which panics then: for destructors, which may be those of
    /// thread-local values. What is woken by a timer of [`sleep_until`](Self::sleep_until) runs elsewhere.
    pub fn is_thread_ending() -> bool {
        local::is_gone()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        self.core.peer()
    }

    /// Which connection of this process it is: no two have the same number, and clones have one.
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// What deadlines of its calls are told by.
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The memory that its frames are sent from and received into.
    pub fn memory(&self) -> &Memory {
        &self.core.memory
    }

    /// Runs `future` on this thread until it is done, as [`Endpoint::block_on`](crate::Endpoint::block_on) does, for whoever has a connection and
    /// not the endpoint.
    ///
    /// # Panics
    /// On a simulated endpoint, which only its simulator drives.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.core.assert_real();
        driver::block_on(&self.core.reactor, future)
    }

    /// What it runs over.
    pub fn link(&self) -> LinkKind {
        self.core.link.kind()
    }

    /// Whether it has not ended, as far as this side knows.
    pub fn is_open(&self) -> bool {
        self.core.ended().is_none()
    }

    /// Bytes of calls and messages that the peer can have under way to this side. Whoever [retains](crate::Incoming::retain) bodies holds up as many of
    /// them: all that do, for one connection, have to leave half of it, or nothing comes that they might wait for.
    pub fn receive_window(&self) -> u64 {
        self.core.session.receive_credit.under_way_max(self.class)
    }

    /// Waits until it has ended: nothing comes by it any more. What had come has been handed to the handler, unless this side has closed it, which
    /// may be while the handler is at work.
    pub fn ended(&self) -> Ended {
        Ended::new(&self.core)
    }

    /// The connection to the same life of the peer that has taken the place of this one, if this has ended as a
    /// [`Duplicate`](CloseReason::Duplicate): two nodes that connect to each other at once keep one. Calls go on there by themselves, messages do not.
    pub fn successor(&self) -> Option<Connection> {
        if !matches!(self.core.ended(), Some(CloseReason::Duplicate)) {
            return None;
        }
        used_now(&self.core).filter(|used| used.peer().incarnation == self.peer().incarnation)
    }

    /// Calls the peer's handler and waits for its one reply. Of a reply in parts, the first.
    ///
    /// Request and reply may have up to [`LARGE_MAX`](crate::limits::LARGE_MAX) bytes. One above
    /// [`MESSAGE_MAX`] goes in chunks, between which other traffic goes on, and others may overtake it;
    /// it takes a block of memory on each side, and there is one at the receiver before any of it goes.
    ///
    /// # Errors
    /// See [`CallError`]; [`CallError::applied`] tells whether the call may have had its effect.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call: the request may still be sent and have its effect,
    /// and a reply is dropped. What was not sent of a request above [`MESSAGE_MAX`] never is.
    #[inline]
    pub fn call<'a, B: Body + 'a>(&'a self, body: B, deadline: Time) -> Calling<'a, B> {
        Calling::new(self, body, deadline)
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
        Ok(self.begin(body, deadline).await?.into_replies())
    }

    /// Sends the request of a call, whatever has to be waited for before.
    #[inline]
    async fn begin(&self, body: impl Body, deadline: Time) -> Result<Outstanding<'_>, CallError> {
        let len = body.len();
        if len > MESSAGE_MAX {
            // In a box, or every call would carry its state.
            return Box::pin(self.begin_large(body, deadline)).await;
        }
        let class = self.class;
        let core = if local::try_reserve(&self.core, class, frame_len(len)) {
            Cow::Borrowed(&self.core)
        } else {
            Cow::Owned(self.reserve(len, deadline).await?)
        };
        let key = match core.session.calls.begin(class, None) {
            Ok(key) => key,
            Err(Refused::Closed(reason)) => {
                return Err(CallError::Disconnected { applied: Applied::No, reason });
            }
            Err(Refused::Full) => {
                // The call may be given up here as well as refused.
                let reserved = Reserved::new(&core, class, len);
                let key = SlotWait { core: &core, class, deadline }.await?;
                reserved.used();
                key
            }
        };
        let (mut core, mut body) = (Some(core), Some(body));
        poll_fn(|context| {
            let core = core.take().expect("it is polled once");
            let call = (key, class, deadline.into());
            Poll::Ready(Outstanding::send(core, call, &mut body, len, context.waker()))
        })
        .await
    }

    /// Waits for window for a request. It may be that of another connection to the same node, which has
    /// taken the place of this one.
    async fn reserve(&self, len: usize, deadline: Time) -> Result<Arc<Core>, CallError> {
        let mut core = Arc::clone(&self.core);
        loop {
            match CreditWait::new(&core, self.class, len, deadline).await {
                Ok(()) => return Ok(core),
                Err(failed) => core = successor(&core, failed)?,
            }
        }
    }

    /// As [`begin`](Self::begin), with a request that is too long for one frame.
    #[cold]
    async fn begin_large(
        &self,
        body: impl Body,
        deadline: Time,
    ) -> Result<Outstanding<'_>, CallError> {
        let (len, limit) = (body.len(), self.core.session.departures.body_max());
        if len > limit {
            return Err(CallError::TooLarge { len, limit });
        }
        let mut core = Arc::clone(&self.core);
        let room = loop {
            let failed = match RoomWait::new(&core, self.class, len, deadline).await {
                Ok(room) => break room,
                Err(failed) => failed,
            };
            core = successor(&core, failed)?;
        };
        let (call, key) = open_call(&core, self.class, deadline).await?;
        let ticket = room.send((Kind::Request, key.0), body, None).map_err(CallError::Memory)?;
        let sent = Sent { lane: Sent::LARGE, position: ticket };
        core.session.calls.written(key, sent);
        call.unless_closed(sent)
    }

    /// Sends a message that is not answered. It is sent when this returns, or soon after; waits
    /// only for the window. In [`block_on`](crate::Endpoint::block_on) it is sent with all else that the future sends until it
    /// waits for something: who computes for long before that [flushes](Self::flush).
    ///
    /// Messages of one thread arrive in the order in which they were sent, but for those above
    /// [`MESSAGE_MAX`] bytes: these go in chunks, as far as the peer has memory for them, and may be
    /// overtaken. They wait for one another when more than 16 MiB of them are to be sent. What the link has
    /// not taken when the connection ends is lost.
    ///
    /// A peer that could never have memory for a message ends the connection, for all who use it
    /// ([`CloseReason::Goodbye`], code 14), since nobody could be told otherwise: of its memory, one may take a quarter of
    /// what is not set aside, so that 64 MiB need 256 MiB there beside that. A [request](Self::call) that is too long fails alone.
    ///
    /// # Errors
    /// See [`SendError`]. Success means that the message was taken, not that it has arrived.
    #[inline]
    pub fn send<B: Body>(&self, body: B) -> Sending<'_, B> {
        Sending::message(&self.core, self.class, body, None)
    }

    /// Sends a message that is not answered: `head`, which is copied, then `tail`, which is gathered
    /// from where it lies and held until it has been sent.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_shared<B: Body>(&self, head: B, tail: Shared) -> Sending<'_, B> {
        Sending::message(&self.core, self.class, head, Some(tail))
    }

    /// As [`send_shared`](Self::send_shared), if there is window for it now and all of it is no longer than
    /// [`MESSAGE_MAX`]: for handlers, which wait for nobody. Pending if not; `tail` is left where it was then, and nobody is woken
    /// later.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn try_send(
        &self,
        head: impl Body,
        tail: &mut Option<Shared>,
    ) -> Poll<Result<(), SendError>> {
        Sending::try_now(&self.core, (Kind::Message, self.class, 0), head, tail)
    }

    /// Waits until that moment, by the endpoint's clock.
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep::new(&self.core.reactor, at)
    }

    /// Sends what this thread has committed, now. Nothing has to be flushed to be sent some time; this is
    /// for callers who know that nothing more comes, or that they will wait for nothing for a while.
    pub fn flush(&self) {
        local::announce_all();
        self.core.flush(false);
    }

    /// Ends the connection, now. Calls that wait fail, and messages are lost that the link has not taken yet, such as for
    /// want of room: certain that one has arrived is who has an answer to something that was sent after it.
    /// [`Endpoint::shutdown`](crate::Endpoint::shutdown) waits for them.
    pub fn close(&self) {
        local::announce_all();
        self.core.close(CloseReason::Closed);
    }
}

/// A call that waits for its reply, though its request has yet to be written: by what goes in chunks.
async fn open_call(
    core: &Arc<Core>,
    class: Class,
    deadline: Time,
) -> Result<(Outstanding<'static>, CallKey), CallError> {
    let key = match core.session.calls.begin(class, None) {
        Ok(key) => key,
        Err(Refused::Closed(reason)) => {
            return Err(CallError::Disconnected { applied: Applied::No, reason });
        }
        Err(Refused::Full) => SlotWait { core, class, deadline }.await?,
    };
    let call = Outstanding::new(Cow::Owned(Arc::clone(core)), key);
    poll_fn(|context| {
        drop(core.session.calls.open(key, deadline, context.waker()));
        Poll::Ready(())
    })
    .await;
    core.reactor.note_deadline(deadline);
    Ok((call, key))
}

/// The connection that has taken the place of `core`, which has failed a call before it began.
fn successor(core: &Arc<Core>, failed: WaitFailed) -> Result<Arc<Core>, CallError> {
    match failed {
        WaitFailed::Closed(CloseReason::Duplicate) => {
            used_now(core).map(|used| used.core).ok_or_else(|| failed.into())
        }
        _ => Err(failed.into()),
    }
}

/// Another connection to the same node, if there is one.
fn used_now(core: &Arc<Core>) -> Option<Connection> {
    let used = core.reactor.common.registry.connection(core.peer().node);
    used.filter(|used| !Arc::ptr_eq(&used.core, core))
}

/// The replies of one call, in order. Dropping it gives up the call.
#[derive(Debug)]
pub struct Replies {
    core: Arc<Core>,
    key: CallKey,
    /// The last has been taken.
    is_over: bool,
}

impl Replies {
    /// The next part, or nothing after the last.
    ///
    /// # Errors
    /// See [`CallError`]; after an error nothing more comes.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an asynchronous iterator's usual name")]
    pub fn next(&mut self) -> impl Future<Output = Option<Result<Reply, CallError>>> {
        poll_fn(|context| {
            if self.is_over {
                return Poll::Ready(None);
            }
            let polled = self.core.poll_reply(self.key, context.waker());
            polled.map(|(reply, last)| {
                self.is_over = last;
                Some(reply)
            })
        })
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.core.leave(self.key, self.is_over);
    }
}
