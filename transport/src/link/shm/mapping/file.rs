//! Where memory that two processes share comes from: a sealed memfd.

#![expect(unsafe_code, reason = "maps a file and unmaps it")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// The file can be neither cut short (access would end in SIGBUS) nor made longer, and that
/// cannot be undone.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A readable and writable mapping of a new file of `len` bytes, all zero, whose size is sealed; and the file.
pub(super) fn create(len: usize) -> io::Result<(NonNull<u8>, OwnedFd)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("weft-shm", flags)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok((map(file.as_fd(), len)?, file))
}

/// Such a mapping of a file that another process has made.
///
/// # Errors
/// `InvalidData` for a file that is no memfd of `len` bytes whose size is sealed.
pub(super) fn open(file: BorrowedFd<'_>, len: usize) -> io::Result<NonNull<u8>> {
    let no = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| no("not a sealed memory file"))?;
    if !seals.contains(SEALS) {
        return Err(no("a memory file that can change its size"));
    }
    if rustix::fs::fstat(file)?.st_size != len as i64 {
        return Err(no("a memory file of another size"));
    }
    map(file, len)
}

fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
    let base = unsafe {
        rustix::mm::mmap(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    Ok(NonNull::new(base.cast()).expect("mmap without MAP_FIXED never maps address zero"))
}

/// Undoes [`create`] or [`open`].
///
/// # Safety
/// `base` and `len` are of a mapping that one of these has made, and nobody uses it any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: as the caller says.
    let unmapped = unsafe { rustix::mm::munmap(base.as_ptr().cast(), len) };
    debug_assert!(unmapped.is_ok(), "unmapping what was mapped succeeds");
}
