//! Memory with one owner.

#![expect(unsafe_code, reason = "turns an extent of the region into a slice")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::extents::Run;
use super::{Appender, Memory, PAGE_BYTES, Purpose, Shared};

/// A run of pages that was handed out; given back when the last holder drops it.
///
/// Invariant: no two live extents overlap, so that whoever holds every handle to an extent is alone
/// with its bytes. The extent itself never touches them; [`Block`], [`Shared`] and [`Appender`] do,
/// each by its own rule.
pub(super) struct Extent {
    memory: Memory,
    run: Run,
    purpose: Purpose,
    base: NonNull<u8>,
    /// Pages from the start that are known to be counted as touched. Only saves walks through the
    /// region's map.
    touched: AtomicUsize,
}

// SAFETY: an extent is an address range and a handle to the memory; it lends out no bytes by
// itself.
unsafe impl Send for Extent {}
// SAFETY: as above.
unsafe impl Sync for Extent {}

impl Extent {
    pub(super) fn new(memory: Memory, run: Run, purpose: Purpose) -> Extent {
        let base = memory.pool.region.address(run.first);
        Extent { memory, run, purpose, base, touched: AtomicUsize::new(0) }
    }

    /// The first byte; all of `len()` bytes from here are mapped, readable, writable and
    /// initialized.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.run.pages * PAGE_BYTES
    }

    /// Counts the pages of the first `up_to` bytes as touched.
    pub(super) fn touch(&self, up_to: usize) {
        let pages = up_to.div_ceil(PAGE_BYTES).min(self.run.pages);
        let before = self.touched.load(Ordering::Relaxed);
        if pages > before {
            self.memory.pool.region.touch(self.run.first + before, self.run.first + pages);
            self.touched.store(pages, Ordering::Relaxed);
        }
    }

    /// Counts the pages from byte `from` to the end as touched.
    pub(super) fn touch_tail(&self, from: usize) {
        let first = self.run.first + from / PAGE_BYTES;
        self.memory.pool.region.touch(first, self.run.first + self.run.pages);
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.memory.release(self.run, self.purpose);
    }
}

/// Registered memory with one owner, who reads and writes it as a `[u8]` of whole pages. Dropping
/// it gives it back.
///
/// Invariant: this is the only handle to its extent.
pub struct Block {
    /// Counted from the start, so that freezing and reclaiming allocate nothing.
    extent: Arc<Extent>,
}

impl Block {
    pub(super) fn new(extent: Extent) -> Block {
        Block { extent: Arc::new(extent) }
    }

    /// # Panics
    /// When others hold the extent.
    pub(super) fn from_unique(mut extent: Arc<Extent>) -> Block {
        assert!(Arc::get_mut(&mut extent).is_some(), "a block is the only holder of its extent");
        Block { extent }
    }

    /// What the block is counted as.
    pub fn purpose(&self) -> Purpose {
        self.extent.purpose
    }

    /// Tells the account that the first `up_to` bytes were or will be written, by the owner or by
    /// the system on its behalf. Until then the block counts as allocated but not as resident.
    /// Costs a comparison when nothing is new.
    pub fn mark_touched(&mut self, up_to: usize) {
        self.extent.touch(up_to);
    }

    /// Makes the block immutable, so that it can be held by many. Nothing is copied or allocated.
    pub fn freeze(self) -> Shared {
        Shared::whole(self.extent)
    }

    /// Makes the block a log that grows at its end while its beginning is read.
    pub fn append_only(self) -> Appender {
        Appender::new(self.extent)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the extent's bytes are mapped and initialized as long as it lives, and `self`,
        // its only handle, is borrowed: nobody writes them meanwhile.
        unsafe { slice::from_raw_parts(self.extent.base().as_ptr(), self.extent.len()) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `self`, the only handle, is borrowed exclusively: nobody reads or
        // writes them meanwhile.
        unsafe { slice::from_raw_parts_mut(self.extent.base().as_ptr(), self.extent.len()) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len()).field("purpose", &self.purpose()).finish()
    }
}
