//! What the users, senders and reactor of a connection share.

mod sender;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use crate::body::Body;
use crate::error::{CallError, CloseReason};
use crate::frame::{Class, Kind, frame_len};
use crate::handshake::{Windows, encode_goodbye};
use crate::lane::Producer;
use crate::limits::{BATCH_BYTES, GATHER_MIN, LEAVE_TIMEOUT, OVERLAP_BYTES};
use crate::link::{Link, Transfer};
use crate::local::{self, OwnLane};
use crate::memory::{Charge, Memory, MemoryError, Shared};
use crate::reactor::{Command, ReactorHandle};
use crate::reply::Reply;
use crate::session::Session;
use crate::session::call::{CallKey, Sent};
use crate::session::outbound::{Traffic, Unannounced};
use crate::session::record::write_record;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, Time};

use super::Peer;

pub(super) use self::sender::Committed;

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
    pub(crate) session: Session,
    pub(crate) reactor: Arc<ReactorHandle>,
    pub(crate) memory: Memory,
    pub(crate) clock: Clock,
    peer: OnceLock<Peer>,
    closed: OnceLock<CloseReason>,
    leaving: OnceLock<Box<Leave>>,
    /// It counts among the endpoint's connections.
    pub(crate) counts: AtomicBool,
    /// Bodies that came on it and that handlers have kept.
    pub(crate) retained: AtomicUsize,
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
    /// The peer has left it for another connection that is not known here yet.
    pub(crate) told_early: AtomicBool,
    /// When something last came, in nanoseconds: the order of least recent use.
    pub(crate) used_at: AtomicU64,
    /// Whether something is under way that only its reactor sees.
    pub(crate) busy: AtomicBool,
    _charges: Charges,
}

/// That no calls and messages begin on a connection any more, on this side or on that of the peer who has
/// said so. What is under way ends first.
#[derive(Debug)]
pub(crate) struct Leave {
    pub(crate) reason: CloseReason,
    /// The peer leaves; this side ends the connection when nothing is under way.
    pub(crate) is_peer: bool,
    /// When it ends whatever is under way.
    pub(crate) by: Time,
}

/// Why a frame was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// There is no window for it now.
    NoRoom,
    /// There is no memory for it.
    NoMemory,
}

/// Count a connection against the limit, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Charges {
    /// For its state.
    pub(crate) _session: Charge,
    /// For memory that its link shares with the peer.
    pub(crate) _shared: Option<Charge>,
}

impl Core {
    pub(crate) fn new(
        id: u64,
        link: Link,
        address: SocketAddr,
        initiated: bool,
        windows: &Windows,
        reactor: &Arc<ReactorHandle>,
        charges: Charges,
    ) -> Self {
        Self {
            id,
            place: AtomicUsize::new(usize::MAX),
            link,
            address,
            initiated,
            session: Session::new(windows, reactor.common.messages),
            reactor: Arc::clone(reactor),
            memory: reactor.common.memory.clone(),
            clock: reactor.common.clock.clone(),
            peer: OnceLock::new(),
            closed: OnceLock::new(),
            leaving: OnceLock::new(),
            counts: AtomicBool::new(true),
            retained: AtomicUsize::new(0),
            scheduled: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            flushed_at: AtomicU64::new(0),
            heard: AtomicBool::new(true),
            retired: AtomicBool::new(false),
            told_early: AtomicBool::new(false),
            used_at: AtomicU64::new(reactor.common.clock.now().nanos()),
            busy: AtomicBool::new(true),
            _charges: charges,
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

    pub(crate) fn leaving(&self) -> Option<&Leave> {
        self.leaving.get().map(|leaving| &**leaving)
    }

    /// Why nothing begins on it any more, if so: it has been closed, or left.
    pub(crate) fn ended(&self) -> Option<&CloseReason> {
        self.closed().or_else(|| self.leaving().map(|leaving| &leaving.reason))
    }

    /// When something last came, credit included.
    pub(crate) fn last_used(&self) -> Time {
        Time::from_nanos(self.used_at.load(Ordering::Relaxed))
    }

    /// Whether nothing is under way on it, so that it can be closed to make room: no call, no body that a
    /// handler keeps or a receive waits for, and no window that has been reserved and not used.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_settled()
            && self.retained.load(Ordering::SeqCst) == 0
            && !self.session.sends.is_waiting()
            && !self.session.receives.is_posted()
            && self.session.receives.waiting() == 0
    }

    /// Whether this side has nothing under way that the peer has yet to take or to answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.closed().is_none()
            && !self.busy.load(Ordering::SeqCst)
            && self.session.send_credit.reserved() == self.session.lanes.taken_bytes()
            && self.session.calls.pending() == 0
            && !self.is_blocked()
            && !self.session.is_waiting()
            && self.session.departures.is_idle()
    }

    /// The peer has said hello: from here on, frames may be sent to it.
    pub(crate) fn open(&self, peer: Peer, windows: &Windows, features: u64) {
        self.peer.get_or_init(|| peer);
        self.session.open(windows, features);
    }

    /// Reserves window for a message or reply, if there is some, and writes it into this thread's lane.
    ///
    /// What goes in and out is small or behind a reference: bodies and errors that are moved through
    /// memory cost more than the rest of the way.
    #[inline]
    pub(super) fn try_send<B: Body>(
        self: &Arc<Self>,
        header: (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
        len: usize,
    ) -> Result<Committed, Unwritten> {
        let mut reserved = false;
        let committed = local::with_lane(self, |lane| {
            reserved = lane.try_reserve(self, header.1, frame_len(len));
            if !reserved {
                return Err(Unwritten::NoRoom);
            }
            self.write_to(lane, header, body, tail).map(|(_, committed)| committed)
        });
        // Without memory for a lane, it has not come to reserving.
        if committed.is_err() && reserved {
            self.give_back(header.1, len);
        }
        committed
    }

    /// Writes a message or reply for which window has been reserved into this thread's lane, or gives the
    /// window back.
    pub(super) fn send_reserved<B: Body>(
        self: &Arc<Self>,
        header: (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
        len: usize,
    ) -> Result<Committed, Unwritten> {
        let committed = local::with_lane(self, |lane| {
            self.write_to(lane, header, body, tail).map(|(_, committed)| committed)
        });
        committed.inspect_err(|_| self.give_back(header.1, len))
    }

    /// Writes a request for which window has been reserved into this thread's lane, and notes where
    /// it lies, or gives the window back.
    #[inline]
    pub(super) fn request<B: Body>(
        self: &Arc<Self>,
        (key, class, deadline): (CallKey, Class, Time),
        body: &mut Option<B>,
        len: usize,
        waker: &Waker,
    ) -> Result<(Sent, Committed), Unwritten> {
        let written = local::with_lane(self, |lane| {
            let call = self.session.calls.open(key, deadline, waker);
            let written = self.write_to(lane, (Kind::Request, class, key.0), body, &mut None)?;
            call.written(written.0);
            Ok(written)
        });
        written.inspect_err(|_| self.give_back(class, len))
    }

    /// The next reply of `key`, and whether it was the last.
    #[inline]
    pub(super) fn poll_reply(
        &self,
        key: CallKey,
        waker: &Waker,
    ) -> Poll<(Result<Reply, CallError>, bool)> {
        let polled = self.session.calls.poll_reply(key, waker);
        if polled.is_pending() {
            // Whoever drove when the request was sent may have gone.
            self.reactor.ensure_driver();
        }
        polled
    }

    /// Gives back window that was reserved for a frame with a body of `len` bytes.
    #[cold]
    pub(super) fn give_back(&self, class: Class, len: usize) {
        self.session.send_credit.cancel(class, frame_len(len));
    }

    #[inline]
    fn write_to<B: Body>(
        &self,
        lane: &mut OwnLane,
        (kind, class, id): (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
    ) -> Result<(Sent, Committed), Unwritten> {
        let body = body.take().expect("a body is written once");
        let tail = tail.take();
        let gathered = tail.as_ref().map_or(0, |tail| tail.len());
        // A long body lies elsewhere.
        let in_lane = frame_len(if body.len() < GATHER_MIN { body.len() } else { 0 });
        let header = (kind, class, id, false);
        let position = write_record(&mut lane.producer, &self.memory, header, body, tail)
            .map_err(|error| lane.refused(error))?;
        let backlog = lane.producer.backlog() + gathered as u64;
        let sent = Sent { lane: lane.producer.lane().index, position };
        // A batch is full when one more record like this one would not go into the same write.
        let is_full = backlog + in_lane as u64 > BATCH_BYTES as u64;
        let is_enough = is_full || kind != Kind::Message && backlog >= OVERLAP_BYTES;
        let unannounced = Unannounced::of(&lane.producer);
        let committed = match is_enough && self.takes_more() {
            true => Committed::Batch { unannounced, long: is_full },
            false if lane.is_deferred() => Committed::Deferred,
            false => Committed::Alone(unannounced),
        };
        Ok((sent, committed))
    }

    /// Leaves the connection, unless something is under way on it: nothing begins on it any more, and the
    /// peer, who is told, ends it when what it has under way has ended. Returns whether it is left.
    pub(crate) fn try_leave(self: &Arc<Self>, reason: CloseReason) -> bool {
        if self.leaving().is_some() {
            return false;
        }
        let credit = &self.session.send_credit;
        credit.shut();
        let frame = encode_goodbye(&reason);
        let by = self.clock.now() + LEAVE_TIMEOUT;
        let leaving = Box::new(Leave { reason, is_peer: false, by });
        if !self.is_idle() || self.leaving.set(leaving).is_err() {
            if self.leaving().is_none() {
                credit.reopen();
            }
            return false;
        }
        let mut wakers = Vec::new();
        credit.take_waiters(&mut wakers);
        self.session.departures.take_waiters(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        self.greet(frame);
        self.reactor.submit(Command::Left(Arc::clone(self)));
        true
    }

    /// The peer leaves: what this side has under way ends before the connection does.
    pub(crate) fn peer_leaves(self: &Arc<Self>, reason: CloseReason, wakers: &mut Vec<Waker>) {
        self.session.send_credit.shut();
        let leaving = Box::new(Leave { reason, is_peer: true, by: Time::MAX });
        if let Err(leaving) = self.leaving.set(leaving) {
            // Both leave, so neither has anything under way.
            return self.close(leaving.reason);
        }
        self.session.send_credit.take_waiters(wakers);
        self.session.departures.take_waiters(wakers);
        self.reactor.submit(Command::Left(Arc::clone(self)));
    }

    /// Ends the connection: calls fail, waiters wake, and the peer is told why unless it is what
    /// told us.
    pub(crate) fn close(self: &Arc<Self>, reason: CloseReason) {
        let reason = match self.leaving() {
            Some(leaving) if reason == CloseReason::PeerGone => leaving.reason.clone(),
            _ => reason,
        };
        if self.closed.set(reason).is_err() {
            return;
        }
        let reason = self.closed.get().expect("it was set above");
        let tell = self.leaving().is_none()
            && !matches!(
                reason,
                CloseReason::PeerGone | CloseReason::Link(_) | CloseReason::Goodbye(_)
            );
        let mut discarded = Vec::new();
        if let (true, Some(mut outbound)) = (tell, self.session.outbound.try_lock()) {
            // What is still to be told about large bodies, and their chunks, would come behind it.
            discarded = self.session.departures.discard();
            // A courtesy: if the link does not take it, the peer finds out by itself.
            self.session.lanes.greet(encode_goodbye(reason));
            let _ = outbound.transmit(&self.session, &self.link);
        }
        // Before anybody is told that a request has not left.
        self.session.lanes.end();
        self.link.finish();
        drop(discarded);
        self.session.sends.abandon();
        self.session.receives.close();
        let mut wakers = Vec::new();
        self.session.calls.close(reason, |sent| self.session.has_left(sent), &mut wakers);
        self.session.send_credit.take_waiters(&mut wakers);
        self.session.departures.take_waiters(&mut wakers);
        self.session.departures.take_writers(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        self.reactor.submit(Command::Closed(Arc::clone(self)));
    }

    /// What went out over the link.
    pub(crate) fn traffic(&self) -> Traffic {
        self.session.outbound.lock().sent
    }

    /// A lane for a thread that has none yet.
    pub(crate) fn open_lane(&self) -> Result<Producer, MemoryError> {
        self.session.lanes.open(&self.memory)
    }
}
