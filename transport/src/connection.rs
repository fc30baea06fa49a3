//! One connection: what its users, its senders and its reactor share.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::body::Body;
use crate::call::{CallKey, CallTable, Refused, Sent};
use crate::credit::{ReceiveCredit, SendCredit};
use crate::error::{Applied, CallError, CloseReason, SendError};
use crate::frame::{Class, Kind, frame_len};
use crate::handshake::{Windows, encode_goodbye};
use crate::identity::{Incarnation, NodeId};
use crate::lane::Producer;
use crate::limits::{BATCH_BYTES, MESSAGE_MAX};
use crate::link::{Link, Transfer};
use crate::local;
use crate::memory::{Memory, MemoryError};
use crate::outbound::{Lanes, Outbound, Progress, Traffic};
use crate::reactor::{Command, ReactorHandle};
use crate::record::write_record;
use crate::reply::Reply;
use crate::time::{Clock, Time};

/// A send that follows another within this time, with nothing come back in between, is taken for
/// part of a stream and left to the endpoint's own thread, which gathers.
const STREAM_GAP: Duration = Duration::from_micros(20);

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
        if !core.send_credit.try_reserve(Class::Request, frame_len(len)) {
            CreditWait::new(core, len, Some(deadline)).await.map_err(|failed| match failed {
                WaitFailed::Deadline => CallError::DeadlineExceeded { applied: Applied::No },
                WaitFailed::Closed(reason) => {
                    CallError::Disconnected { applied: Applied::No, reason }
                }
            })?;
        }
        let key = match core.calls.begin(deadline, None) {
            Ok(key) => key,
            Err(Refused::Closed(reason)) => {
                return Err(CallError::Disconnected { applied: Applied::No, reason });
            }
            Err(Refused::Full) => SlotWait { core, deadline }.await.inspect_err(|_| {
                core.send_credit.cancel(Class::Request, frame_len(len));
            })?,
        };
        let replies = Replies { core: Arc::clone(core), key };
        core.reactor.note_deadline(deadline);
        let (sent, backlog) = core.write(Kind::Request, key.0, body).map_err(CallError::Memory)?;
        core.calls.written(key, sent);
        core.committed(backlog);
        if let Some(reason) = core.closed() {
            // It closed while the call began, which may have missed this one.
            let applied = if core.lanes.has_left(sent) { Applied::Maybe } else { Applied::No };
            return Err(CallError::Disconnected { applied, reason: reason.clone() });
        }
        Ok(replies)
    }

    /// Sends a message that is not answered. It is sent when this returns, or soon after; waits
    /// only for the window.
    ///
    /// # Errors
    /// See [`SendError`]. Success means that the message was taken, not that it has arrived.
    #[inline]
    pub async fn send(&self, body: impl Body) -> Result<(), SendError> {
        let len = body.len();
        if len > MESSAGE_MAX {
            return Err(SendError::TooLarge { len, limit: MESSAGE_MAX });
        }
        let core = &self.core;
        if !core.send_credit.try_reserve(Class::Request, frame_len(len)) {
            CreditWait::new(core, len, None).await.map_err(|failed| match failed {
                WaitFailed::Closed(reason) => SendError::Disconnected(reason),
                WaitFailed::Deadline => unreachable!("a wait without a deadline"),
            })?;
        }
        if let Some(reason) = core.closed() {
            return Err(SendError::Disconnected(reason.clone()));
        }
        let (_, backlog) = core.write(Kind::Message, 0, body).map_err(SendError::Memory)?;
        core.committed(backlog);
        Ok(())
    }

    /// Sends what this thread has committed, now. Nothing has to be flushed to be sent; this is
    /// for callers who know that nothing more comes.
    pub fn flush(&self) {
        self.core.flush(false);
    }

    /// Ends the connection. Calls that wait fail.
    pub fn close(&self) {
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
    pub fn next(&mut self) -> impl Future<Output = Option<Result<Reply, CallError>>> {
        std::future::poll_fn(|context| self.core.calls.poll_reply(self.key, context.waker()))
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.core.calls.end(self.key);
    }
}

/// What the users, senders and reactor of a connection share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: u64,
    /// Its place among its reactor's connections.
    pub(crate) place: AtomicUsize,
    pub(crate) link: Link,
    pub(crate) address: SocketAddr,
    /// Whether this side connected.
    pub(crate) initiated: bool,
    pub(crate) calls: CallTable,
    pub(crate) send_credit: SendCredit,
    pub(crate) receive_credit: ReceiveCredit,
    pub(crate) lanes: Lanes,
    pub(crate) reactor: Arc<ReactorHandle>,
    pub(crate) memory: Memory,
    pub(crate) clock: Clock,
    peer: OnceLock<Peer>,
    closed: OnceLock<CloseReason>,
    /// The sender role.
    sender: Mutex<Outbound>,
    /// Somebody has promised to flush.
    scheduled: AtomicBool,
    /// The link is full; the reactor flushes when it has room.
    blocked: AtomicBool,
    /// When the last flush ended, in nanoseconds.
    flushed_at: AtomicU64,
    /// Something other than credit has come since.
    pub(crate) heard: AtomicBool,
    /// Another connection to the same node is used in its place; it ends when it is idle.
    pub(crate) retired: AtomicBool,
    /// When something last came or went, in nanoseconds: the order of least recent use.
    pub(crate) used_at: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        id: u64,
        link: Link,
        address: SocketAddr,
        initiated: bool,
        windows: &Windows,
        reactor: &Arc<ReactorHandle>,
    ) -> Self {
        Self {
            id,
            place: AtomicUsize::new(usize::MAX),
            link,
            address,
            initiated,
            calls: CallTable::new(),
            send_credit: SendCredit::new(),
            receive_credit: ReceiveCredit::new(windows),
            lanes: Lanes::default(),
            reactor: Arc::clone(reactor),
            memory: reactor.common.memory.clone(),
            clock: reactor.common.clock.clone(),
            peer: OnceLock::new(),
            closed: OnceLock::new(),
            sender: Mutex::default(),
            scheduled: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            flushed_at: AtomicU64::new(0),
            heard: AtomicBool::new(true),
            retired: AtomicBool::new(false),
            used_at: AtomicU64::new(reactor.common.clock.now().nanos()),
        }
    }

    pub(crate) fn peer(&self) -> &Peer {
        self.peer.get().expect("a connection is handed out once the peer has said hello")
    }

    pub(crate) fn peer_if_greeted(&self) -> Option<&Peer> {
        self.peer.get()
    }

    pub(crate) fn closed(&self) -> Option<&CloseReason> {
        self.closed.get()
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::SeqCst)
    }

    /// The peer has said hello: from here on, frames may be sent to it.
    pub(crate) fn open(&self, peer: Peer, windows: &Windows) {
        self.peer.get_or_init(|| peer);
        self.sender.lock().open = true;
        for class in Class::ALL {
            self.send_credit.grant(class, u64::from(windows.of(class)), &mut Vec::new());
        }
    }

    /// Writes a frame into this thread's lane, and returns where it lies and how much of the lane
    /// waits to be sent. Its credit has been reserved, and is given back if there is no memory.
    #[inline]
    fn write(
        self: &Arc<Self>,
        kind: Kind,
        id: u64,
        body: impl Body,
    ) -> Result<(Sent, u64), MemoryError> {
        let len = body.len();
        let written = local::with_lane(self, |producer| {
            let position = write_record(
                producer,
                &self.memory,
                (kind, Class::Request, id, false),
                body,
                None,
            )?;
            self.lanes.announce(producer);
            Ok((Sent { lane: producer.lane().index, position }, producer.backlog()))
        });
        if written.is_err() {
            self.send_credit.cancel(Class::Request, frame_len(len));
        }
        written
    }

    /// Sees to it that what this thread has just committed is sent: by this thread, by whoever is
    /// in a turn, or by the endpoint's own thread (the three cases of the sender role).
    #[inline]
    fn committed(self: &Arc<Self>, backlog: u64) {
        if backlog >= BATCH_BYTES as u64 {
            self.flush(false);
        } else if !local::defer(self) {
            self.send_soon();
        }
    }

    /// As [`committed`](Self::committed), when nobody has been told yet.
    pub(crate) fn send_soon(self: &Arc<Self>) {
        if self.scheduled.load(Ordering::SeqCst) || self.blocked.load(Ordering::SeqCst) {
            return self.reactor.ensure_driver();
        }
        if self.reactor.is_in_turn() {
            self.schedule();
            if self.reactor.is_in_turn() {
                return;
            }
        } else if self.is_streaming() {
            self.schedule();
            self.reactor.wake_driver();
            return;
        }
        self.flush(false);
        self.reactor.ensure_driver();
    }

    /// Whether the last send was a moment ago and nothing but credit has come since.
    fn is_streaming(&self) -> bool {
        if self.heard.load(Ordering::Relaxed) {
            return false;
        }
        let flushed_at = Time::from_nanos(self.flushed_at.load(Ordering::Relaxed));
        self.clock.now().since(flushed_at) < STREAM_GAP
    }

    /// Puts the connection on the list of those that the reactor flushes.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if !self.scheduled.swap(true, Ordering::SeqCst) {
            self.reactor.push_dirty(Arc::clone(self));
        }
    }

    /// Takes the sender role, if it is free, and sends all that is committed. `writable` says that
    /// the poller has found room on the link.
    pub(crate) fn flush(self: &Arc<Self>, writable: bool) {
        if self.blocked.load(Ordering::SeqCst) && !writable {
            return;
        }
        loop {
            // Whoever holds the role looks again after releasing it.
            let Some(mut outbound) = self.sender.try_lock() else { return };
            self.scheduled.store(false, Ordering::SeqCst);
            self.heard.store(false, Ordering::Relaxed);
            let progress = outbound.transmit(&self.lanes, &self.receive_credit, &self.link);
            let was_blocked = self.blocked.load(Ordering::SeqCst);
            let is_blocked = matches!(progress, Ok(Progress::Blocked));
            self.blocked.store(is_blocked, Ordering::SeqCst);
            drop(outbound);
            fence(Ordering::SeqCst);
            if let Err(error) = progress {
                return self.close(CloseReason::Link(error.kind()));
            }
            if is_blocked != was_blocked {
                self.reactor.submit(Command::WatchWritable(Arc::clone(self), is_blocked));
            }
            if is_blocked || !self.lanes.is_waiting() {
                break;
            }
        }
        self.flushed_at.store(self.clock.now().nanos(), Ordering::Relaxed);
    }

    /// Queues a greeting and sends it.
    pub(crate) fn greet(self: &Arc<Self>, frame: Vec<u8>) {
        self.lanes.greet(frame);
        self.flush(false);
    }

    /// Ends the connection: calls fail, waiters wake, and the peer is told why unless it is what
    /// told us.
    pub(crate) fn close(self: &Arc<Self>, reason: CloseReason) {
        if self.closed.set(reason).is_err() {
            return;
        }
        let reason = self.closed.get().expect("it was set above");
        let tell = !matches!(
            reason,
            CloseReason::PeerGone | CloseReason::Link(_) | CloseReason::Goodbye(_)
        );
        if let (true, Some(mut outbound)) = (tell, self.sender.try_lock()) {
            // A courtesy: if the link does not take it, the peer finds out by itself.
            self.lanes.greet(encode_goodbye(reason));
            let _ = outbound.transmit(&self.lanes, &self.receive_credit, &self.link);
        }
        self.link.finish();
        let mut wakers = Vec::new();
        self.calls.close(reason, |sent| self.lanes.has_left(sent), &mut wakers);
        self.send_credit.take_waiters(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        self.reactor.submit(Command::Closed(Arc::clone(self)));
    }

    /// What went out over the link.
    pub(crate) fn traffic(&self) -> Traffic {
        self.sender.lock().sent
    }

    /// A lane for a thread that has none yet.
    pub(crate) fn open_lane(&self) -> Result<Producer, MemoryError> {
        self.lanes.open(&self.memory)
    }
}

/// Waits for room in the request window.
struct CreditWait<'a> {
    core: &'a Core,
    len: usize,
    deadline: Option<Time>,
    noted: bool,
}

enum WaitFailed {
    Deadline,
    Closed(CloseReason),
}

impl<'a> CreditWait<'a> {
    fn new(core: &'a Core, len: usize, deadline: Option<Time>) -> Self {
        Self { core, len, deadline, noted: false }
    }
}

impl Future for CreditWait<'_> {
    type Output = Result<(), WaitFailed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.core;
        let cost = frame_len(self.len);
        if core.send_credit.reserve_or_wait(Class::Request, cost, context.waker()) {
            return Poll::Ready(Ok(()));
        }
        if let Some(reason) = core.closed() {
            return Poll::Ready(Err(WaitFailed::Closed(reason.clone())));
        }
        if let Some(deadline) = self.deadline {
            if core.clock.now() >= deadline {
                return Poll::Ready(Err(WaitFailed::Deadline));
            }
            if !std::mem::replace(&mut self.noted, true) {
                core.reactor.wake_at(deadline, context.waker().clone());
            }
        }
        core.reactor.ensure_driver();
        Poll::Pending
    }
}

/// Waits for a free slot in the call table.
struct SlotWait<'a> {
    core: &'a Core,
    deadline: Time,
}

impl Future for SlotWait<'_> {
    type Output = Result<CallKey, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.core.calls.begin(self.deadline, Some(context.waker())) {
            Ok(key) => Poll::Ready(Ok(key)),
            Err(Refused::Closed(reason)) => {
                Poll::Ready(Err(CallError::Disconnected { applied: Applied::No, reason }))
            }
            Err(Refused::Full) if self.core.clock.now() >= self.deadline => {
                Poll::Ready(Err(CallError::DeadlineExceeded { applied: Applied::No }))
            }
            Err(Refused::Full) => {
                self.core.reactor.wake_at(self.deadline, context.waker().clone());
                Poll::Pending
            }
        }
    }
}
