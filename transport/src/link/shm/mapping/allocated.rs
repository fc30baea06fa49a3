//! What stands for memory that two processes share under miri, which maps no memfd: memory of the allocator,
//! which nobody else can have.

#![expect(unsafe_code, reason = "allocates memory and frees it")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::event::{EventfdFlags, eventfd};

use crate::memory::PAGE_BYTES;

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE_BYTES).expect("a ring's length is a constant")
}

/// `len` bytes, all zero, and a file that stands for them.
pub(super) fn create(len: usize) -> io::Result<(NonNull<u8>, OwnedFd)> {
    assert!(len > 0, "there is something to share");
    // SAFETY: the layout has a size.
    let base = NonNull::new(unsafe { alloc_zeroed(layout(len)) });
    Ok((base.ok_or(io::ErrorKind::OutOfMemory)?, eventfd(0, EventfdFlags::CLOEXEC)?))
}

/// Memory cannot be passed on here.
///
/// # Errors
/// Always.
pub(super) fn open(_file: BorrowedFd<'_>, _len: usize) -> io::Result<NonNull<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Undoes [`create`].
///
/// # Safety
/// `base` and `len` are of memory that it has made, and nobody uses it any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: as the caller says.
    unsafe { dealloc(base.as_ptr(), layout(len)) };
}
