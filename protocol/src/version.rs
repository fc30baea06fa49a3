//! The version of an object: it grows with every write of a partition, through delete and recreate.

use std::fmt;
use std::str::FromStr;

/// An object's version: the partition's epoch in the high 20 bits, its write sequence in the low 44.
///
/// Versions of one partition are totally ordered by when they were written. A partition that moves
/// or fails over gets a new epoch, so a version is never given out twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Older than every object: what a partition that never took a write answers.
    pub const NONE: Self = Self(0);

    /// Bits of the sequence.
    pub const SEQUENCE_BITS: u32 = 44;

    /// The last sequence of an epoch: 200 days of a million writes a second.
    pub const SEQUENCE_MAX: u64 = (1 << Self::SEQUENCE_BITS) - 1;

    /// The last epoch.
    pub const EPOCH_MAX: u32 = (1 << (64 - Self::SEQUENCE_BITS)) - 1;

    /// The version of write `sequence` in `epoch`.
    ///
    /// # Panics
    ///
    /// If `epoch` is above [`EPOCH_MAX`](Self::EPOCH_MAX) or `sequence` above
    /// [`SEQUENCE_MAX`](Self::SEQUENCE_MAX): a partition asks for a new epoch before that.
    #[inline]
    pub const fn new(epoch: u32, sequence: u64) -> Self {
        assert!(epoch <= Self::EPOCH_MAX, "a partition's epoch has 20 bits");
        assert!(sequence <= Self::SEQUENCE_MAX, "a partition's sequence has 44 bits");
        Self(((epoch as u64) << Self::SEQUENCE_BITS) | sequence)
    }

    /// The epoch of the partition that gave this version out.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> Self::SEQUENCE_BITS) as u32
    }

    /// Which write of its epoch this was.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 & Self::SEQUENCE_MAX
    }

    /// The version of the next write, or `None` when the epoch has run out of sequences.
    #[inline]
    pub const fn next(self) -> Option<Self> {
        if self.sequence() == Self::SEQUENCE_MAX { None } else { Some(Self(self.0 + 1)) }
    }
}

/// `epoch.sequence`, as in `3.1024`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch(), self.sequence())
    }
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no version: they look like 1.42")]
pub struct MalformedVersion {
    text: String,
}

/// Takes `3.1024`.
impl FromStr for Version {
    type Err = MalformedVersion;

    fn from_str(text: &str) -> Result<Self, MalformedVersion> {
        let parse = || {
            let (epoch, sequence) = text.split_once('.')?;
            let (epoch, sequence) = (epoch.parse().ok()?, sequence.parse().ok()?);
            (epoch <= Self::EPOCH_MAX && sequence <= Self::SEQUENCE_MAX)
                .then(|| Self::new(epoch, sequence))
        };
        parse().ok_or_else(|| MalformedVersion { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_is_shown() {
        let last = Version(u64::MAX);
        for version in [Version::NONE, Version::new(3, 1024), last] {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        for text in ["", "1", "1.", ".1", "1.2.3", "1.-2", "1048576.0", "1.17592186044416", "a.b"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_version_is_epoch_then_sequence() {
        let version = Version::new(3, 1024);
        assert_eq!((version.epoch(), version.sequence()), (3, 1024));
        assert_eq!(version.to_string(), "3.1024");
        assert_eq!(version.next(), Some(Version::new(3, 1025)));
        assert!(Version::new(1, 0) > Version::new(0, Version::SEQUENCE_MAX));
    }

    #[test]
    fn an_epoch_runs_out_rather_than_spilling_into_the_next() {
        assert_eq!(Version::new(7, Version::SEQUENCE_MAX).next(), None);
        assert_eq!(Version::new(Version::EPOCH_MAX, Version::SEQUENCE_MAX).0, u64::MAX);
    }
}
