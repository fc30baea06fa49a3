//! The bytes of a graph that was got: where they were received, or a copy.

#![expect(unsafe_code, reason = "says of what it keeps that it stays as it is")]

use weft_object::{AlignedBytes, StableBytes, is_aligned};

use crate::object::Object;

/// The bytes of a value that is a graph, which its view keeps.
#[derive(Clone, Debug)]
pub struct GraphBytes(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    /// Has a stable address, and is aligned.
    Received(Object),
    Copied(AlignedBytes),
}

impl GraphBytes {
    /// Those of `object`, where they lie if a graph can be used there.
    pub(super) fn new(object: Object) -> GraphBytes {
        if object.has_stable_address() && is_aligned(&object) {
            return GraphBytes(Bytes::Received(object));
        }
        GraphBytes(Bytes::Copied(AlignedBytes::copied(&object)))
    }

    /// Whether they were copied out of the reply, because they did not lie there as objects have to be aligned, or are so few
    /// that they lie in the handle itself.
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Bytes::Copied(_))
    }
}

// SAFETY: an object whose address is stable lends the same bytes as long as it exists, wherever it is moved, and nobody writes to them; a
// copy says the same of itself.
unsafe impl StableBytes for GraphBytes {
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Received(object) => object,
            Bytes::Copied(copy) => copy.bytes(),
        }
    }
}
