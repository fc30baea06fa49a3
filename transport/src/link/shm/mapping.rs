//! Memory that two processes share: a sealed memfd, mapped by both.

#![expect(unsafe_code, reason = "hands mapped memory out as atomics")]

#[cfg_attr(miri, path = "mapping/allocated.rs")]
mod file;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

/// Eight bytes of it.
pub(super) use std::sync::atomic::AtomicU64 as Word;

/// A mapping of memory that another process has mapped too, and may write to at any time.
///
/// Invariant: `base` is the start of a readable and writable mapping of `len` bytes, a multiple of
/// the page size, that lives as long as this and never moves; the file behind it cannot shrink.
/// Nothing but atomics ever refers to it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; what is handed out are atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory of `len` bytes, all zero, and the file by which another process can map it.
    pub fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let (base, file) = file::create(len)?;
        Ok((Self { base, len }, file))
    }

    /// Maps memory that another process has made.
    ///
    /// # Errors
    /// `InvalidData` for a file that is no memfd of `len` bytes whose size is sealed.
    pub fn open(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Ok(Self { base: file::open(file, len)?, len })
    }

    /// The memory as words of eight bytes.
    #[inline]
    pub fn words(&self) -> &[Word] {
        // SAFETY: the mapping is as long, page-aligned, and lives as long as `self`; atomics may be
        // written to by anybody at any time, and every value of their bytes is valid.
        unsafe { std::slice::from_raw_parts(self.base.cast().as_ptr(), self.len / 8) }
    }

    /// The same memory as bytes.
    #[inline]
    pub(super) fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.base.cast().as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all that was handed out borrows from `self`.
        unsafe { file::unmap(self.base, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::MemfdFlags;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it maps no memfd")]
    fn both_sides_see_the_same_memory() {
        let (ours, file) = Mapping::create(8192).unwrap();
        let theirs = Mapping::open(file.as_fd(), 8192).unwrap();
        ours.words()[1000].store(7, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(theirs.words()[1000].load(std::sync::atomic::Ordering::SeqCst), 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it maps no memfd")]
    fn memory_that_could_shrink_or_has_another_size_is_not_mapped() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
        rustix::fs::ftruncate(&unsealed, 8192).unwrap();
        assert!(Mapping::open(unsealed.as_fd(), 8192).is_err());
        let (_ours, file) = Mapping::create(4096).unwrap();
        assert!(Mapping::open(file.as_fd(), 8192).is_err());
        let pipe = rustix::pipe::pipe().unwrap();
        assert!(Mapping::open(pipe.0.as_fd(), 8192).is_err());
    }
}
