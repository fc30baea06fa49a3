//! What the users, senders and reactor of a connection share.

mod ending;
mod sender;
mod writing;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use crate::error::{CallError, CloseReason};
use crate::frame::Class;
use crate::handshake::Windows;
use crate::lane::Producer;
use crate::link::Link;
use crate::memory::{Charge, Memory, MemoryError};
use crate::reactor::ReactorHandle;
use crate::reply::Reply;
use crate::session::Session;
use crate::session::call::CallKey;
use crate::session::outbound::Traffic;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, Time};

use super::Peer;

pub(super) use self::sender::Committed;

pub(crate) use self::ending::Leave;
pub(crate) use self::writing::Unwritten;

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
    /// A handler has panicked with something that came by it.
    forsaken: AtomicBool,
    /// The endpoint ends: nothing begins any more that would have to wait.
    refuses: AtomicBool,
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
            forsaken: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
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

    /// Whether no handler is to be given what has come by it.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.forsaken.load(Ordering::SeqCst)
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

    /// Why nothing is sent in `class` any more, if so. What a connection that has been left still carries are replies.
    #[inline]
    pub(crate) fn ended_for(&self, class: Class) -> Option<&CloseReason> {
        match class {
            Class::Reply => self.closed(),
            Class::Replication | Class::Request => self.ended(),
        }
    }

    /// Why nobody is to wait for room in `class`, if so: there will be none.
    pub(crate) fn refused_for(&self, class: Class) -> Option<&CloseReason> {
        self.ended_for(class).or_else(|| {
            let refuses = class != Class::Reply && self.refuses.load(Ordering::SeqCst);
            refuses.then_some(&CloseReason::ShutDown)
        })
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

    /// What went out over the link.
    pub(crate) fn traffic(&self) -> Traffic {
        self.session.outbound.lock().sent
    }

    /// A lane for a thread that has none yet.
    pub(crate) fn open_lane(&self) -> Result<Producer, MemoryError> {
        self.session.lanes.open(&self.memory)
    }
}
