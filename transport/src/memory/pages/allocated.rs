//! What stands for mapped pages under miri, which maps no memfd: memory of the allocator, which miri follows
//! byte by byte as it would any other.

#![expect(unsafe_code, reason = "allocates memory, writes zeroes to it, and frees it")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};

use rustix::io::Errno;

use super::PAGE_BYTES;

/// As in what this stands for.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// As in what this stands for; nothing is ever backed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Huge {
    #[expect(dead_code, reason = "there are no huge pages")]
    Backed,
    #[expect(dead_code, reason = "there are no huge pages")]
    Refused,
    Unknown,
}

/// One allocation.
///
/// Invariant: `base` is the start of `layout.size()` bytes that live as long as this and belong to nothing
/// else. Nothing is allocated if there are none.
pub(super) struct Pages {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: this only says where the bytes are; who may access them is decided by the extents that are handed out.
unsafe impl Send for Pages {}
// SAFETY: as above; no method reads or writes the bytes but `give_back`, whose caller has them; `back_by_huge_page` does nothing.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` bytes, whole pages, all zero.
    pub(super) fn reserve(len: usize) -> Result<Pages, Errno> {
        let layout = Layout::from_size_align(len, PAGE_BYTES).map_err(|_| Errno::NOMEM)?;
        if len == 0 {
            return Ok(Pages { base: NonNull::dangling(), layout });
        }
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Pages { base, layout })
    }

    /// The first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// There are no huge pages.
    ///
    /// # Safety
    /// None is needed here; see what this stands for.
    pub(super) unsafe fn back_by_huge_page(&self, _offset: usize) -> Huge {
        Huge::Unknown
    }

    /// Has whole pages read as zeroes, as if they had been given back to the system.
    ///
    /// # Safety
    /// `offset..offset + len` lies within, and nobody holds a reference into it, or gets one before this
    /// returns.
    pub(super) unsafe fn give_back(&self, offset: usize, len: usize) -> bool {
        debug_assert!(offset + len <= self.layout.size(), "within the allocation");
        // SAFETY: within the allocation, and by the caller's word nobody else has these bytes.
        unsafe { ptr::write_bytes(self.base.add(offset).as_ptr(), 0, len) };
        true
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated with this layout, and every extent holds the region alive: no address into it
            // is used later.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}
