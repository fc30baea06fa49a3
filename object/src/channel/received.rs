//! What a received segment lies in: the buffer that it was received into, or a copy.

#![expect(unsafe_code, reason = "says of what it keeps that it stays as it is")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{
    Charge, Incoming, Memory, MemoryError, PAGE_BYTES, Purpose, Retained, Shared,
};

use super::message::HEADER_BYTES;
use crate::assembly::is_aligned;
use crate::bytes::{AlignedBytes, StableBytes};

/// The shortest message that is worth holding on to its buffer.
const KEPT_MIN: usize = 128 << 10;
/// Bytes of messages that a channel holds on to: their senders' window is less by as much, for all who use the connection.
const KEPT_MAX: u64 = 1 << 20;

/// The bytes of a segment that was received, which its view keeps.
#[derive(Debug)]
pub struct ReceivedBytes(Bytes);

#[derive(Debug)]
enum Bytes {
    /// Behind the header; aligned.
    Kept(Retained, #[expect(dead_code, reason = "it counts for as long as it lives")] Kept),
    /// A block of memory, up to where it is used.
    Block(Shared),
    /// Few bytes, which the limit counts.
    Heap(AlignedBytes, #[expect(dead_code, reason = "it counts for as long as it lives")] Charge),
}

/// Counts what a channel holds on to.
#[derive(Debug)]
struct Kept {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ReceivedBytes {
    /// Keeps what follows the header of a message. `kept` is what the channel holds on to.
    ///
    /// # Errors
    /// There is no memory for a copy.
    pub(super) fn of(
        incoming: Incoming<'_>,
        kept: &Arc<AtomicU64>,
        memory: &Memory,
    ) -> Result<ReceivedBytes, MemoryError> {
        let len = incoming.body.len();
        // A body that came in chunks lies in a block of its own, and has taken next to nothing of the window.
        let bytes = if len > MESSAGE_MAX { 0 } else { len as u64 };
        let is_kept = len >= KEPT_MIN
            && is_aligned(incoming.body)
            && kept.load(Ordering::Relaxed) + bytes <= KEPT_MAX;
        if !is_kept {
            return Self::copied(&incoming.body[HEADER_BYTES..], memory).map(ReceivedBytes);
        }
        kept.fetch_add(bytes, Ordering::Relaxed);
        let counted = Kept { bytes, all: Arc::clone(kept) };
        let retained = incoming.retain()?;
        // The transport may have made a copy of its own, wherever there was room.
        if !is_aligned(&retained) {
            return Self::copied(&retained[HEADER_BYTES..], memory).map(ReceivedBytes);
        }
        Ok(ReceivedBytes(Bytes::Kept(retained, counted)))
    }

    fn copied(segment: &[u8], memory: &Memory) -> Result<Bytes, MemoryError> {
        if segment.len() < PAGE_BYTES {
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
