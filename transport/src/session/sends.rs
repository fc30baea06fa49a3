//! Posted sends: buffers that messages are sent from where they lie, and that come back then.
//!
//! They go in the order in which they were posted, as departures: gathered behind the small frames, a
//! long one in chunks. One that the peer's window has no room for waits here; what it takes is its
//! owner's memory, so that nothing else bounds how many do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use crate::catching;
use crate::frame::{Class, Kind, frame_len};
use crate::limits::{BATCH_BYTES, MESSAGE_MAX};
use crate::link::lent::Owner;
use crate::memory::{Block, Shared};
use crate::sync::Mutex;

use super::credit::SendCredit;
use super::departures::{ANNOUNCEMENT_COST, Departure, Departures};
use super::posting::{Outcome, Posting, Undone};

/// The sending half of posted buffers of one connection.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// What waits for window.
    waiting: VecDeque<Arc<Leaving>>,
    /// Bytes of frames that have found some since there last was a batch of them.
    unsent_bytes: usize,
}

/// A message that is sent from a posted buffer. The buffer goes back when nobody holds this any more:
/// the queue, the departure, or a piece of it in a batch.
#[derive(Debug)]
pub(crate) struct Leaving {
    posting: Arc<Posting>,
    /// There until it is dropped.
    body: Option<Shared>,
    len: usize,
    /// All of it has been taken for sending.
    gathered: AtomicBool,
    /// Bytes that the link has taken.
    sent: AtomicUsize,
}

impl Leaving {
    /// The first `len` bytes of `block`.
    pub(crate) fn new(posting: &Arc<Posting>, block: Block, len: usize) -> Arc<Self> {
        let body = Some(block.freeze().narrow(0..len));
        let (gathered, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { posting: Arc::clone(posting), body, len, gathered, sent })
    }

    /// What it takes of the window.
    fn cost(&self) -> usize {
        if self.len > MESSAGE_MAX { ANNOUNCEMENT_COST } else { frame_len(self.len) }
    }

    /// All of it has been taken for sending.
    pub(super) fn note_gathered(&self) {
        self.gathered.store(true, Ordering::Relaxed);
    }

    /// The link has taken `count` bytes more.
    pub(super) fn note_sent(&self, count: usize) {
        self.sent.fetch_add(count, Ordering::Relaxed);
    }
}

impl Owner for Leaving {
    fn lose(&self) {
        if let Some(waker) = self.posting.lose() {
            catching::wake(waker);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let body = self.body.take().expect("it is taken here alone");
        let block = body.try_reclaim().expect("pieces of a body are let go of before it is");
        let is_sent = *self.gathered.get_mut() && *self.sent.get_mut() == self.len;
        let result = if is_sent { Ok(self.len) } else { Err(Undone::Abandoned) };
        if let Some(waker) = self.posting.finish(Outcome { block, result }) {
            catching::wake(waker);
        }
    }
}

/// How far a push got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pushed {
    /// Something is to be sent.
    pub(crate) any: bool,
    /// With what was left before, it is enough for a write.
    pub(crate) is_batch: bool,
    /// Some of it is announced.
    pub(crate) large: bool,
}

impl Sends {
    /// Adds a message to the end; [`push`](Self::push) is to be called then.
    pub(crate) fn add(&self, leaving: Arc<Leaving>) {
        self.queue.lock().waiting.push_back(leaving);
    }

    /// Takes back what waits for window and belongs to `posting`. Returns whether there was such.
    pub(crate) fn cancel(&self, posting: &Arc<Posting>) -> bool {
        let mut queue = self.queue.lock();
        let is_it = |leaving: &Arc<Leaving>| Arc::ptr_eq(&leaving.posting, posting);
        let at = queue.waiting.iter().position(is_it);
        let leaving = at.and_then(|at| queue.waiting.remove(at));
        drop(queue);
        leaving.is_some()
    }

    /// Has sent what the window has room for. If something is left, `waker` is woken when there is more.
    pub(crate) fn push(
        &self,
        credit: &SendCredit,
        departures: &Departures,
        waker: &Waker,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        let mut queue = self.queue.lock();
        while let Some(leaving) = queue.waiting.front() {
            if !credit.reserve_or_wait(Class::Request, leaving.cost(), waker) {
                break;
            }
            let leaving = queue.waiting.pop_front().expect("it was just there");
            pushed.any = true;
            pushed.large |= leaving.len > MESSAGE_MAX;
            queue.unsent_bytes += frame_len(leaving.len);
            let body = leaving.body.clone().expect("it is there until it is dropped");
            let header = (Kind::Message, Class::Request, 0, false);
            departures.push(Departure::posted(header, body, leaving));
        }
        if queue.unsent_bytes >= BATCH_BYTES {
            queue.unsent_bytes = 0;
            pushed.is_batch = true;
        }
        pushed
    }

    /// Whether something waits for window.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Gives back what has not been sent: nothing more is.
    pub(crate) fn abandon(&self) {
        let abandoned = std::mem::take(&mut self.queue.lock().waiting);
        drop(abandoned);
    }
}
