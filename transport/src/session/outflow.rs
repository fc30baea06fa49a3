//! A streamed body on its way out: what its writer has written and the sender has not taken yet.
//!
//! The writer and whoever holds the sender role meet here. The writer is held back as long as a window of
//! bytes waits; the sender takes a chunk at a time, as far as the receiver has granted. A chunk is full,
//! unless the writer has said that what is there is to go.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::error::StopReason;
use crate::limits::{BODY_AHEAD_MAX, BODY_PIECES_MAX, CHUNK_BYTES};
use crate::memory::Shared;
use crate::sync::Mutex;

/// What the writer and the sender of one body share.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In order; none is empty.
    pieces: VecDeque<Shared>,
    /// Bytes in them.
    queued: usize,
    /// Bytes that the sender has taken before.
    taken: u64,
    /// Bytes up to here go even if they do not fill a chunk.
    due: u64,
    /// Its head has been taken for sending, so that chunks may follow.
    opened: bool,
    /// Nothing more is written.
    finished: bool,
    /// The writer has given it up, which the receiver is to be told.
    aborted: Option<StopReason>,
    over: Option<Over>,
    /// The writer's, while it waits.
    waker: Option<Waker>,
}

/// How it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// All of it has been taken for sending.
    Whole,
    /// The receiver takes nothing more.
    Refused(StopReason),
    /// The writer gave it up.
    Aborted,
    /// Nothing is sent any more on the connection.
    Closed,
}

/// A part of what is sent.
#[derive(Debug)]
pub(super) enum Part {
    /// A chunk of so many bytes begins.
    Chunk(usize),
    /// The next bytes of it.
    Piece(Shared),
}

/// What the sender is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Send the next so many bytes.
    Chunk(usize),
    /// Say that it has ended, all of it having been sent.
    End,
    /// Say that it has been given up, and why.
    Cancel(StopReason),
}

impl Outflow {
    /// Whether more may be written: not before its head has gone, nor while as much waits as may. If not,
    /// `waker` is woken later. It is an error when it has ended.
    pub(crate) fn poll_room(&self, waker: &Waker) -> Poll<Result<(), Over>> {
        let mut state = self.state.lock();
        if let Some(over) = &state.over {
            return Poll::Ready(Err(over.clone()));
        }
        if state.opened && state.has_room() {
            return Poll::Ready(Ok(()));
        }
        state.wait(waker);
        Poll::Pending
    }

    /// Whether all of it has been taken for sending, after [`finish`](Self::finish); else, why it never will
    /// be.
    pub(crate) fn poll_over(&self, waker: &Waker) -> Poll<Over> {
        let mut state = self.state.lock();
        if let Some(over) = &state.over {
            return Poll::Ready(over.clone());
        }
        state.wait(waker);
        Poll::Pending
    }

    /// Whether all that has been written has been taken for sending. It is an error when it has ended.
    pub(crate) fn poll_sent(&self, waker: &Waker) -> Poll<Result<(), Over>> {
        let mut state = self.state.lock();
        if let Some(over) = &state.over {
            return Poll::Ready(Err(over.clone()));
        }
        if state.opened && state.queued == 0 {
            return Poll::Ready(Ok(()));
        }
        state.wait(waker);
        Poll::Pending
    }

    /// Adds `piece` to the end. Returns whether there is something to send that there was not before.
    pub(crate) fn write(&self, piece: Shared) -> bool {
        let mut state = self.state.lock();
        if piece.is_empty() || state.over.is_some() {
            return false;
        }
        let before = state.next_len(u64::MAX);
        state.queued += piece.len();
        state.pieces.push_back(piece);
        before.is_none() && state.next_len(u64::MAX).is_some()
    }

    /// What has been written goes, whether it fills a chunk or not. Returns whether there is something.
    pub(crate) fn flush(&self) -> bool {
        let mut state = self.state.lock();
        let (before, end) = (state.due, state.end());
        state.due = end;
        end > before
    }

    /// Nothing more is written.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.finished = true;
        state.due = state.end();
    }

    /// Nothing more is written, and what has not been taken never goes. Returns whether that was not known.
    pub(crate) fn abort(&self, reason: StopReason) -> bool {
        let mut state = self.state.lock();
        if state.over.is_some() || state.aborted.is_some() {
            return false;
        }
        state.aborted = Some(reason);
        let dropped = state.let_go();
        drop(state);
        drop(dropped);
        true
    }

    /// Whether nothing is to be done about it any more: it has been finished, given up, or ended.
    pub(crate) fn is_left(&self) -> bool {
        let state = self.state.lock();
        state.finished || state.aborted.is_some() || state.over.is_some()
    }

    /// Whether its head has been taken for sending.
    pub(crate) fn is_opened(&self) -> bool {
        self.state.lock().opened
    }

    /// Its head has been taken for sending. Returns who is to be woken.
    pub(super) fn open(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        state.opened = true;
        state.waker.take()
    }

    /// Whether there is something to send: chunks, up to `granted`, or the end.
    pub(super) fn is_ready(&self, granted: u64) -> bool {
        self.state.lock().next_step(granted).is_some()
    }

    /// Bytes that have been taken.
    pub(super) fn taken(&self) -> u64 {
        self.state.lock().taken
    }

    /// Takes what is to be sent next, and has `put` called with it. Returns what it was, and the writer's waker
    /// if it has waited for room.
    pub(super) fn take(
        &self,
        granted: u64,
        mut put: impl FnMut(Part),
    ) -> (Option<Step>, Option<Waker>) {
        let mut state = self.state.lock();
        let step = state.next_step(granted);
        let Some(Step::Chunk(len)) = step else { return (step, None) };
        put(Part::Chunk(len));
        let mut rest = len;
        while rest > 0 {
            let piece = state.pieces.pop_front().expect("as much is queued");
            if piece.len() > rest {
                state.pieces.push_front(piece.slice(rest..piece.len()));
                put(Part::Piece(piece.narrow(0..rest)));
                rest = 0;
            } else {
                rest -= piece.len();
                put(Part::Piece(piece));
            }
        }
        state.queued -= len;
        state.taken += len as u64;
        // Whoever is woken for each chunk does little each time.
        let is_worth_it = state.queued <= BODY_AHEAD_MAX / 2 && state.has_room();
        (step, if is_worth_it { state.waker.take() } else { None })
    }

    /// It has ended. Returns who is to be woken.
    pub(super) fn end(&self, over: Over) -> Option<Waker> {
        let mut state = self.state.lock();
        state.over.get_or_insert(over);
        let dropped = state.let_go();
        let waker = state.waker.take();
        drop(state);
        drop(dropped);
        waker
    }

    /// Nothing is sent any more on the connection. The writer is woken by who closes that.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.over.get_or_insert(Over::Closed);
        let dropped = state.let_go();
        drop(state);
        drop(dropped);
    }

    /// Who waits here, for when nothing is sent any more.
    pub(super) fn take_waker(&self) -> Option<Waker> {
        self.state.lock().waker.take()
    }
}

impl State {
    fn end(&self) -> u64 {
        self.taken + self.queued as u64
    }

    fn has_room(&self) -> bool {
        self.queued < BODY_AHEAD_MAX && self.pieces.len() < BODY_PIECES_MAX
    }

    fn wait(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) if known.will_wake(waker) => {}
            waiting => *waiting = Some(waker.clone()),
        }
    }

    fn next_step(&self, granted: u64) -> Option<Step> {
        if !self.opened {
            return None;
        }
        if let Some(reason) = &self.aborted {
            return Some(Step::Cancel(reason.clone()));
        }
        match self.next_len(granted) {
            Some(len) => Some(Step::Chunk(len)),
            None => (self.finished && self.queued == 0).then_some(Step::End),
        }
    }

    /// Bytes of the next chunk, if one may go: it ends at a multiple of a chunk, or has to go as it is.
    fn next_len(&self, granted: u64) -> Option<usize> {
        let full = CHUNK_BYTES - (self.taken % CHUNK_BYTES as u64) as usize;
        let is_due = self.due > self.taken || self.pieces.len() >= BODY_PIECES_MAX;
        let len = if self.queued >= full {
            full
        } else if is_due {
            self.queued
        } else {
            0
        };
        let granted = granted.saturating_sub(self.taken);
        (len > 0 && len as u64 <= granted).then_some(len)
    }

    /// The pieces, which go no further.
    #[must_use]
    fn let_go(&mut self) -> VecDeque<Shared> {
        self.queued = 0;
        std::mem::take(&mut self.pieces)
    }
}
