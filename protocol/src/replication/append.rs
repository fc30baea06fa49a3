//! Entries on their way: from a primary to those that follow it, and from a survivor to a new primary.

use super::entries::Entries;
use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;
use crate::version::Version;

/// Entries from a partition's primary; none, if it only tells how far all have come or carries a new epoch.
///
/// ```text
/// head | previous 8 | committed 8 | session 4 | count 4 | entries
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendEntries<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The primary's epoch.
    pub epoch: u32,
    /// The version of the entry before the first: a replica that has another one there, or none, must not append.
    pub previous: Version,
    /// Up to which sequence every member has everything. It is never a reason to drop an entry above it.
    pub committed: u64,
    /// 0 to a member; to a learner the session that [`SnapshotBegin`](super::SnapshotBegin) opened.
    pub session: u32,
    /// What follows `previous`.
    pub entries: Entries<'a>,
}

impl<'a> AppendEntries<'a> {
    pub(super) fn decode(head: Head, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let epoch = head.epoch()?;
        let previous = Version(reader.u64()?);
        let committed = reader.u64()?;
        let session = reader.u32()?;
        let count = reader.u32()?;
        let entries = Entries::decode(reader, count, previous, epoch)?;
        Ok(Self { partition: head.partition(), epoch, previous, committed, session, entries })
    }

    pub(super) fn body_len(&self) -> usize {
        24 + self.entries.bytes().len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Append, self.partition, self.epoch).encode(writer);
        writer.u64(self.previous.0);
        writer.u64(self.committed);
        writer.u32(self.session);
        writer.u32(self.entries.count());
        self.entries.encode(writer);
    }
}

/// A new primary asks the survivor that has come farthest for the entries that it lacks itself.
///
/// ```text
/// head | after 8
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The partition.
    pub partition: PartitionId,
    /// The new primary's epoch.
    pub epoch: u32,
    /// The last entry that the new primary has.
    pub after: Version,
}

impl Tail {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, after) = (head.epoch()?, Version(reader.u64()?));
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, after })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Tail, self.partition, self.epoch).encode(writer);
        writer.u64(self.after.0);
    }
}

/// The answer to [`Tail`]: some of the entries, from the first that was asked for on.
///
/// ```text
/// head | previous 8 | zero 4 | count 4 | entries
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailEntries<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch of the new primary that asked.
    pub epoch: u32,
    /// The version of the entry before the first.
    pub previous: Version,
    /// What follows `previous`.
    pub entries: Entries<'a>,
}

impl<'a> TailEntries<'a> {
    pub(super) fn decode(head: Head, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let epoch = head.epoch()?;
        let previous = Version(reader.u64()?);
        super::reserved("tail entries", u64::from(reader.u32()?))?;
        let count = reader.u32()?;
        let entries = Entries::decode(reader, count, previous, epoch)?;
        Ok(Self { partition: head.partition(), epoch, previous, entries })
    }

    pub(super) fn body_len(&self) -> usize {
        16 + self.entries.bytes().len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::TailEntries, self.partition, self.epoch).encode(writer);
        writer.u64(self.previous.0);
        writer.u32(0);
        writer.u32(self.entries.count());
        self.entries.encode(writer);
    }
}
