//! A value whose length is known to be good.

use std::ops::Deref;

use crate::error::LimitError;
use crate::limits::REQUEST_VALUE_MAX;

/// A value of at most [`REQUEST_VALUE_MAX`] bytes, borrowed from its owner or from a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// Takes `bytes` as a value.
    ///
    /// # Errors
    ///
    /// [`LimitError::RequestValueTooLarge`] above [`REQUEST_VALUE_MAX`] bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, LimitError> {
        if bytes.len() > REQUEST_VALUE_MAX {
            return Err(LimitError::RequestValueTooLarge { len: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The value's bytes, for as long as their owner lives.
    #[inline]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The length as requests and replies carry it.
    #[inline]
    pub(crate) const fn wire_len(self) -> u32 {
        self.0.len() as u32
    }
}

impl Deref for Value<'_> {
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
    fn values_end_at_their_limit() {
        let bytes = vec![7; REQUEST_VALUE_MAX + 1];
        assert_eq!(
            Value::new(&bytes),
            Err(LimitError::RequestValueTooLarge { len: REQUEST_VALUE_MAX + 1 })
        );
        assert_eq!(Value::new(&bytes[1..]).unwrap().len(), REQUEST_VALUE_MAX);
    }
}
