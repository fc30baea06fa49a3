//! The bytes behind a region: pages of a memfd that is mapped once.

#![expect(unsafe_code, reason = "maps memory, gives pages of it back, and unmaps it")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Bytes of a huge page, and what the address of one is a multiple of.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// Whether the system has backed pages by a huge one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Huge {
    Backed,
    /// There is none now.
    Refused,
    /// There is no such call, or the system is told to give none; or this place is not for it.
    Unknown,
}

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
// SAFETY: as above; no method reads or writes the bytes but `give_back` and `back_by_huge_page`, whose callers have them.
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
        let place = Place::reserve(len)?;
        // SAFETY: the mapping takes the place of a part of `place`, which is ours and which nobody uses; the file has
        // `len` bytes and is never truncated, since its only descriptor is closed when this returns.
        unsafe {
            mmap(
                place.aligned.as_ptr(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED,
                &file,
                0,
            )?
        };
        Ok(Pages { base: place.keep_aligned().cast(), len })
    }

    /// Has [`HUGE_BYTES`] from `offset` on, a multiple of that, backed by one huge page of zeroes. Takes a millisecond or more.
    ///
    /// # Safety
    /// They lie within, none of them is backed, and nobody holds a reference into them, or gets one before this returns.
    pub(super) unsafe fn back_by_huge_page(&self, offset: usize) -> Huge {
        debug_assert!(offset.is_multiple_of(HUGE_BYTES) && offset + HUGE_BYTES <= self.len);
        // SAFETY: within the mapping, by the caller's word.
        let start = unsafe { self.base.add(offset) };
        // The system backs what is not there by nothing: one page has to be.
        // SAFETY: within the mapping, and by the caller's word nobody else has these bytes.
        unsafe { start.write_volatile(0) };
        // SAFETY: the pages are within the mapping, and the advice changes no byte of them.
        let advised =
            unsafe { libc::madvise(start.as_ptr().cast(), HUGE_BYTES, libc::MADV_COLLAPSE) };
        if advised == 0 {
            return Huge::Backed;
        }
        let error = io::Error::last_os_error();
        // SAFETY: as the caller says.
        unsafe { self.give_back(offset, HUGE_BYTES) };
        match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::NOSYS) => Huge::Unknown,
            _ => Huge::Refused,
        }
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

/// Address space in which `aligned` is the first multiple of [`HUGE_BYTES`], with `len` bytes behind it. Unmapped when
/// dropped.
struct Place {
    start: NonNull<c_void>,
    reserved: usize,
    aligned: NonNull<c_void>,
    len: usize,
}

impl Place {
    fn reserve(len: usize) -> Result<Place, Errno> {
        let reserved = len.checked_add(HUGE_BYTES).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
        let start = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(ptr::null_mut(), reserved, ProtFlags::empty(), flags)?
        };
        let start = NonNull::new(start).expect("mmap without MAP_FIXED never maps address zero");
        let ahead = start.as_ptr().addr().next_multiple_of(HUGE_BYTES) - start.as_ptr().addr();
        // SAFETY: less than `HUGE_BYTES` behind the start, hence within what is reserved.
        let aligned = unsafe { start.byte_add(ahead) };
        Ok(Place { start, reserved, aligned, len })
    }

    /// Gives up what is reserved around the aligned bytes, but not these.
    fn keep_aligned(self) -> NonNull<c_void> {
        let aligned = self.aligned;
        let ahead = aligned.as_ptr().addr() - self.start.as_ptr().addr();
        // SAFETY: within what is reserved.
        let end = unsafe { aligned.byte_add(self.len) };
        // SAFETY: both are reserved by this and nobody uses them.
        unsafe {
            unmap(self.start, ahead);
            unmap(end, self.reserved - ahead - self.len);
        }
        mem::forget(self);
        aligned
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: what is reserved is ours, and nobody uses it.
        unsafe { unmap(self.start, self.reserved) };
    }
}

/// Unmaps `len` bytes, whole pages, if there are any.
///
/// # Safety
/// They are mapped, and nobody uses them.
unsafe fn unmap(start: NonNull<c_void>, len: usize) {
    if len > 0 {
        // SAFETY: by the caller's word.
        let unmapped = unsafe { munmap(start.as_ptr(), len) };
        debug_assert!(unmapped.is_ok(), "unmapping what was mapped succeeds");
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours, and every extent holds the region alive: no address into
            // it is used later.
            unsafe { unmap(self.base.cast(), self.len) };
        }
    }
}
