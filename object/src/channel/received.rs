//! What a received segment lies in: the buffer that it was received into, or a copy.

#![expect(unsafe_code, reason = "says of what it keeps that it stays as it is")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Charge, Incoming, Memory, MemoryError, Purpose, Retained, Shared};

use super::message::HEADER_BYTES;
use crate::assembly::is_aligned;
use crate::bytes::{AlignedBytes, StableBytes};

/// The shortest message that is worth holding on to its buffer.
const KEPT_MIN: usize = 128 << 10;

/// What is copied to the heap, where few bytes are had faster than a page.
const HEAP_MAX: usize = 32 << 10;

/// The bytes of a segment that was received, which its view keeps.
#[derive(Debug)]
pub struct ReceivedBytes(Bytes);

#[derive(Debug)]
enum Bytes {
    /// Behind the header; aligned.
    Kept(Retained, #[expect(dead_code, reason = "it counts for as long as it lives")] Counted),
    /// A block of memory, up to where it is used.
    Block(Shared),
    /// Few bytes, which the limit counts.
    Heap(AlignedBytes, #[expect(dead_code, reason = "it counts for as long as it lives")] Charge),
}

/// Bytes of a connection's window that those hold on to who use what came by it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<AtomicU64>);

/// Some of them.
#[derive(Debug)]
struct Counted {
    bytes: u64,
    all: Kept,
}

/// The same for who does not hold on to it.
#[derive(Clone, Debug, Default)]
pub(super) struct WeakKept(Weak<AtomicU64>);

impl WeakKept {
    pub(super) fn upgrade(&self) -> Option<Kept> {
        self.0.upgrade().map(Kept)
    }

    pub(super) fn is_used(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Kept {
    pub(super) fn downgrade(&self) -> WeakKept {
        WeakKept(Arc::downgrade(&self.0))
    }

    /// Counts `bytes`, unless they were more than `max` with the others.
    fn count(&self, bytes: u64, max: u64) -> Option<Counted> {
        let add = |kept: u64| Some(kept + bytes).filter(|kept| *kept <= max);
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.is_ok().then(|| Counted { bytes, all: self.clone() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ReceivedBytes {
    /// Keeps what follows the header of a message. `kept` is what is held on to, of `kept_max` bytes.
    ///
    /// # Errors
    /// There is no memory for a copy.
    pub(super) fn of(
        incoming: Incoming<'_>,
        (kept, kept_max): (&Kept, u64),
        memory: &Memory,
    ) -> Result<ReceivedBytes, MemoryError> {
        let len = incoming.body.len();
        // A body that came in chunks lies in a block of its own, and has taken next to nothing of the window.
        let bytes = if len > MESSAGE_MAX { 0 } else { len as u64 };
        let is_worth_it = len >= KEPT_MIN && is_aligned(incoming.body);
        let Some(counted) = is_worth_it.then(|| kept.count(bytes, kept_max)).flatten() else {
            return Self::copied(&incoming.body[HEADER_BYTES..], memory).map(ReceivedBytes);
        };
        let retained = incoming.retain()?;
        // The transport may have made a copy of its own, wherever there was room.
        if !is_aligned(&retained) {
            return Self::copied(&retained[HEADER_BYTES..], memory).map(ReceivedBytes);
        }
        Ok(ReceivedBytes(Bytes::Kept(retained, counted)))
    }

    fn copied(segment: &[u8], memory: &Memory) -> Result<Bytes, MemoryError> {
        if segment.len() <= HEAP_MAX {
            let charge = memory.charge(segment.len() as u64, Purpose::Receive)?;
            return Ok(Bytes::Heap(AlignedBytes::copied(segment), charge));
        }
        let mut block = memory.allocate(segment.len(), Purpose::Receive)?;
        block.mark_touched(segment.len());
        block[..segment.len()].copy_from_slice(segment);
        Ok(Bytes::Block(block.freeze().narrow(0..segment.len())))
    }

    /// Whether they were copied out of the message.
    pub fn is_copy(&self) -> bool {
        !matches!(self.0, Bytes::Kept(..))
    }
}

// SAFETY: a body that is kept, a frozen block and a copy each have one address, length and contents for as long as they live.
unsafe impl StableBytes for ReceivedBytes {
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Kept(retained, _) => &retained[HEADER_BYTES..],
            Bytes::Block(block) => block,
            Bytes::Heap(copy, _) => copy.bytes(),
        }
    }
}
