//! One posted buffer: what its ticket and the transport share of it until the transport is done.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::catching;
use crate::memory::{Block, Charge, Memory, MemoryError, Purpose};
use crate::registration::Registration;
use crate::sync::Mutex;

/// A posted buffer, from both sides.
#[derive(Debug)]
pub(crate) struct Posting {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Who waits for it to be done.
    waker: Option<Waker>,
    /// What its memory is registered with. Here, so that it stays if the ticket goes first.
    registration: Option<Registration>,
    outcome: Option<Outcome>,
    /// The ticket has had the outcome.
    is_taken: bool,
}

/// What has come of a posted buffer, which comes back with it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) block: Block,
    /// Bytes of the message.
    pub(crate) result: Result<usize, Undone>,
}

/// Why nothing came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// The message that came is longer than the buffer.
    TooLong { message: usize, buffer: usize },
    /// The message is longer than any may be.
    TooLarge { len: usize, limit: usize },
    /// There was no memory to receive it into.
    Memory(MemoryError),
    /// Messages go to the handler.
    Handled,
    /// The connection has ended first.
    Abandoned,
    /// A device may still read the buffer, and does not say when it is done. What comes back is an empty one.
    Lost,
}

impl Posting {
    pub(crate) fn new(registration: Option<Registration>) -> Arc<Self> {
        let state = State { waker: None, registration, outcome: None, is_taken: false };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// The transport is done with it. Returns who is to be woken.
    pub(crate) fn finish(&self, outcome: Outcome) -> Option<Waker> {
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        state.waker.take()
    }

    /// The transport will never be done with it, and keeps the buffer, registered as it is. Returns who is to be woken.
    pub(crate) fn lose(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.outcome.is_some() || state.is_taken {
            return None;
        }
        // Undoing it is for whoever may free the memory, which nobody does.
        std::mem::forget(state.registration.take());
        let block = Block::from_vector(Vec::new());
        state.outcome = Some(Outcome { block, result: Err(Undone::Lost) });
        state.waker.take()
    }

    /// Whether the transport is done with it.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.state.lock();
        state.outcome.is_some() || state.is_taken
    }

    /// Bytes of the message, once that is known and went well.
    pub(crate) fn length(&self) -> Option<usize> {
        self.state.lock().outcome.as_ref().and_then(|outcome| outcome.result.as_ref().ok()).copied()
    }

    /// What has come of it, or later; `waker` is woken then.
    ///
    /// # Panics
    /// When asked again after that.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<(Outcome, Option<Registration>)> {
        let mut state = self.state.lock();
        assert!(!state.is_taken, "a ticket is asked again after it has given its buffer back");
        let Some(outcome) = state.outcome.take() else {
            match &mut state.waker {
                Some(known) if known.will_wake(waker) => {}
                waiting => *waiting = Some(waker.clone()),
            }
            return Poll::Pending;
        };
        state.is_taken = true;
        Poll::Ready((outcome, state.registration.take()))
    }
}

/// A receive on its way to be filled. If nobody fills it, its buffer goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    posting: Arc<Posting>,
    place: Option<Place>,
}

/// Where a message is to go.
#[derive(Debug)]
pub(crate) enum Place {
    /// Into a buffer that has been posted.
    Buffer(Block),
    /// Into memory of the message's length, allocated when that is known.
    Allocated,
    /// Into such memory, which counts until its owner has it.
    Charged(Block, #[expect(dead_code, reason = "it counts for as long as it lives")] Charge),
}

impl Claim {
    pub(crate) fn new(posting: &Arc<Posting>, place: Place) -> Self {
        Self { posting: Arc::clone(posting), place: Some(place) }
    }

    pub(crate) fn is_of(&self, posting: &Arc<Posting>) -> bool {
        Arc::ptr_eq(&self.posting, posting)
    }

    /// Makes sure that a message of `len` bytes fits. If it does not, the receive has failed, and its
    /// buffer is back.
    pub(crate) fn fit(
        mut self,
        len: usize,
        memory: &Memory,
        wakers: &mut Vec<Waker>,
    ) -> Option<Self> {
        let undone = match self.place.as_ref().expect("it has not been filled") {
            Place::Buffer(block) if block.len() < len => {
                Undone::TooLong { message: len, buffer: block.len() }
            }
            Place::Buffer(_) | Place::Charged(..) => return Some(self),
            Place::Allocated => match memory.charge(len as u64, Purpose::Buffer) {
                Ok(charge) => {
                    let block = Block::from_vector(vec![0; len]);
                    self.place = Some(Place::Charged(block, charge));
                    return Some(self);
                }
                Err(error) => Undone::Memory(error),
            },
        };
        wakers.extend(self.fail(undone));
        None
    }

    /// The bytes of the buffer, which a message has been found to fit into.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self.place.as_mut().expect("it has not been filled") {
            Place::Buffer(block) | Place::Charged(block, _) => block,
            Place::Allocated => unreachable!("a message is fitted before it is received"),
        }
    }

    /// The first `len` bytes have been or are about to be written.
    pub(crate) fn mark_touched(&mut self, len: usize) {
        if let Some(Place::Buffer(block)) = &mut self.place {
            block.mark_touched(len);
        }
    }

    /// A message of `len` bytes is in the buffer. Returns who is to be woken.
    pub(crate) fn complete(mut self, len: usize) -> Option<Waker> {
        let place = self.place.take();
        self.finish(place, Ok(len))
    }

    /// Gives the buffer back with nothing in it. Returns who is to be woken.
    pub(crate) fn fail(mut self, undone: Undone) -> Option<Waker> {
        let place = self.place.take();
        self.finish(place, Err(undone))
    }

    fn finish(&self, place: Option<Place>, result: Result<usize, Undone>) -> Option<Waker> {
        let block = match place? {
            Place::Buffer(block) | Place::Charged(block, _) => block,
            Place::Allocated => Block::from_vector(Vec::new()),
        };
        self.posting.finish(Outcome { block, result })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let place = self.place.take();
        if let Some(waker) = self.finish(place, Err(Undone::Abandoned)) {
            catching::wake(waker);
        }
    }
}
