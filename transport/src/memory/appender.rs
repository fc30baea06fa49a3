//! A log in a block: its end is written while parts of its beginning are shared.

#![expect(unsafe_code, reason = "writes behind, and words within, a prefix that others read")]

use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once};

use super::Shared;
use super::block::Extent;

/// Records start at multiples of this.
const UNIT_BYTES: usize = 8;
/// Data bytes that one 64-bit word of the map stands for.
const GROUP_BYTES: usize = 64 * UNIT_BYTES;

/// The exclusive writer of a block whose committed prefix may be shared at the same time: a segment
/// of a log.
///
/// Committed bytes never change, but for single words that their owner stores with
/// [`Appender::store_word`]: a record's word that says whether it is still the current one. Such a
/// word may not be part of a shared view, or a reader of the view would see its immutable bytes
/// change. The appender keeps that rule itself: a map at the end of the block, a bit for 8 bytes,
/// says what was shared since the block was last without views. It takes 1/65 of the block's bytes,
/// and no page until the first view is given out.
///
/// Invariants:
/// - bytes from `committed` to `capacity` are accessed by `append` only, which has the appender to
///   itself;
/// - bytes below `committed` are written by `store_word` only, which has the appender to itself,
///   and only where the map says that no view is alive;
/// - bytes from `capacity` are the map, accessed as atomics, and by nobody before `map_ready`.
///
/// So a borrow of the prefix, a view of a part of it and a write never meet on a byte.
pub struct Appender {
    extent: Arc<Extent>,
    /// The extent's, at hand: every read of the prefix starts here.
    base: NonNull<u8>,
    committed: usize,
    capacity: usize,
    map_ready: Once,
}

// SAFETY: the extent's bytes belong to no thread, and the address to the extent.
unsafe impl Send for Appender {}
// SAFETY: a shared appender reads the committed prefix, which only an exclusive one writes, and the
// map, whose words are atomics.
unsafe impl Sync for Appender {}

impl Appender {
    /// The appender of an extent that nobody else holds, whose first `committed` bytes are records.
    pub(super) fn new(extent: Arc<Extent>, committed: usize) -> Appender {
        let groups = extent.len() / (GROUP_BYTES + 8);
        let rest = (extent.len() % (GROUP_BYTES + 8)).saturating_sub(8) / UNIT_BYTES * UNIT_BYTES;
        let capacity = groups * GROUP_BYTES + rest;
        assert!(
            committed.is_multiple_of(UNIT_BYTES) && committed <= capacity,
            "{committed} bytes are no records of a log of {capacity}"
        );
        Appender { base: extent.base(), extent, committed, capacity, map_ready: Once::new() }
    }

    /// Bytes that a block must have so that an appender in it has a capacity of at least `capacity`
    /// bytes.
    pub const fn block_len(capacity: usize) -> usize {
        capacity.next_multiple_of(UNIT_BYTES) + capacity.div_ceil(GROUP_BYTES) * 8
    }

    /// Bytes that can be appended to an empty block of this size, padding included.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of the whole block, which it counts for in the account.
    pub fn footprint(&self) -> usize {
        self.extent.len()
    }

    /// Bytes appended so far, with the padding of each record to a multiple of 8.
    #[inline]
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Appends the parts as one record, padded with zeroes to a multiple of 8 bytes, and says at
    /// which offset it starts (a multiple of 8). `None`, and nothing has changed, when there is no
    /// room for it.
    #[inline]
    pub fn append(&mut self, parts: &[&[u8]]) -> Option<usize> {
        let len = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()))?;
        if len > self.capacity - self.committed {
            return None;
        }
        let start = self.committed;
        // Both are multiples of 8, so that the padded length fits when the length does.
        let end = (start + len).next_multiple_of(UNIT_BYTES);
        self.extent.touch(end);
        let mut at = start;
        for part in parts {
            // SAFETY: `at + part.len() <= capacity`, within the block. The target lies behind the
            // committed prefix, where there are no references at all, so that it does not overlap
            // the part either, even if that is in this block.
            unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), self.at(at).as_ptr(), part.len());
            }
            at += part.len();
        }
        // SAFETY: `at..end` is within the capacity and behind the committed prefix, as above.
        unsafe { ptr::write_bytes(self.at(at).as_ptr(), 0, end - at) };
        self.committed = end;
        Some(start)
    }

    /// The committed prefix.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped and initialized; while `self` is borrowed nobody writes below `committed`,
        // since both `append` and `store_word` take the appender exclusively.
        unsafe { slice::from_raw_parts(self.at(0).as_ptr(), self.committed) }
    }

    /// A view of a part of the committed prefix. It pins the block, also beyond the life of the
    /// appender. No word of it can be stored while the block is pinned.
    ///
    /// # Panics
    /// When `range` is not within the committed prefix.
    pub fn shared(&self, range: Range<usize>) -> Shared {
        assert!(
            range.start <= range.end && range.end <= self.committed,
            "{range:?} is not committed"
        );
        self.map_ready.call_once(|| {
            self.extent.touch_tail(self.capacity);
            // SAFETY: the map's bytes are within the block, and nobody accesses them before this
            // has run.
            unsafe { ptr::write_bytes(self.at(self.capacity).as_ptr(), 0, self.map_words() * 8) };
        });
        self.mark(range.start / UNIT_BYTES, range.end.div_ceil(UNIT_BYTES));
        // SAFETY: nobody writes committed bytes but `store_word`, which spares what was just marked
        // until no view is left.
        unsafe { Shared::part(Arc::clone(&self.extent), range) }
    }

    /// Stores one 32-bit word of the committed prefix, little-endian, in one piece: somebody who
    /// reads memory from another process or machine sees the old or the new word.
    ///
    /// # Panics
    /// When `offset` is not a multiple of 4 within the committed prefix, or a view that covers the
    /// word may be alive.
    #[inline]
    pub fn store_word(&mut self, offset: usize, value: u32) {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.committed, "no word at {offset}");
        if self.map_ready.is_completed() && self.is_marked(offset / UNIT_BYTES) {
            assert!(self.forget_views(), "the word at {offset} is part of a shared view");
        }
        // SAFETY: within the block and aligned, since the block is. No `&[u8]` covers the word:
        // `bytes` borrows `self`, and no view of it is alive.
        let word = unsafe { AtomicU32::from_ptr(self.at(offset).as_ptr().cast()) };
        word.store(value.to_le(), Ordering::Release);
    }

    /// Whether a view of the block is alive.
    #[inline]
    pub fn pinned(&self) -> bool {
        Arc::strong_count(&self.extent) > 1
    }

    /// Clears the map if no view is alive.
    fn forget_views(&mut self) -> bool {
        // `get_mut` synchronizes with those who dropped their views.
        if Arc::get_mut(&mut self.extent).is_none() {
            return false;
        }
        for index in 0..self.map_words() {
            self.map_word(index).store(0, Ordering::Relaxed);
        }
        true
    }

    /// Relaxed, as is all access to the map: who looks at it has the appender exclusively, and so
    /// comes after the marks.
    fn mark(&self, first: usize, end: usize) {
        let mut unit = first;
        while unit < end {
            let bit = unit % 64;
            let bits = (64 - bit).min(end - unit);
            let mask = (u64::MAX >> (64 - bits)) << bit;
            self.map_word(unit / 64).fetch_or(mask, Ordering::Relaxed);
            unit += bits;
        }
    }

    fn is_marked(&self, unit: usize) -> bool {
        self.map_word(unit / 64).load(Ordering::Relaxed) & (1 << (unit % 64)) != 0
    }

    fn map_words(&self) -> usize {
        self.capacity.div_ceil(GROUP_BYTES)
    }

    fn map_word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.map_words(), "word {index} is outside the map");
        // SAFETY: within the block, since the capacity leaves room for all words of the map, and
        // aligned, since the capacity is a multiple of 8. The map is only accessed as atomics.
        unsafe { AtomicU64::from_ptr(self.at(self.capacity + index * 8).as_ptr().cast()) }
    }

    /// The address of a byte of the block, or one past its end.
    #[inline]
    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.extent.len(), "within the block");
        // SAFETY: callers stay within the block.
        unsafe { self.base.add(offset) }
    }
}

impl fmt::Debug for Appender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appender")
            .field("committed", &self.committed)
            .field("capacity", &self.capacity)
            .field("pinned", &self.pinned())
            .finish_non_exhaustive()
    }
}
