//! Memory with one owner.

#![expect(unsafe_code, reason = "turns an extent of the region into a slice")]

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::extents::Run;
use super::{Appender, Filling, Memory, PAGE_BYTES, Purpose, Shared};
use crate::registration::Registrations;

/// A run of pages that was handed out, given back when the last holder drops it, or a vector that
/// somebody has brought along.
///
/// Invariant: no two live extents overlap, so that whoever holds every handle to an extent is alone
/// with its bytes. The extent itself never touches them; [`Block`], [`Shared`] and [`Appender`] do,
/// each by its own rule. `base..base + len` are mapped, readable, writable and initialized as long as
/// the extent lives.
pub(crate) struct Extent {
    /// What devices have been told of it; undone before the memory goes.
    registrations: Registrations,
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
}

/// Where an extent's memory comes from and goes back to.
enum Backing {
    /// Pages of the region.
    Pages {
        memory: Memory,
        run: Run,
        purpose: Purpose,
        /// Pages from the start that are known to be counted as touched. Only saves walks through the
        /// region's map.
        touched: AtomicUsize,
    },
    /// A vector with this capacity, taken apart.
    Vector { capacity: usize },
    /// Nowhere: its owner has it back.
    Gone,
}

// SAFETY: an extent is an address range and a handle to the memory; it lends out no bytes by
// itself.
unsafe impl Send for Extent {}
// SAFETY: as above.
unsafe impl Sync for Extent {}

impl Extent {
    pub(super) fn new(memory: Memory, run: Run, purpose: Purpose) -> Extent {
        let base = memory.pool.region.address(run.first);
        let backing = Backing::Pages { memory, run, purpose, touched: AtomicUsize::new(0) };
        let registrations = Registrations::default();
        Extent { registrations, base, len: run.pages * PAGE_BYTES, backing }
    }

    fn of_vector(vector: Vec<u8>) -> Extent {
        let mut vector = ManuallyDrop::new(vector);
        let base = NonNull::new(vector.as_mut_ptr()).expect("a vector's pointer is never null");
        let backing = Backing::Vector { capacity: vector.capacity() };
        Extent { registrations: Registrations::default(), base, len: vector.len(), backing }
    }

    /// The first byte; all of `len()` bytes from here are mapped, readable, writable and
    /// initialized.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    fn purpose(&self) -> Purpose {
        match self.backing {
            Backing::Pages { purpose, .. } => purpose,
            Backing::Vector { .. } | Backing::Gone => Purpose::Buffer,
        }
    }

    /// Counts the pages of the first `up_to` bytes as touched.
    pub(crate) fn touch(&self, up_to: usize) {
        let Backing::Pages { memory, run, touched, .. } = &self.backing else { return };
        let pages = up_to.div_ceil(PAGE_BYTES).min(run.pages);
        let before = touched.load(Ordering::Relaxed);
        if pages > before {
            memory.pool.region.touch(run.first + before, run.first + pages);
            touched.store(pages, Ordering::Relaxed);
        }
    }

    /// Counts the pages from byte `from` to the end as touched.
    pub(super) fn touch_tail(&self, from: usize) {
        let Backing::Pages { memory, run, .. } = &self.backing else { return };
        let first = run.first + from / PAGE_BYTES;
        memory.pool.region.touch(first, run.first + run.pages);
    }

    /// The vector that it was made of. The extent is of no use any more then.
    fn take_vector(&mut self) -> Option<Vec<u8>> {
        let Backing::Vector { capacity } = self.backing else { return None };
        self.registrations.undo();
        self.backing = Backing::Gone;
        let (base, len) = (mem::replace(&mut self.base, NonNull::dangling()), self.len);
        self.len = 0;
        // SAFETY: these are the parts of a vector that was taken apart, its first `len` bytes are
        // initialized, and nobody puts it together again: the backing says that it is gone.
        Some(unsafe { Vec::from_raw_parts(base.as_ptr(), len, capacity) })
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.registrations.undo();
        match &self.backing {
            Backing::Pages { memory, run, purpose, .. } => memory.release(*run, *purpose),
            Backing::Vector { .. } => drop(self.take_vector()),
            Backing::Gone => {}
        }
    }
}

/// Registered memory with one owner, who reads and writes it as a `[u8]`: of whole pages, if it was
/// allocated from a [`Memory`]. Dropping it gives it back.
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

    /// The block of an extent that nobody else holds, or the extent.
    ///
    /// Every receive comes by here, so the count is read, which `Arc::get_mut` would lock against weak
    /// references: there are none to extents.
    pub(super) fn try_from_unique(extent: Arc<Extent>) -> Result<Block, Arc<Extent>> {
        if Arc::strong_count(&extent) > 1 {
            return Err(extent);
        }
        // What others did with the bytes came before they let go of them.
        fence(Ordering::Acquire);
        Ok(Block { extent })
    }

    /// A block of a vector's bytes, outside of the region and counted by nobody.
    pub(crate) fn from_vector(vector: Vec<u8>) -> Block {
        Block::new(Extent::of_vector(vector))
    }

    /// The vector that the block was made of.
    ///
    /// # Errors
    /// The block itself, if it is one of the region's.
    pub(crate) fn into_vector(mut self) -> Result<Vec<u8>, Block> {
        let extent = Arc::get_mut(&mut self.extent).expect("a block is the only holder");
        extent.take_vector().ok_or(self)
    }

    /// All of its memory, as devices may be told of it.
    pub(crate) fn extent(&self) -> &Extent {
        &self.extent
    }

    /// What the block is counted as.
    pub fn purpose(&self) -> Purpose {
        self.extent.purpose()
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

    /// Makes the block one that is filled from its start while what is filled is read.
    pub(crate) fn fill_up(self) -> Filling {
        Filling::new(self.extent)
    }

    /// Makes the block a log that grows at its end while its beginning is read.
    pub fn append_only(self) -> Appender {
        Appender::new(self.extent, 0)
    }

    /// The same of a block whose first `committed` bytes are records already.
    ///
    /// # Panics
    /// When `committed` is no multiple of 8, or more than the log has [room](Appender::capacity) for.
    pub fn append_after(self, committed: usize) -> Appender {
        Appender::new(self.extent, committed)
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
