//! What a message carries: something that knows its length and writes itself.

/// The body of a message. It is written straight into outgoing registered memory, once, when the
/// transport has room for it.
pub trait Body: Send {
    /// How many bytes [`write`](Body::write) fills; at most [`LARGE_MAX`](crate::limits::LARGE_MAX).
    fn len(&self) -> usize;

    /// Whether there is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer`, which is exactly [`len`](Body::len) bytes long. Its earlier contents are
    /// unspecified, so every byte has to be written.
    ///
    /// It is called in the middle of sending. What it does must not use an endpoint or a connection: to call, send or
    /// close there panics, or waits for itself for ever.
    fn write(self, buffer: &mut [u8]);
}

impl Body for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn write(self, buffer: &mut [u8]) {
        buffer.copy_from_slice(self);
    }
}

/// One after the other.
impl<const N: usize> Body for [&[u8]; N] {
    fn len(&self) -> usize {
        self.iter().map(|slice| slice.len()).sum()
    }

    fn write(self, mut buffer: &mut [u8]) {
        for slice in self {
            let (filled, rest) = buffer.split_at_mut(slice.len());
            filled.copy_from_slice(slice);
            buffer = rest;
        }
    }
}

impl<const N: usize> Body for &[u8; N] {
    fn len(&self) -> usize {
        N
    }

    fn write(self, buffer: &mut [u8]) {
        buffer.copy_from_slice(self);
    }
}
