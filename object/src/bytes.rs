//! Bytes that stay what they are while they are viewed.

#![expect(unsafe_code, reason = "the trait states what its bytes do")]

use std::sync::Arc;

use weft_transport::{Reply, Retained, Shared};

/// What segments are aligned to.
const ALIGNED_TO: usize = 8;

/// Bytes that do not change while anybody holds them. Only such bytes are validated: what a peer
/// can still write to would be checked as one thing and used as another.
///
/// # Safety
/// As long as a value lives, wherever it is moved, [`bytes`](Self::bytes) returns the same address,
/// length and contents.
pub unsafe trait StableBytes {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

// SAFETY: immutable while any view of them lives.
unsafe impl StableBytes for Shared {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: holds a receive buffer that nobody writes any more, or a copy on the heap.
unsafe impl StableBytes for Retained {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `Retained`: the buffer or the copy is not written any more.
unsafe impl StableBytes for &Reply {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: shared borrows of bytes are not written through.
unsafe impl StableBytes for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The bytes of a part of a reply: where they were received, or a copy where nothing can be used there.
#[derive(Clone, Debug)]
pub struct ReplyBytes(Replied);

#[derive(Clone, Debug)]
enum Replied {
    /// Has a stable address, and is aligned.
    Received(Reply),
    Copied(Arc<AlignedBytes>),
}

impl ReplyBytes {
    /// Those of `reply`.
    pub fn new(reply: Reply) -> Self {
        match reply.has_stable_address() && crate::is_aligned(&reply) {
            true => Self(Replied::Received(reply)),
            false => Self(Replied::Copied(Arc::new(AlignedBytes::copied(&reply)))),
        }
    }

    /// Whether they were copied out of the reply, because they did not lie there as objects have to be aligned, or are so few
    /// that they lie in the handle itself.
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Replied::Copied(_))
    }
}

// SAFETY: a reply whose address is stable lends the same bytes as long as it or a clone exists, and nobody writes to them; a copy says the same of itself.
unsafe impl StableBytes for ReplyBytes {
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Replied::Received(reply) => reply,
            Replied::Copied(copy) => copy.bytes(),
        }
    }
}

/// A copy on the heap, aligned as segments have to be: of few bytes, and of such as lie anywhere. A clone is another copy.
#[derive(Debug)]
pub struct AlignedBytes {
    bytes: Vec<u8>,
    /// Where the copy begins: what is ahead makes up for where the heap has put it.
    start: usize,
}

impl AlignedBytes {
    /// Copies `bytes`.
    pub fn copied(bytes: &[u8]) -> Self {
        let mut copy: Vec<u8> = Vec::with_capacity(ALIGNED_TO - 1 + bytes.len());
        let start = copy.as_ptr().addr().next_multiple_of(ALIGNED_TO) - copy.as_ptr().addr();
        copy.resize(start, 0);
        copy.extend_from_slice(bytes);
        Self { bytes: copy, start }
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        Self::copied(self.bytes())
    }
}

// SAFETY: on the heap, where a vector that nobody changes leaves it.
unsafe impl StableBytes for AlignedBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
