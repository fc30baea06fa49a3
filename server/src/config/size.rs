//! Sizes of memory as people write them.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;

use crate::limits::MEMORY_MIN;

/// Bytes of memory for a node, at least [`MEMORY_MIN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySize(u64);

impl MemorySize {
    /// `bytes`, or the least that a node can work with.
    pub fn at_least_minimum(bytes: u64) -> MemorySize {
        MemorySize(bytes.max(MEMORY_MIN))
    }

    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for MemorySize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<MemorySize, SizeError> {
        let size: ByteSize = text.parse().map_err(|_| SizeError::Text)?;
        if size.as_u64() < MEMORY_MIN {
            return Err(SizeError::TooSmall);
        }
        Ok(MemorySize(size.as_u64()))
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize::b(self.0).display().iec().fmt(f)
    }
}

/// What keeps a text from being a size of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It is no size.
    #[error("write a number and a unit, such as 512MiB or 4GiB")]
    Text,
    /// It is less than a node can work with.
    #[error("a node needs at least {}", ByteSize::b(MEMORY_MIN).display().iec())]
    TooSmall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_decimal() {
        let check = |text: &str, bytes| assert_eq!(text.parse(), Ok(MemorySize(bytes)), "{text}");
        check("1GiB", 1 << 30);
        check("1.5GiB", 3 << 29);
        check("1GB", 1_000_000_000);
        check("1073741824", 1 << 30);
    }

    #[test]
    fn what_is_no_size_or_too_small_is_refused() {
        let check =
            |text: &str, error| assert_eq!(text.parse::<MemorySize>(), Err(error), "{text}");
        check("lots", SizeError::Text);
        check("", SizeError::Text);
        check("-1GiB", SizeError::Text);
        check("1KiB", SizeError::TooSmall);
    }
}
