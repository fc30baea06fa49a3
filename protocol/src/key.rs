//! A key whose length is known to be good.

use std::ops::Deref;

use crate::error::LimitError;
use crate::limits::KEY_MAX;
use crate::slot::Slot;

/// A key of at most [`KEY_MAX`] bytes, borrowed from its owner or from a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// The key without bytes, which is a key.
    pub(crate) const EMPTY: Self = Self(&[]);

    /// Takes `bytes` as a key.
    ///
    /// # Errors
    ///
    /// [`LimitError::KeyTooLong`] above [`KEY_MAX`] bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, LimitError> {
        if bytes.len() > KEY_MAX {
            return Err(LimitError::KeyTooLong { len: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The key's bytes, for as long as their owner lives.
    #[inline]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The slot that the key falls into.
    #[inline]
    pub fn slot(self) -> Slot {
        Slot::of(self.0)
    }

    /// The length as requests carry it.
    #[inline]
    pub(crate) const fn wire_len(self) -> u16 {
        self.0.len() as u16
    }
}

impl Deref for Key<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_at_their_limit() {
        let bytes = vec![7; KEY_MAX + 1];
        assert_eq!(Key::new(&bytes), Err(LimitError::KeyTooLong { len: KEY_MAX + 1 }));
        assert_eq!(Key::new(&bytes[1..]).unwrap().wire_len(), 65_535);
        assert!(Key::new(b"").unwrap().is_empty());
    }
}
