//! Sending one message, or the reply to a call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::body::Body;
use crate::error::SendError;
use crate::frame::{Class, Kind, frame_len};
use crate::limits::MESSAGE_MAX;
use crate::local;
use crate::memory::Shared;
use crate::session::departures::queued_cost;

use super::large::Room;
use super::{Core, Unwritten};

/// Sends one message or reply; see [`Connection::send`](super::Connection::send). Written by hand, since an
/// `async fn` moves the body through memory several times, which costs more than sending it.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sending<'a, B> {
    core: &'a Arc<Core>,
    header: (Kind, Class, u64),
    body: Option<B>,
    tail: Option<Shared>,
}

/// Nothing is pinned: the body is moved out when it is written.
impl<B> Unpin for Sending<'_, B> {}

impl<'a, B: Body> Sending<'a, B> {
    #[inline]
    pub(super) fn message(
        core: &'a Arc<Core>,
        class: Class,
        body: B,
        tail: Option<Shared>,
    ) -> Self {
        Self { core, header: (Kind::Message, class, 0), body: Some(body), tail }
    }

    /// The one reply to call `id`.
    pub(crate) fn reply(core: &'a Arc<Core>, id: u64, body: B, tail: Option<Shared>) -> Self {
        Self { core, header: (Kind::Reply, Class::Reply, id), body: Some(body), tail }
    }

    /// Sends a message or a reply, unless there is no window for it now or it is longer than one frame. Whoever waits for window loses no
    /// wake-up to this. A `tail` that was not sent for want of room is still there.
    pub(crate) fn try_now(
        core: &'a Arc<Core>,
        header: (Kind, Class, u64),
        body: B,
        tail: &mut Option<Shared>,
    ) -> Poll<Result<(), SendError>> {
        let len = body.len() + tail.as_ref().map_or(0, |tail| tail.len());
        if let Some(reason) = core.ended_for(header.1) {
            return Poll::Ready(Err(SendError::Disconnected(reason.clone())));
        }
        if len > MESSAGE_MAX {
            return Poll::Pending;
        }
        match core.try_send(header, &mut Some(body), tail, len) {
            Ok(committed) => {
                core.committed(committed);
                Poll::Ready(Ok(()))
            }
            Err(Unwritten::NoRoom) => Poll::Pending,
            Err(Unwritten::NoMemory) => {
                Poll::Ready(Err(SendError::Memory(local::take_refusal(core))))
            }
        }
    }

    /// Bytes of the whole body; nothing once it has been sent.
    #[inline]
    fn len(&self) -> usize {
        let head = self.body.as_ref().map_or(0, Body::len);
        head + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    /// There was no window for it.
    #[cold]
    fn wait(&mut self, len: usize, context: &Context<'_>) -> Poll<Result<(), SendError>> {
        let (core, header) = (self.core, self.header);
        let credit = &core.session.send_credit;
        if !credit.reserve_or_wait(header.1, frame_len(len), context.waker()) {
            if let Some(reason) = core.refused_for(self.header.1) {
                return Poll::Ready(Err(SendError::Disconnected(reason.clone())));
            }
            core.reactor.ensure_driver();
            return Poll::Pending;
        }
        let committed = core.send_reserved(header, &mut self.body, &mut self.tail, len);
        Poll::Ready(match committed {
            Ok(committed) => {
                core.committed(committed);
                Ok(())
            }
            Err(_) => Err(SendError::Memory(local::take_refusal(core))),
        })
    }

    /// It is too long for one frame.
    #[cold]
    fn poll_large(&mut self, len: usize, context: &Context<'_>) -> Poll<Result<(), SendError>> {
        let core = self.core;
        let limit = core.session.departures.body_max();
        if len > limit {
            return Poll::Ready(Err(SendError::TooLarge { len, limit }));
        }
        if let Some(reason) = core.ended_for(self.header.1) {
            return Poll::Ready(Err(SendError::Disconnected(reason.clone())));
        }
        let (kind, class, id) = self.header;
        let head = self.body.as_ref().map_or(0, Body::len);
        let cost = queued_cost(kind, head, self.tail.as_ref());
        let room = match std::task::ready!(Room::poll(core, class, cost, context)) {
            Ok(room) => room,
            Err(reason) => return Poll::Ready(Err(SendError::Disconnected(reason))),
        };
        let body = self.body.take().expect("a body is written once");
        let sent = room.send((kind, id), body, self.tail.take());
        Poll::Ready(sent.map(drop).map_err(SendError::Memory))
    }
}

impl<B: Body> Future for Sending<'_, B> {
    type Output = Result<(), SendError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.core;
        let len = self.len();
        if len > MESSAGE_MAX {
            return self.poll_large(len, context);
        }
        if let Some(reason) = core.ended_for(self.header.1) {
            return Poll::Ready(Err(SendError::Disconnected(reason.clone())));
        }
        let Self { header, body, tail, .. } = &mut *self;
        match core.try_send(*header, body, tail, len) {
            Ok(committed) => {
                core.committed(committed);
                Poll::Ready(Ok(()))
            }
            Err(Unwritten::NoRoom) => self.wait(len, context),
            Err(Unwritten::NoMemory) => {
                Poll::Ready(Err(SendError::Memory(local::take_refusal(core))))
            }
        }
    }
}
