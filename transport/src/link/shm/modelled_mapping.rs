//! What stands for shared memory in models of loom's: words of which it follows every use.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::atomic::AtomicU64;

/// Eight bytes of it.
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Word {
    pub(super) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    pub(super) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    /// Swaps. Of stores by two threads to one word, loom would let threads disagree about which came
    /// last, even where one of them read the other's (`swap` in `take_sleeper`), which no machine does.
    pub(super) fn store(&self, value: u64, order: Ordering) {
        self.0.swap(value, order);
    }

    pub(super) fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }
}

/// Memory that both ends of a link in the same process use. Words and bytes are apart, and only
/// words are followed: what a model writes are words.
#[derive(Debug)]
pub struct Mapping {
    words: Vec<Word>,
    bytes: Vec<AtomicU8>,
}

impl Mapping {
    /// New memory of `len` bytes, all zero, and a file that stands for it.
    pub fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let words = (0..len / 8).map(|_| Word::new(0)).collect();
        let bytes = (0..len).map(|_| AtomicU8::new(0)).collect();
        Ok((Self { words, bytes }, eventfd(0, EventfdFlags::CLOEXEC)?))
    }

    /// Memory cannot be passed on here.
    ///
    /// # Errors
    /// Always.
    pub fn open(_file: BorrowedFd<'_>, _len: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The memory as words of eight bytes.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Memory of as many bytes.
    pub(super) fn bytes(&self) -> &[AtomicU8] {
        &self.bytes
    }
}
