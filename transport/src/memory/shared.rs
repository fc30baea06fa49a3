//! Immutable memory with many holders.

#![expect(unsafe_code, reason = "a view is a pointer into an extent that it keeps alive")]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::Block;
use super::block::Extent;

/// A counted, immutable view of a block or of a part of it. While one is alive the block stays
/// where it is, with the bytes that it has: it is *pinned*.
///
/// Cloning is one atomic increment; the count lives with the block, and views of parts count for
/// the whole.
///
/// Invariant: `pointer..pointer + len` lies within the extent, and nobody writes those bytes while
/// any view of them lives: not a [`Block`], since it was consumed, and not an
/// [`Appender`](super::Appender), which writes only where no view was given out.
pub struct Shared {
    extent: Arc<Extent>,
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are immutable while views live (see the type), and the extent is counted
// atomically.
unsafe impl Send for Shared {}
// SAFETY: as above; a shared view is only read.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn whole(extent: Arc<Extent>) -> Shared {
        let (pointer, len) = (extent.base(), extent.len());
        Shared { extent, pointer, len }
    }

    /// A view of a part of an extent that others may go on writing elsewhere.
    ///
    /// # Safety
    /// Nobody writes the bytes of `range` as long as a view of them lives.
    pub(super) unsafe fn part(extent: Arc<Extent>, range: Range<usize>) -> Shared {
        assert!(
            range.start <= range.end && range.end <= extent.len(),
            "{range:?} is outside the block"
        );
        // SAFETY: within the extent, as asserted.
        let pointer = unsafe { extent.base().add(range.start) };
        Shared { extent, pointer, len: range.len() }
    }

    /// A view of a part of this view.
    ///
    /// # Panics
    /// When `range` is not within it, as for slices.
    pub fn slice(&self, range: Range<usize>) -> Shared {
        self.clone().narrow(range)
    }

    /// Narrows this view to a part of it, without touching the count.
    ///
    /// # Panics
    /// When `range` is not within it, as for slices.
    pub fn narrow(mut self, range: Range<usize>) -> Shared {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} is outside {} bytes",
            self.len
        );
        // SAFETY: within this view, as asserted, hence within the extent.
        self.pointer = unsafe { self.pointer.add(range.start) };
        self.len = range.len();
        self
    }

    /// How many views (of whatever part) and appenders hold the block at this moment.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.extent)
    }

    /// All of the block's memory, as devices may be told of it.
    pub(crate) fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Bytes of the whole block, which this view keeps from being reused.
    pub fn block_len(&self) -> usize {
        self.extent.len()
    }

    /// The whole block back, to be written again.
    ///
    /// # Errors
    /// The view itself while anybody else holds a part of the block.
    pub fn try_reclaim(self) -> Result<Block, Shared> {
        let Shared { extent, pointer, len } = self;
        Block::try_from_unique(extent).map_err(|extent| Shared { extent, pointer, len })
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        Shared { extent: Arc::clone(&self.extent), pointer: self.pointer, len: self.len }
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the extent, which `self` keeps alive, and not written while `self` lives
        // (see the type).
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("len", &self.len)
            .field("holders", &self.holders())
            .finish_non_exhaustive()
    }
}
