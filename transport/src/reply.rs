//! A reply as the caller gets it.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::connection::{BodyReader, Untaken};
use crate::memory::Shared;

/// Replies up to this length are copied into the call's slot: cheaper than counting references, while all of it has the
/// size of a line of the cache.
const INLINE_MAX: usize = 54;

const _: () = assert!(size_of::<Reply>() == 64);

/// Replies up to this length are copied to the heap, so that they do not hold on to a whole
/// receive buffer.
const COPY_MAX: usize = 16 << 10;

/// The body of a reply. It reads as bytes; a large one is a part of the buffer that it was received
/// into, which is held until the reply is dropped.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Bytes,
}

/// Short ones are moved a few times on their way to the caller. With a tag of a whole word that is by words, which the processor
/// forwards from one move to the next; behind a tag of one byte it is by parts that overlap, each of which waits for the one before.
#[derive(Clone)]
#[repr(u64)]
enum Bytes {
    Inline(Inline),
    Heap {
        bytes: Arc<[u8]>,
        start: usize,
        end: usize,
    },
    Received(Shared),
    /// With a body behind it, until that is taken.
    Opened {
        head: Shared,
        body: Arc<Untaken>,
    },
}

/// A short reply itself.
#[derive(Clone)]
#[repr(C, align(8))]
struct Inline {
    bytes: [u8; INLINE_MAX],
    start: u8,
    end: u8,
}

impl Reply {
    /// What a reply with a streamed body began with.
    pub(crate) fn opened(head: Shared, body: BodyReader) -> Self {
        Self { bytes: Bytes::Opened { head, body: Arc::new(Untaken::new(body)) } }
    }

    /// What reads the body that is streamed behind the reply, if there is one; clones of the reply have it
    /// together. A body that is not taken is given up when the last of them is dropped.
    pub fn take_body(&self) -> Option<BodyReader> {
        match &self.bytes {
            Bytes::Opened { body, .. } => body.take(),
            _ => None,
        }
    }

    /// A reply that lies at `range` of a receive buffer. Large ones keep `buffer`.
    pub(crate) fn received(buffer: &Shared, range: Range<usize>) -> Self {
        if range.len() > COPY_MAX {
            return Self { bytes: Bytes::Received(buffer.slice(range)) };
        }
        // Of a known length: more bytes than are meant, mostly, but no loop, and no second look at where they were put.
        if let (Some(bytes), len @ ..=INLINE_MAX) =
            (buffer[range.start..].first_chunk(), range.len())
        {
            return Self::inline(*bytes, len);
        }
        Self::copied(&buffer[range])
    }

    #[inline]
    fn inline(bytes: [u8; INLINE_MAX], len: usize) -> Self {
        Self { bytes: Bytes::Inline(Inline { bytes, start: 0, end: len as u8 }) }
    }

    /// A reply with a copy of `body`.
    pub(crate) fn copied(body: &[u8]) -> Self {
        if body.len() <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            bytes[..body.len()].copy_from_slice(body);
            return Self::inline(bytes, body.len());
        }
        Self { bytes: Bytes::Heap { bytes: body.into(), start: 0, end: body.len() } }
    }

    /// Whether the bytes have one address for as long as the reply or a clone of it exists. Those of a short reply lie in the
    /// reply itself, and move with it.
    pub fn has_stable_address(&self) -> bool {
        !matches!(self.bytes, Bytes::Inline(_))
    }

    /// The part of the reply at `range`, without copying it. A streamed body that has not been taken is given
    /// up.
    ///
    /// # Panics
    /// If `range` does not lie within the reply.
    #[must_use]
    #[inline]
    pub fn slice(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a range within the reply");
        if let Bytes::Inline(inline) = &mut self.bytes {
            inline.end = inline.start + range.end as u8;
            inline.start += range.start as u8;
            return self;
        }
        self.slice_elsewhere(range)
    }

    /// As [`slice`](Self::slice), of a reply that lies elsewhere.
    fn slice_elsewhere(self, range: Range<usize>) -> Self {
        let bytes = match self.bytes {
            Bytes::Inline(_) => return self,
            Bytes::Heap { bytes, start, .. } => {
                Bytes::Heap { bytes, start: start + range.start, end: start + range.end }
            }
            Bytes::Received(shared) => Bytes::Received(shared.slice(range)),
            Bytes::Opened { head, .. } => Bytes::Received(head.slice(range)),
        };
        Self { bytes }
    }
}

impl Deref for Reply {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Inline(Inline { bytes, start, end }) => {
                &bytes[usize::from(*start)..usize::from(*end)]
            }
            Bytes::Heap { bytes, start, end } => &bytes[*start..*end],
            Bytes::Received(shared) => shared,
            Bytes::Opened { head, .. } => head,
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inline(_) => "inline",
            Self::Heap { .. } => "heap",
            Self::Received(_) => "received",
            Self::Opened { .. } => "with a body",
        })
    }
}
