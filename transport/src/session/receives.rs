//! Posted receives, and messages that have come before one was posted for them.
//!
//! Receives are matched in the order in which they were posted with messages in the order in which
//! they have come; a large one comes with its announcement. A message that fits is copied out of the
//! receive buffer, or received into its place straight away if it is cut or comes in chunks. One
//! without a receive waits here: a short one is copied, and holds on to its window; a large one is
//! not granted anything, and takes no memory. A receive that is too short for the next message fails,
//! and the message waits for one that is long enough: nothing is ever lost.

mod waiting;

use std::task::Waker;

use crate::frame::Header;
use crate::memory::{Memory, MemoryError};
use crate::sync::Mutex;

use super::posting::{Claim, Undone};

use waiting::{Next, Waiting};

/// Who is given messages that are not answered. Requests always go to the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Messages {
    /// The endpoint's handler, where they were received.
    #[default]
    Handled,
    /// Whoever has posted a receive on the connection, or calls
    /// [`Connection::receive`](crate::Connection::receive).
    Posted,
}

/// The receiving half of posted buffers of one connection.
#[derive(Debug)]
pub(crate) struct Receives {
    messages: Messages,
    state: Mutex<State>,
}

/// Invariant: while a receive is posted, no message waits.
#[derive(Debug, Default)]
struct State {
    posted: std::collections::VecDeque<Claim>,
    waiting: Waiting,
    /// Large messages that have been announced and matched, by number, until they are received.
    matched: Vec<(u64, Claim)>,
    closed: bool,
    /// Bytes of the last message.
    last_len: usize,
}

/// What is to be done after a receive has been posted.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// Headers of messages that have been handed over, whose window is to be let go of.
    pub(crate) taken: Vec<Header>,
    /// A large message can be received now.
    pub(crate) is_landing: bool,
    /// Who is to be woken.
    pub(crate) wakers: Vec<Waker>,
}

impl Receives {
    pub(crate) fn new(messages: Messages) -> Self {
        Self { messages, state: Mutex::default() }
    }

    /// Whether messages come here.
    #[inline]
    pub(crate) fn are_posted(&self) -> bool {
        self.messages == Messages::Posted
    }

    /// Whether somebody waits for a message.
    pub(crate) fn is_posted(&self) -> bool {
        self.are_posted() && {
            let state = self.state.lock();
            !state.posted.is_empty() || !state.matched.is_empty()
        }
    }

    /// How many messages have come whole for which no receive has been posted.
    pub(crate) fn waiting(&self) -> usize {
        if self.are_posted() { self.state.lock().waiting.whole() } else { 0 }
    }

    /// Whether the next bytes are likely to be those of a long message that a posted buffer is there for.
    pub(super) fn expects(&self, len_min: usize) -> bool {
        self.are_posted() && {
            let state = self.state.lock();
            state.last_len >= len_min && !state.posted.is_empty()
        }
    }

    /// Posts a receive.
    pub(crate) fn post(&self, claim: Claim, memory: &Memory) -> Matched {
        let mut matched = Matched::default();
        if !self.are_posted() {
            matched.wakers.extend(claim.fail(Undone::Handled));
            return matched;
        }
        let mut state = self.state.lock();
        state.posted.push_back(claim);
        state.settle(memory, &mut matched);
        let abandoned = state.abandoned();
        drop(state);
        drop(abandoned);
        matched
    }

    /// Takes back a receive that no message has been matched with. Returns whether there was one.
    pub(crate) fn cancel(&self, is_it: impl Fn(&Claim) -> bool) -> bool {
        let mut state = self.state.lock();
        let at = state.posted.iter().position(is_it);
        let claim = at.and_then(|at| state.posted.remove(at));
        drop(state);
        claim.is_some()
    }

    /// A message has come, at `body`. Returns whether it has been handed over; otherwise it waits.
    ///
    /// # Errors
    /// When there is no memory for it to wait in.
    pub(super) fn arrive(
        &self,
        header: &Header,
        body: &[u8],
        memory: &Memory,
        wakers: &mut Vec<Waker>,
    ) -> Result<bool, MemoryError> {
        let mut state = self.state.lock();
        let Some(mut claim) = state.claim(body.len(), memory, wakers) else {
            state.waiting.push(header, body, memory)?;
            return Ok(false);
        };
        claim.mark_touched(body.len());
        claim.bytes()[..body.len()].copy_from_slice(body);
        wakers.extend(claim.complete(body.len()));
        Ok(true)
    }

    /// A message of `len` bytes is about to be received: its place, if one has been posted.
    pub(super) fn place(
        &self,
        len: usize,
        memory: &Memory,
        wakers: &mut Vec<Waker>,
    ) -> Option<Claim> {
        self.state.lock().claim(len, memory, wakers)
    }

    /// A large message of `len` bytes has been announced as transfer `number`.
    pub(super) fn announce(
        &self,
        number: u64,
        len: usize,
        memory: &Memory,
        wakers: &mut Vec<Waker>,
    ) {
        let mut state = self.state.lock();
        match state.claim(len, memory, wakers) {
            Some(claim) => state.matched.push((number, claim)),
            None => state.waiting.push_announced(number, len),
        }
    }

    /// Whether a receive has been matched with transfer `number`.
    pub(super) fn is_matched(&self, number: u64) -> bool {
        self.state.lock().matched.iter().any(|(matched, _)| *matched == number)
    }

    /// The receive that has been matched with transfer `number`.
    pub(super) fn take_matched(&self, number: u64) -> Option<Claim> {
        let mut state = self.state.lock();
        let at = state.matched.iter().position(|(matched, _)| *matched == number)?;
        Some(state.matched.remove(at).1)
    }

    /// Transfer `number` comes no more. Whoever was to have it, `claim` if it had begun, is the first to
    /// have the next message.
    pub(super) fn forget(&self, number: u64, claim: Option<Claim>, memory: &Memory) -> Matched {
        let claim = claim.or_else(|| self.take_matched(number));
        let mut matched = Matched::default();
        let mut state = self.state.lock();
        match claim {
            Some(claim) => state.posted.push_front(claim),
            None => state.waiting.forget(number),
        }
        state.settle(memory, &mut matched);
        matched
    }

    /// Nothing more comes: gives all buffers back but those that are being received into. What has come
    /// whole is still handed over.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.forget_announced();
        let matched = std::mem::take(&mut state.matched);
        let abandoned = state.abandoned();
        drop(state);
        drop((matched, abandoned));
    }
}

impl State {
    /// The next receive that a message of `len` bytes fits into, unless messages wait before it. Those
    /// that it does not fit into fail.
    fn claim(&mut self, len: usize, memory: &Memory, wakers: &mut Vec<Waker>) -> Option<Claim> {
        self.last_len = len;
        loop {
            let claim = self.posted.pop_front()?;
            if let Some(claim) = claim.fit(len, memory, wakers) {
                return Some(claim);
            }
        }
    }

    /// Hands over what waits, as far as there are receives for it.
    fn settle(&mut self, memory: &Memory, to: &mut Matched) {
        while let Some(next) = self.waiting.front()
            && let Some(claim) = self.posted.pop_front()
        {
            let Some(mut claim) = claim.fit(next.len(), memory, &mut to.wakers) else { continue };
            match next {
                Next::Announced { number, .. } => {
                    self.matched.push((number, claim));
                    to.is_landing = true;
                }
                Next::Whole { header, body } => {
                    claim.mark_touched(body.len());
                    claim.bytes()[..body.len()].copy_from_slice(body);
                    to.wakers.extend(claim.complete(body.len()));
                    to.taken.push(header);
                }
            }
            self.waiting.pop_front();
        }
    }

    /// Receives that nothing will come for.
    fn abandoned(&mut self) -> std::collections::VecDeque<Claim> {
        if self.closed { std::mem::take(&mut self.posted) } else { Default::default() }
    }
}

#[cfg(test)]
mod tests;
