//! Little-endian integers and slices, read with a bounds check each and written in order.

use crate::cluster_map::MapError;
use crate::error::DecodeError;
use crate::key::Key;
use crate::slot::Slot;
use crate::value::Value;

/// The two words that a request's prefix and a reply's head are. Fields are shifted out of them, since
/// a head that is taken apart byte by byte goes through the stack.
#[inline]
pub(crate) fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let (words, _) = bytes.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

/// The bytes of two words.
#[inline]
pub(crate) fn word_bytes(words: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    chunks[0] = words[0].to_le_bytes();
    chunks[1] = words[1].to_le_bytes();
    bytes
}

/// Reads a message from its front; what it returns borrows from the message.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are left.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(DecodeError::Truncated { missing: len - self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated { missing: N - self.rest.len() });
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A key of `len` bytes.
    #[inline]
    pub(crate) fn key(&mut self, len: u16) -> Result<Key<'a>, DecodeError> {
        Ok(Key::new(self.take(usize::from(len))?)?)
    }

    /// A value of `len` bytes.
    #[inline]
    pub(crate) fn value(&mut self, len: u32) -> Result<Value<'a>, DecodeError> {
        Ok(Value::new(self.take(len as usize)?)?)
    }

    /// A slot's number.
    pub(crate) fn slot(&mut self) -> Result<Slot, DecodeError> {
        let number = self.u16()?;
        Ok(Slot::from_number(number).ok_or(MapError::SlotRange { number })?)
    }

    /// A text of `len` bytes; `field` names it in the error.
    pub(crate) fn text(&mut self, len: u16, field: &'static str) -> Result<&'a str, DecodeError> {
        let bytes = self.take(usize::from(len))?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidText { field })
    }

    /// Fails if the message goes on.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes { extra: self.rest.len() })
        }
    }
}

/// Fills a buffer from its front. The buffer's length was worked out beforehand, so running over
/// its end, or leaving bytes over, is a bug and panics.
pub struct Writer<'b> {
    rest: &'b mut [u8],
}

impl<'b> Writer<'b> {
    #[inline]
    pub(crate) const fn new(buffer: &'b mut [u8]) -> Self {
        Self { rest: buffer }
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (filled, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        filled.copy_from_slice(bytes);
        self.rest = rest;
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    #[inline]
    pub(crate) fn finish(self) {
        assert!(self.rest.is_empty(), "the buffer is as long as encoded_len said");
    }
}
