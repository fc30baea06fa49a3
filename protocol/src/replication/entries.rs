//! Entries one after the other, as messages carry them and as a replica keeps them until they are committed: what is kept is sent
//! without being put together anew.
//!
//! ```text
//! version 8 | length 4 | zero 4 | the entry's records | zeroes to a multiple of 8
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::limits::{ENTRIES_MAX, ENTRY_MAX};
use crate::version::Version;

/// All that one change of a partition is. What the bytes say is the store's affair; replication only keeps them in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Which change it is, and in which epoch it was made.
    pub version: Version,
    /// One or more records; at most [`ENTRY_MAX`] bytes.
    pub bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Bytes in front of an entry's own.
    pub const HEAD_LEN: usize = 16;

    /// Bytes that an entry of `len` takes in a message.
    pub const fn encoded_len(len: usize) -> usize {
        Self::HEAD_LEN + len.next_multiple_of(8)
    }

    /// Appends the entry to `buffer`.
    ///
    /// # Panics
    ///
    /// If it is longer than [`ENTRY_MAX`].
    pub fn push_to(&self, buffer: &mut Vec<u8>) {
        assert!(self.bytes.len() <= ENTRY_MAX, "the store makes no longer entries");
        buffer.extend_from_slice(&self.version.0.to_le_bytes());
        buffer.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&[0; 4]);
        buffer.extend_from_slice(self.bytes);
        buffer.resize(buffer.len() + self.bytes.len().next_multiple_of(8) - self.bytes.len(), 0);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let version = Version(reader.u64()?);
        let len = reader.u32()? as usize;
        super::reserved("entry", u64::from(reader.u32()?))?;
        if len > ENTRY_MAX {
            return Err(DecodeError::ListTooLong {
                field: "bytes of an entry",
                count: len,
                limit: ENTRY_MAX,
            });
        }
        let bytes = reader.take(len)?;
        let padding = reader.take(len.next_multiple_of(8) - len)?;
        super::reserved("padding", padding.iter().map(|byte| u64::from(*byte)).sum())?;
        Ok(Self { version, bytes })
    }
}

/// A run of entries: each has the sequence after the one before it, and no lower epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// No entries.
    pub const NONE: Self = Self { count: 0, bytes: &[] };

    /// `count` entries that [`Entry::push_to`] put one after the other.
    pub const fn written(count: u32, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// Reads `count` entries that follow `previous` and are of `epoch` at most, up to the end of the message. The heads are gone
    /// through once, so that whoever walks them later meets no error.
    pub(super) fn decode(
        mut reader: Reader<'a>,
        count: u32,
        previous: Version,
        epoch: u32,
    ) -> Result<Self, DecodeError> {
        if count as usize > ENTRIES_MAX {
            return Err(DecodeError::ListTooLong {
                field: "entries",
                count: count as usize,
                limit: ENTRIES_MAX,
            });
        }
        let bytes = reader.rest();
        let mut last = previous;
        for _ in 0..count {
            let version = Entry::read(&mut reader)?.version;
            let is_next = version.sequence() == last.sequence() + 1;
            if !is_next || version.epoch() < last.epoch() || version.epoch() > epoch {
                return Err(DecodeError::EntryOutOfOrder { version });
            }
            last = version;
        }
        reader.finish()?;
        Ok(Self { count, bytes })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.bytes(self.bytes);
    }

    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all of them, as they are sent.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// One after the other.
    pub const fn iter(&self) -> EntryIter<'a> {
        EntryIter { left: self.count, reader: Reader::new(self.bytes) }
    }
}

impl<'a> IntoIterator for Entries<'a> {
    type Item = Entry<'a>;
    type IntoIter = EntryIter<'a>;

    fn into_iter(self) -> EntryIter<'a> {
        self.iter()
    }
}

/// Walks entries.
#[derive(Clone)]
pub struct EntryIter<'a> {
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Iterator for EntryIter<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(Entry::read(&mut self.reader).expect("entries were checked, or written by us"))
    }
}
