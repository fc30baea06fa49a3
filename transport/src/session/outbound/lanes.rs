//! The lanes of a connection, as their producers see them, and which of them have something.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::lane::{Consumer, Lane, Producer, lane};
use crate::memory::{Memory, MemoryError};
use crate::session::call::Sent;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, RwLock};

/// Of so many lanes, one after the other, each has a bit of its own.
pub(super) const LANES_A_BIT: usize = u64::BITS as usize;

/// The bit that stands for lane `index`.
pub(super) fn bit_of(index: u32) -> u64 {
    1 << (index as usize % LANES_A_BIT)
}

/// A lane that somebody has committed records to and not told of: to be announced, or sent. It goes by its
/// bit, of which there may be none, in a byte, so that it costs next to nothing to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Unannounced(u8);

impl Unannounced {
    /// Nothing but what has been announced.
    pub(crate) const NONE: Self = Self(u8::MAX);

    /// The lane of `producer`.
    #[inline]
    pub(crate) fn of(producer: &Producer) -> Self {
        Self((producer.lane().index as usize % LANES_A_BIT) as u8)
    }

    #[inline]
    pub(super) fn bits(self) -> u64 {
        1u64.checked_shl(self.0.into()).unwrap_or(0)
    }
}

/// The lanes of a connection, as producers see them.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Lanes with records that the sender has not looked for: bit `i` stands for lane `i` and for
    /// every 64th after it.
    pub(super) ready: CachePadded<AtomicU64>,
    pub(super) lanes: RwLock<Vec<Option<Arc<Lane>>>>,
    pub(super) arriving: Mutex<Vec<Consumer>>,
    /// How many lanes have ever been opened.
    pub(super) opened: AtomicU64,
    /// Frames of the connection itself: greetings.
    pub(super) greetings: Mutex<VecDeque<Vec<u8>>>,
    /// There are some.
    pub(super) greets: AtomicBool,
    /// Bytes that have been taken for sending: the peer cannot have received more.
    pub(super) taken_bytes: AtomicU64,
    /// Nothing more is sent: what has not been taken by now never leaves.
    pub(super) ended: AtomicBool,
}

impl Lanes {
    /// A new lane for a thread that has none yet.
    pub(crate) fn open(&self, memory: &Memory) -> Result<Producer, MemoryError> {
        let mut lanes = self.lanes.write();
        let index = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        let (producer, consumer) = lane(index as u32, memory)?;
        if index == lanes.len() {
            lanes.push(None);
        }
        lanes[index] = Some(Arc::clone(producer.lane()));
        self.arriving.lock().push(consumer);
        self.opened.fetch_add(1, Ordering::Release);
        Ok(producer)
    }

    /// After a record: makes sure that the sender will look at the lanes. The sender takes the bits
    /// down before it looks, and either way is a full fence, so one of the two sees the other.
    #[inline]
    pub(crate) fn announce(&self, unannounced: Unannounced) {
        if unannounced != Unannounced::NONE {
            self.ready.fetch_or(unannounced.bits(), Ordering::SeqCst);
        }
    }

    /// The same for all records of all threads: those in a scope have not told of theirs, and may be busy with something else for
    /// long.
    pub(crate) fn announce_every(&self) {
        self.ready.fetch_or(u64::MAX, Ordering::SeqCst);
    }

    /// A producer goes away; its lane is dropped once it has been sent.
    pub(crate) fn retire(&self, producer: Producer) {
        let lane = Arc::clone(producer.lane());
        drop(producer);
        self.ready.fetch_or(bit_of(lane.index), Ordering::SeqCst);
    }

    /// Queues a frame of the connection itself.
    pub(crate) fn greet(&self, frame: Vec<u8>) {
        self.greetings.lock().push_back(frame);
        self.greets.store(true, Ordering::SeqCst);
    }

    /// Whether there is something that the sender has not been told of.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.ready.load(Ordering::Relaxed) != 0 || self.greets.load(Ordering::Relaxed)
    }

    /// Bytes that have been taken for sending.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::SeqCst)
    }

    /// Has nothing more sent. What [has not left](Self::has_left) when this returns never does: a sender
    /// takes requests before it looks whether it may send them, and either of the two, what it has taken
    /// and that it may not, is seen by the other side.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether nothing more is sent. Whoever asks for themselves sees what has been taken until then.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = self.ended.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        ended
    }

    /// Whether a sender that has taken something may not send it.
    #[inline]
    pub(super) fn may_not_send(&self) -> bool {
        // Behind the count of what has been taken, which is a full fence.
        self.ended.load(Ordering::SeqCst)
    }

    /// Lets go of bodies that nobody will send.
    pub(super) fn discard(&self) {
        for lane in self.lanes.read().iter().flatten() {
            lane.discard_tails();
        }
    }

    /// Whether any byte of the request at `sent` has been taken.
    pub(crate) fn has_left(&self, sent: Sent) -> bool {
        let lanes = self.lanes.read();
        // A lane that is gone has been sent to its end.
        lanes
            .get(sent.lane as usize)
            .is_none_or(|lane| lane.as_ref().is_none_or(|lane| lane.has_taken(sent.position)))
    }
}
