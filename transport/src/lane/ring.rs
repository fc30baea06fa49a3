//! A single-producer, single-consumer ring of bytes in registered memory.
//!
//! Positions are 64-bit and only grow; a byte lies at its position modulo the capacity. A record
//! is contiguous: one that would cross the end begins at the next multiple of the capacity, and
//! `wrap` says where the bytes before it end.
//!
//! Invariant: `released <= taken <= committed <= written <= released + capacity`. The producer
//! alone writes, and only in `committed..released + capacity`; the consumer alone reads, and only
//! in `released..committed`. So the two never touch the same byte at the same time.

#![expect(unsafe_code, reason = "producer and consumer hold disjoint parts of one block")]

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::memory::{Block, Memory, MemoryError, Purpose};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{OnceLock, Watch};

#[derive(Debug)]
pub(crate) struct Ring {
    bytes: *mut u8,
    capacity: usize,
    /// End of what the consumer may read.
    committed: CachePadded<AtomicU64>,
    /// End of what has been sent: the producer may write up to a capacity beyond.
    released: CachePadded<AtomicU64>,
    /// The position at which the lap that ends last ends early.
    wrap: AtomicU64,
    next: OnceLock<Arc<Ring>>,
    watch: Watch,
    /// Keeps `bytes` alive.
    _block: Block,
}

// SAFETY: `bytes` points into `_block`, which is `Send`; by the invariant above, the two threads
// that use a ring touch disjoint bytes, and hand bytes over by a release store of `committed` or
// `released` that the other side reads with acquire.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// An empty ring of `capacity` bytes, a power of two.
    pub(super) fn new(memory: &Memory, capacity: usize) -> Result<Self, MemoryError> {
        debug_assert!(capacity.is_power_of_two());
        let mut block = memory.allocate(capacity, Purpose::Send)?;
        block.mark_touched(capacity);
        Ok(Self {
            bytes: block.as_mut_ptr(),
            capacity,
            committed: CachePadded::new(AtomicU64::new(0)),
            released: CachePadded::new(AtomicU64::new(0)),
            wrap: AtomicU64::new(u64::MAX),
            next: OnceLock::new(),
            watch: Watch::new(capacity),
            _block: block,
        })
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Producer: where a record of `len` bytes may be written when `written` is the end of the
    /// last one, or nothing if there is no room.
    #[inline]
    pub(super) fn reserve(&self, written: u64, len: usize) -> Option<u64> {
        let capacity = self.capacity as u64;
        let in_lap = written % capacity;
        let start =
            if in_lap + len as u64 > capacity { written - in_lap + capacity } else { written };
        if start + len as u64 > self.released() + capacity {
            return None;
        }
        if start != written {
            self.wrap.store(written, Ordering::Relaxed);
        }
        Some(start)
    }

    /// Producer: the bytes that [`reserve`](Self::reserve) returned the position of.
    #[expect(clippy::mut_from_ref, reason = "the one producer holds one such slice at a time")]
    pub(super) fn reserved_bytes(&self, position: u64, len: usize) -> &mut [u8] {
        let offset = (position % self.capacity as u64) as usize;
        assert!(offset + len <= self.capacity, "a record lies within a lap");
        self.watch.write(offset, len);
        // SAFETY: in bounds as asserted; the range is beyond `committed` and within a capacity of
        // `released`, which is the producer's alone, and the producer is a single `&mut Producer`
        // that gives the slice up before it commits.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.add(offset), len) }
    }

    /// Producer: everything before `position` may be read.
    #[inline]
    pub(super) fn commit(&self, position: u64) {
        self.committed.store(position, Ordering::Release);
    }

    /// Producer: what comes after this ring; nothing is committed to this one any more.
    pub(super) fn set_next(&self, next: Arc<Ring>) {
        assert!(self.next.set(next).is_ok(), "a ring is replaced once");
    }

    /// Consumer: the ring that follows.
    pub(super) fn next(&self) -> Option<Arc<Ring>> {
        self.next.get().cloned()
    }

    /// Consumer: the contiguous committed bytes that follow position `taken`.
    pub(super) fn next_run(&self, taken: u64) -> Option<(u64, usize)> {
        let committed = self.committed.load(Ordering::Acquire);
        let capacity = self.capacity as u64;
        if committed == taken {
            return None;
        }
        let lap_end = taken - taken % capacity + capacity;
        if committed <= lap_end {
            return Some((taken, (committed - taken) as usize));
        }
        let wrap = self.wrap.load(Ordering::Relaxed);
        let end = if (lap_end - capacity..=lap_end).contains(&wrap) { wrap } else { lap_end };
        if end > taken {
            return Some((taken, (end - taken) as usize));
        }
        Some((lap_end, (committed - lap_end) as usize))
    }

    /// Consumer: committed bytes that have not been released.
    pub(super) fn committed_bytes(&self, position: u64, len: usize) -> &[u8] {
        let offset = (position % self.capacity as u64) as usize;
        assert!(offset + len <= self.capacity, "a run lies within a lap");
        self.watch.read(offset, len);
        // SAFETY: in bounds as asserted; the range lies before `committed`, which was read with
        // acquire, and is not yet released, so the producer does not write to it.
        unsafe { std::slice::from_raw_parts(self.bytes.add(offset), len) }
    }

    /// Consumer: everything before `position` has been sent.
    pub(super) fn release(&self, position: u64) {
        self.released.store(position, Ordering::Release);
    }
}
