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

/// How much memory a node may use, as it is written down: a size, or a share of what there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryLimit {
    /// As `512MiB`.
    Size(MemorySize),
    /// As `12.5%`; above 0, at most 100.
    Percent(f64),
}

impl MemoryLimit {
    /// The size that it amounts to where there are `available_bytes`.
    pub fn size(self, available_bytes: u64) -> MemorySize {
        match self {
            MemoryLimit::Size(size) => size,
            MemoryLimit::Percent(percent) => {
                MemorySize::at_least_minimum((available_bytes as f64 * percent / 100.0) as u64)
            }
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<MemoryLimit, SizeError> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(MemoryLimit::Size);
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(MemoryLimit::Percent(percent)),
            _ => Err(SizeError::Percent),
        }
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
    #[error("write a number and a unit, such as 512MiB or 4GiB, or a share such as 25%")]
    Text,
    /// It is no share of the memory that there is.
    #[error("a share of the memory is above 0% and at most 100%")]
    Percent,
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
    fn a_share_is_of_what_there_is() {
        let check = |text: &str, bytes| {
            let limit: MemoryLimit = text.parse().unwrap();
            assert_eq!(limit.size(8 << 30).bytes(), bytes, "{text}");
        };
        check("1GiB", 1 << 30);
        check("50%", 4 << 30);
        check("12.5 %", 1 << 30);
        check("0.001%", MEMORY_MIN);
        for text in ["0%", "101%", "-1%", "%", "NaN%", "half%"] {
            assert_eq!(text.parse::<MemoryLimit>(), Err(SizeError::Percent), "{text}");
        }
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
