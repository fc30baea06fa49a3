//! A streamed body on its way in: what has come and its reader has not taken yet.
//!
//! Whoever drives the connection and the reader meet here. The body lands in blocks of one chunk each, a
//! few at a time: a block counts until it has been filled and every piece of it that was lent is back.
//! Only then is as much granted anew, so that a slow reader holds its peer back, and nobody else.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};

use crate::error::StopReason;
use crate::memory::{Filling, Shared};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the receiver and the reader of one body share.
#[derive(Debug, Default)]
pub(crate) struct Inflow {
    state: Mutex<State>,
    /// Blocks that are granted, being filled, waiting, or lent.
    blocks: AtomicUsize,
    /// The receiver would grant more if there were fewer.
    is_full: AtomicBool,
    /// Has the receiver look again. There once there is a reader.
    retry: OnceLock<Waker>,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces of different blocks, in order.
    ready: VecDeque<Ready>,
    /// Nothing more comes behind them.
    end: Option<End>,
    /// The reader takes nothing more.
    stop: Option<StopReason>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Ready {
    /// Which block of the body it is of, and from where on.
    block: u64,
    start: usize,
    piece: BodyPiece,
}

/// How it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it has come.
    Whole,
    /// Its sender has given it up.
    Aborted(StopReason),
    /// The connection has.
    Closed,
}

/// A part of a streamed body, read where it was received. Dropping it gives its memory back to be received
/// into again: while pieces of a few blocks are held, the sender of the body waits.
#[derive(Debug)]
pub struct BodyPiece {
    /// Goes before the block is counted as free.
    bytes: Shared,
    _block: Arc<LentBlock>,
}

impl BodyPiece {
    /// The same bytes, as long as any view of them lives, without holding the sender back: their memory is
    /// the caller's from now on. A short piece may keep a block of 64 KiB.
    #[must_use]
    pub fn into_shared(self) -> Shared {
        self.bytes
    }

    /// The piece without its first `count` bytes.
    pub(crate) fn skip(self, count: usize) -> Self {
        let len = self.bytes.len();
        Self { bytes: self.bytes.narrow(count..len), ..self }
    }
}

impl Deref for BodyPiece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for BodyPiece {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Counts a block for as long as somebody has a part of it.
#[derive(Debug)]
pub(super) struct LentBlock {
    flow: Weak<Inflow>,
}

impl Drop for LentBlock {
    fn drop(&mut self) {
        let Some(flow) = self.flow.upgrade() else { return };
        flow.blocks.fetch_sub(1, Ordering::SeqCst);
        if flow.is_full.load(Ordering::SeqCst) && flow.is_full.swap(false, Ordering::SeqCst) {
            flow.ask_again();
        }
    }
}

impl Inflow {
    /// Has `retry` woken from now on when the receiver is to look again.
    pub(crate) fn set_retry(&self, retry: Waker) {
        self.retry.get_or_init(|| retry);
    }

    /// The next piece, or the end. What came before an end comes first.
    pub(crate) fn poll_next(&self, waker: &Waker) -> Poll<Result<BodyPiece, End>> {
        let mut state = self.state.lock();
        if let Some(ready) = state.ready.pop_front() {
            return Poll::Ready(Ok(ready.piece));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(Err(end.clone()));
        }
        match &mut state.waker {
            Some(known) if known.will_wake(waker) => {}
            waiting => *waiting = Some(waker.clone()),
        }
        Poll::Pending
    }

    /// The reader takes nothing more, for that reason.
    pub(crate) fn stop(&self, reason: StopReason) {
        let mut state = self.state.lock();
        let dropped = std::mem::take(&mut state.ready);
        let is_news = state.end.is_none() && state.stop.is_none();
        if is_news {
            state.stop = Some(reason);
        }
        drop(state);
        // They count themselves off.
        drop(dropped);
        if is_news {
            self.ask_again();
        }
    }

    /// Whether the reader takes nothing more, and why.
    pub(super) fn stopped(&self) -> Option<StopReason> {
        self.state.lock().stop.clone()
    }

    /// Blocks that count.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.load(Ordering::SeqCst)
    }

    /// Counts one more block.
    pub(super) fn lend(self: &Arc<Self>) -> Arc<LentBlock> {
        self.blocks.fetch_add(1, Ordering::SeqCst);
        Arc::new(LentBlock { flow: Arc::downgrade(self) })
    }

    /// The receiver grants nothing more before there are fewer blocks. It is to look at their number again
    /// after this.
    pub(super) fn note_full(&self) {
        self.is_full.store(true, Ordering::SeqCst);
    }

    /// The bytes from `start` on have come into `filling`, block number `block` of the body. Returns who is
    /// to be woken.
    pub(super) fn arrive(
        &self,
        filling: &Filling,
        start: usize,
        block: u64,
        lent: &Arc<LentBlock>,
    ) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.stop.is_some() {
            return None;
        }
        // What came in small parts and was not taken is one piece: pieces are no more than blocks.
        let start = match state.ready.back() {
            Some(last) if last.block == block => last.start,
            _ => start,
        };
        let bytes = filling.part(start..filling.filled());
        let ready = Ready { block, start, piece: BodyPiece { bytes, _block: Arc::clone(lent) } };
        match state.ready.back_mut() {
            Some(last) if last.block == block => *last = ready,
            _ => state.ready.push_back(ready),
        }
        state.waker.take()
    }

    /// Nothing more comes. Returns who is to be woken.
    pub(super) fn end(&self, end: End) -> Option<Waker> {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        self.is_full.store(false, Ordering::SeqCst);
        state.waker.take()
    }

    fn ask_again(&self) {
        if let Some(retry) = self.retry.get() {
            retry.wake_by_ref();
        }
    }
}
