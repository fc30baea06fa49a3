//! A growing array that never moves its elements.

use std::ops;

/// Elements a chunk.
const CHUNK: usize = 64;

/// An array that grows by a chunk of elements at a time. Only its directory, 8 bytes a chunk, is
/// ever copied.
pub(super) struct Chunks<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    fill: T,
}

impl<T: Copy> Chunks<T> {
    /// Heap bytes of a chunk and its place in the directory.
    pub(super) const CHUNK_BYTES: usize = size_of::<[T; CHUNK]>() + 8;

    /// An empty array, whose elements will be copies of `fill`.
    pub(super) fn new(fill: T) -> Chunks<T> {
        Chunks { chunks: Vec::new(), fill }
    }

    pub(super) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * Self::CHUNK_BYTES
    }

    pub(super) fn grow(&mut self) {
        self.chunks.push(Box::new([self.fill; CHUNK]));
    }
}

impl<T> ops::Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> ops::IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}
