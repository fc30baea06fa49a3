//! How a learner gets what there is, beside the stream of new entries.

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;
use crate::limits::SNAPSHOT_PIECE_MAX;
use crate::version::Version;

/// A learner is to drop all that it has of the partition and begin anew, as if it had everything up to `base`: entries behind that
/// come as [`AppendEntries`](super::AppendEntries) of this session, what was before comes as records.
///
/// ```text
/// head | base 8 | session 4 | zero 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotBegin {
    /// The partition.
    pub partition: PartitionId,
    /// The primary's epoch.
    pub epoch: u32,
    /// The last entry that was committed when the session began. What comes behind it has to come as entries, since another member may
    /// have to ask the learner for them one day.
    pub base: Version,
    /// The epoch in which the session began: a learner takes nothing of another session.
    pub session: u32,
}

impl SnapshotBegin {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, base, session) = (head.epoch()?, Version(reader.u64()?), reader.u32()?);
        super::reserved("snapshot begin", u64::from(reader.u32()?))?;
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, base, session })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::SnapshotBegin, self.partition, self.epoch).encode(writer);
        writer.u64(self.base.0);
        writer.u32(self.session);
        writer.u32(0);
    }
}

/// A piece of the snapshot: records with their versions, tables and completions among them. A learner takes a record only if it has
/// none of its key that is newer.
///
/// ```text
/// head | session 4 | piece 4 | the records
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRecords<'a> {
    /// The partition.
    pub partition: PartitionId,
    /// The primary's epoch.
    pub epoch: u32,
    /// Of which session.
    pub session: u32,
    /// Which piece of it, from 0 on.
    pub piece: u32,
    /// Records, as the store writes them; at most [`SNAPSHOT_PIECE_MAX`] bytes.
    pub records: &'a [u8],
}

impl<'a> SnapshotRecords<'a> {
    pub(super) fn decode(head: Head, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (epoch, session, piece) = (head.epoch()?, reader.u32()?, reader.u32()?);
        let records = reader.rest();
        if records.len() > SNAPSHOT_PIECE_MAX {
            return Err(DecodeError::ListTooLong {
                field: "bytes of records",
                count: records.len(),
                limit: SNAPSHOT_PIECE_MAX,
            });
        }
        Ok(Self { partition: head.partition(), epoch, session, piece, records })
    }

    pub(super) fn body_len(&self) -> usize {
        8 + self.records.len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::SnapshotRecords, self.partition, self.epoch).encode(writer);
        writer.u32(self.session);
        writer.u32(self.piece);
        writer.bytes(self.records);
    }
}

/// There are no more pieces. The learner is complete when it has all of them, and every entry up to `through`: a record of the
/// snapshot may be newer than entries that are still on their way.
///
/// ```text
/// head | session 4 | pieces 4 | through 8 | zero 8
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotEnd {
    /// The partition.
    pub partition: PartitionId,
    /// The primary's epoch.
    pub epoch: u32,
    /// Of which session.
    pub session: u32,
    /// How many pieces there are.
    pub pieces: u32,
    /// The sequence of the last entry that the primary had when it read the last record.
    pub through: u64,
}

impl SnapshotEnd {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, session, pieces) = (head.epoch()?, reader.u32()?, reader.u32()?);
        let through = reader.u64()?;
        super::reserved("snapshot end", reader.u64()?)?;
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, session, pieces, through })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::SnapshotEnd, self.partition, self.epoch).encode(writer);
        writer.u32(self.session);
        writer.u32(self.pieces);
        writer.u64(self.through);
        writer.u64(0);
    }
}

/// How far a learner has come.
///
/// ```text
/// head | session 4 | pieces 4 | is complete 4 | zero 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotAcknowledge {
    /// The partition.
    pub partition: PartitionId,
    /// The learner's epoch.
    pub epoch: u32,
    /// Of which session.
    pub session: u32,
    /// How many pieces it has taken, all from the first on.
    pub pieces: u32,
    /// Whether it has everything: all pieces, and every entry up to where the snapshot ended.
    pub is_complete: bool,
}

impl SnapshotAcknowledge {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, session, pieces) = (head.epoch()?, reader.u32()?, reader.u32()?);
        let is_complete = reader.u32()?;
        super::reserved("snapshot acknowledge", u64::from(reader.u32()?))?;
        reader.finish()?;
        if is_complete > 1 {
            return Err(DecodeError::ReservedField { field: "is complete" });
        }
        let is_complete = is_complete == 1;
        Ok(Self { partition: head.partition(), epoch, session, pieces, is_complete })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::SnapshotAcknowledge, self.partition, self.epoch).encode(writer);
        writer.u32(self.session);
        writer.u32(self.pieces);
        writer.u32(u32::from(self.is_complete));
        writer.u32(0);
    }
}
