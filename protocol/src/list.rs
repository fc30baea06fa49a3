//! The keys or pairs of a multi-request: walked in place, never collected.

use std::fmt;

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, LimitError};
use crate::key::Key;
use crate::limits::{EXPIRY_LEN, LIST_BYTES_MAX, MULTI_KEYS_MAX};
use crate::value::Value;

/// The keys of a multi-get or multi-delete.
pub type Keys<'a> = List<'a, Key<'a>>;

/// The pairs of a multi-put.
pub type Pairs<'a> = List<'a, Pair<'a>>;

/// The elements of one multi-request, at most [`MULTI_KEYS_MAX`] of them in at most
/// [`LIST_BYTES_MAX`] bytes.
///
/// A list refers to a slice of elements on the sending side and to the checked bytes of the message
/// on the receiving side; both are iterated alike and compare equal.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    elements: Elements<'a, T>,
    count: usize,
    encoded_len: usize,
}

#[derive(Clone, Copy)]
enum Elements<'a, T> {
    Slice(&'a [T]),
    Wire(&'a [u8]),
}

impl<'a, T: Element<'a>> List<'a, T> {
    /// As many of `elements`, from the first on, as one request carries, and the rest. Unless
    /// `elements` is empty, at least one is taken.
    pub fn fitting(elements: &'a [T]) -> (Self, &'a [T]) {
        let (mut count, mut encoded_len) = (0, 0);
        for element in elements.iter().take(MULTI_KEYS_MAX) {
            let len = encoded_len + element.encoded_len();
            if len > LIST_BYTES_MAX {
                break;
            }
            (count, encoded_len) = (count + 1, len);
        }
        let (taken, rest) = elements.split_at(count);
        (Self { elements: Elements::Slice(taken), count, encoded_len }, rest)
    }

    /// How many elements there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements in order. The index that a reply's item states is the position here.
    #[inline]
    pub const fn iter(&self) -> ListIter<'a, T> {
        ListIter { elements: self.elements, left: self.count }
    }

    /// The count as the prefix carries it.
    #[inline]
    pub(crate) const fn wire_count(&self) -> u32 {
        self.count as u32
    }

    #[inline]
    pub(crate) const fn encoded_len(&self) -> usize {
        self.encoded_len
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        match self.elements {
            Elements::Slice(elements) => {
                for element in elements {
                    element.encode(writer);
                }
            }
            Elements::Wire(bytes) => writer.bytes(bytes),
        }
    }

    /// Checks that the rest of a message is `count` elements.
    pub(crate) fn decode(count: u32, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let count = count as usize;
        if count > MULTI_KEYS_MAX {
            return Err(LimitError::TooManyKeys { count }.into());
        }
        let bytes = reader.rest();
        for _ in 0..count {
            T::decode(&mut reader)?;
        }
        reader.finish()?;
        Ok(Self { elements: Elements::Wire(bytes), count, encoded_len: bytes.len() })
    }
}

impl<'a, T: Element<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Element<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Element<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Element<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Walks a [`List`].
#[derive(Clone, Copy)]
pub struct ListIter<'a, T> {
    elements: Elements<'a, T>,
    left: usize,
}

impl<'a, T: Element<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        Some(match &mut self.elements {
            Elements::Slice(elements) => {
                let (first, rest) = elements.split_first()?;
                *elements = rest;
                *first
            }
            Elements::Wire(bytes) => {
                let mut reader = Reader::new(bytes);
                let element = T::decode(&mut reader).ok()?;
                *bytes = reader.rest();
                element
            }
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Element<'a>> ExactSizeIterator for ListIter<'a, T> {}

/// What a multi-request lists: [`Key`] or [`Pair`].
pub trait Element<'a>: Copy {
    #[doc(hidden)]
    fn encoded_len(&self) -> usize;
    #[doc(hidden)]
    fn encode(&self, writer: &mut Writer<'_>);
    #[doc(hidden)]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

/// `length u16 | key`
impl<'a> Element<'a> for Key<'a> {
    #[inline]
    fn encoded_len(&self) -> usize {
        2 + self.len()
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.wire_len());
        writer.bytes(self);
    }

    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let len = reader.u16()?;
        reader.key(len)
    }
}

/// The flag of a pair that says that an expiry follows.
const PAIR_EXPIRY: u16 = 1 << 0;

/// What a multi-put writes under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The value.
    pub value: Value<'a>,
    /// When the object ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
}

/// `key length u16 | flags u16 | value length u32 | expiry u64, if its flag is set | key | value`
impl<'a> Element<'a> for Pair<'a> {
    #[inline]
    fn encoded_len(&self) -> usize {
        let expiry = if self.expires_at_ms.is_some() { EXPIRY_LEN } else { 0 };
        8 + expiry + self.key.len() + self.value.len()
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.key.wire_len());
        writer.u16(if self.expires_at_ms.is_some() { PAIR_EXPIRY } else { 0 });
        writer.u32(self.value.wire_len());
        if let Some(expires_at_ms) = self.expires_at_ms {
            writer.u64(expires_at_ms);
        }
        writer.bytes(&self.key);
        writer.bytes(&self.value);
    }

    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let key_len = reader.u16()?;
        let flags = reader.u16()?;
        let value_len = reader.u32()?;
        if flags & !PAIR_EXPIRY != 0 {
            return Err(DecodeError::UnsupportedPairFlags { flags: flags & !PAIR_EXPIRY });
        }
        let expires_at_ms = if flags & PAIR_EXPIRY != 0 { Some(reader.u64()?) } else { None };
        let key = reader.key(key_len)?;
        let value = Value::new(reader.take(value_len as usize)?)?;
        Ok(Self { key, value, expires_at_ms })
    }
}

#[cfg(test)]
mod tests;
