//! The bytes behind a region: pages of a memfd that is mapped once.

#![expect(unsafe_code, reason = "maps memory, gives pages of it back, and unmaps it")]

use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// One shared mapping of a memfd, private to this process.
///
/// Invariant: `base` is the start of a readable and writable mapping of `len` bytes that lives as long as
/// this, never moves, and belongs to nothing else: the descriptor was closed once it was mapped, and is never
/// handed out. Nothing is mapped if `len` is zero.
pub(super) struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: this only says where the bytes are; who may access them is decided by the extents that are handed out.
unsafe impl Send for Pages {}
// SAFETY: as above; no method reads or writes the bytes but `give_back`, whose caller has them.
unsafe impl Sync for Pages {}

impl Pages {
    /// Address space for `len` bytes, whole pages. None is there until it is written; the limit is kept by the
    /// account, so that the system need not reserve swap for all of it.
    pub(super) fn reserve(len: usize) -> Result<Pages, Errno> {
        if len == 0 {
            return Ok(Pages { base: NonNull::dangling(), len });
        }
        let file = memfd_create("weft-memory", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing; the file has
        // `len` bytes and is never truncated, since its only descriptor is closed when this returns.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )?
        };
        let base =
            NonNull::new(base.cast()).expect("mmap without MAP_FIXED never maps address zero");
        Ok(Pages { base, len })
    }

    /// The first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Gives whole pages back to the system: they read as zeroes then. Returns whether it has taken them.
    ///
    /// # Safety
    /// `offset..offset + len` lies within, and nobody holds a reference into it, or gets one before this
    /// returns.
    pub(super) unsafe fn give_back(&self, offset: usize, len: usize) -> bool {
        debug_assert!(offset + len <= self.len, "within the mapping");
        // SAFETY: the pages are within the mapping, which is shared and writable as the advice
        // demands, and by the caller's word nobody sees their bytes change.
        unsafe { madvise(self.base.add(offset).as_ptr().cast(), len, Advice::LinuxRemove) }.is_ok()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours, and every extent holds the region alive: no address into
            // it is used later.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok(), "unmapping what was mapped succeeds");
        }
    }
}
