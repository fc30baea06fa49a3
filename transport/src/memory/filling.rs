//! A block that is filled from its start while what is filled of it is read.

#![expect(unsafe_code, reason = "writes behind a prefix that others read")]

use std::fmt;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use super::Shared;
use super::block::Extent;

/// The exclusive writer of a block whose filled part may be shared at the same time. What it is filled
/// with is received there or copied, and stays as it is: an [`Appender`](super::Appender) without
/// padding, and without words that change.
///
/// Invariant: bytes from `filled` on are accessed through [`unfilled`](Self::unfilled) only, which has
/// the filling to itself; bytes below `filled` are never written again, and views are of those alone.
pub(crate) struct Filling {
    extent: Arc<Extent>,
    filled: usize,
}

impl Filling {
    pub(super) fn new(extent: Arc<Extent>) -> Filling {
        Filling { extent, filled: 0 }
    }

    /// Bytes that are filled.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Room for what comes next.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        let len = self.extent.len() - self.filled;
        // SAFETY: the bytes from `filled` to the end of the extent are mapped and initialized as long as
        // it lives. No view of them was given out (see the type), and `self`, their only writer, is
        // borrowed exclusively as long as the slice.
        unsafe { slice::from_raw_parts_mut(self.extent.base().as_ptr().add(self.filled), len) }
    }

    /// The next `count` bytes have been written, and are so for ever.
    ///
    /// # Panics
    /// When there is no room for so many.
    pub(crate) fn fill(&mut self, count: usize) {
        assert!(
            count <= self.extent.len() - self.filled,
            "no more is filled than there is room for"
        );
        self.filled += count;
        self.extent.touch(self.filled);
    }

    /// A view of a part of what is filled, which pins the block.
    ///
    /// # Panics
    /// When `range` is not within it.
    pub(crate) fn part(&self, range: Range<usize>) -> Shared {
        assert!(range.start <= range.end && range.end <= self.filled, "{range:?} is not filled");
        // SAFETY: the range is below `filled`, and such bytes are never written again.
        unsafe { Shared::part(Arc::clone(&self.extent), range) }
    }
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").field("filled", &self.filled).finish_non_exhaustive()
    }
}
