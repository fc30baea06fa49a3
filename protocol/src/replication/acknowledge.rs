//! What replicas answer to entries: how far they have come, what they lack, or that the epoch is an old one.

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;
use crate::limits::ACKNOWLEDGEMENTS_MAX;
use crate::version::Version;

/// A replica has every entry of a partition up to a sequence: in memory, and on disk too if the partition's class is `fsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The partition.
    pub partition: PartitionId,
    /// The replica's epoch.
    pub epoch: u32,
    /// Up to which sequence it has every entry.
    pub sequence: u64,
}

impl Acknowledgement {
    /// Bytes of one in a message.
    pub const LEN: usize = 16;

    /// Appends it to `buffer`, for [`Acknowledgements::written`].
    pub fn push_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.partition.0.to_le_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&self.epoch.to_le_bytes());
        buffer.extend_from_slice(&self.sequence.to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let partition = PartitionId(reader.u16()?);
        super::reserved("acknowledgement", u64::from(reader.u16()?))?;
        Ok(Self { partition, epoch: reader.u32()?, sequence: reader.u64()? })
    }
}

/// How far partitions have come, of which the receiver is the primary.
///
/// ```text
/// head, with the count in the place of the partition | partition 2, zero 2, epoch 4, sequence 8 | ...
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgements<'a> {
    bytes: &'a [u8],
}

impl<'a> Acknowledgements<'a> {
    /// What [`Acknowledgement::push_to`] wrote, up to [`ACKNOWLEDGEMENTS_MAX`] times.
    ///
    /// # Panics
    ///
    /// If there are more.
    pub fn written(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / Acknowledgement::LEN;
        assert!(count <= ACKNOWLEDGEMENTS_MAX, "{count} acknowledgements are too many for one");
        Self { bytes }
    }

    pub(super) fn decode(head: Head, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        super::reserved("epoch", u64::from(head.epoch))?;
        let count = usize::from(head.partition);
        if count > ACKNOWLEDGEMENTS_MAX {
            return Err(DecodeError::ListTooLong {
                field: "acknowledgements",
                count,
                limit: ACKNOWLEDGEMENTS_MAX,
            });
        }
        let bytes = reader.take(count * Acknowledgement::LEN)?;
        reader.finish()?;
        let mut items = Reader::new(bytes);
        (0..count).try_for_each(|_| Acknowledgement::read(&mut items).map(|_| ()))?;
        Ok(Self { bytes })
    }

    pub(super) fn body_len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        let count = (self.bytes.len() / Acknowledgement::LEN) as u16;
        Head::of(Kind::Acknowledge, PartitionId(count), 0).encode(writer);
        writer.bytes(self.bytes);
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Acknowledgement> + use<'a> {
        self.bytes.chunks_exact(Acknowledgement::LEN).map(|bytes| {
            Acknowledgement::read(&mut Reader::new(bytes)).expect("checked, or written by us")
        })
    }
}

/// Where a replica is to be sent entries from: what it has ends before those that came, and what lies between did not come; or it has those that came
/// again, and cannot acknowledge them yet.
///
/// ```text
/// head | last 8 | session 4 | zero 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The partition.
    pub partition: PartitionId,
    /// The replica's epoch.
    pub epoch: u32,
    /// The last entry that it has: begin behind it.
    pub last: Version,
    /// Of a learner, its session; 0 of a member.
    pub session: u32,
}

impl Missing {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, last, session) = (head.epoch()?, Version(reader.u64()?), reader.u32()?);
        super::reserved("missing", u64::from(reader.u32()?))?;
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, last, session })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Missing, self.partition, self.epoch).encode(writer);
        writer.u64(self.last.0);
        writer.u32(self.session);
        writer.u32(0);
    }
}

/// The epoch of a message is lower than the replica's, which is in the head: its sender is to look at the map.
///
/// ```text
/// head
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch of the replica that answers.
    pub epoch: u32,
}

impl Stale {
    pub(super) fn decode(head: Head, reader: Reader<'_>) -> Result<Self, DecodeError> {
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch: head.epoch()? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Stale, self.partition, self.epoch).encode(writer);
    }
}
