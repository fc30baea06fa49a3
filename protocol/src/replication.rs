//! What nodes that hold the same partitions say to one another: one closed enum, as requests are.
//!
//! The messages go one way, in the transport's class of replication; none is answered by the transport. They may be lost with a
//! connection, come twice after a reconnect, and overtake one another between lanes, so each says by itself where it belongs:
//! partition and epoch first. `docs/replication.md` draws them and says why the protocol holds.

mod acknowledge;
mod append;
mod entries;
mod fence;
mod lease;
mod notice;
mod part;
mod snapshot;

pub use acknowledge::{Acknowledgement, Acknowledgements, Missing, Stale};
pub use append::{AppendEntries, Tail, TailEntries};
pub use entries::{Entries, Entry, EntryIter};
pub use fence::{Fence, Fenced};
pub use lease::{Grant, Lease};
pub use notice::Notice;
pub use part::Part;
pub use snapshot::{SnapshotAcknowledge, SnapshotBegin, SnapshotEnd, SnapshotRecords};

use weft_transport::Body;

use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;

/// The version of these messages. Nodes of another version are refused when they join, so a message of one is an error.
pub const PEER_VERSION: u8 = 1;

/// Bytes that every message starts with.
pub(crate) const HEAD_LEN: usize = 8;

/// A message from one node to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMessage<'a> {
    /// Entries of a partition, from its primary.
    Append(AppendEntries<'a>),
    /// How far partitions have come.
    Acknowledge(Acknowledgements<'a>),
    /// Entries cannot be appended: something before them is missing.
    Missing(Missing),
    /// The receiver's epoch is an old one.
    Stale(Stale),
    /// A new primary asks that nothing of an earlier epoch be taken any more.
    Fence(Fence),
    /// Nothing of an earlier epoch will be.
    Fenced(Fenced),
    /// A new primary asks for entries that it lacks.
    Tail(Tail),
    /// Those entries.
    TailEntries(TailEntries<'a>),
    /// A node asks another for a lease.
    Lease(Lease),
    /// The lease.
    Grant(Grant),
    /// A learner is to drop what it has and begin.
    SnapshotBegin(SnapshotBegin),
    /// Records for a learner.
    SnapshotRecords(SnapshotRecords<'a>),
    /// A learner was sent all records.
    SnapshotEnd(SnapshotEnd),
    /// How far a learner has come with records.
    SnapshotAcknowledge(SnapshotAcknowledge),
    /// What a coordinator or a node is to know.
    Notice(Notice<'a>),
    /// Bytes of a message that is sent in parts.
    Part(Part<'a>),
}

/// What a message is, as its first byte says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Append = 1,
    Acknowledge,
    Missing,
    Stale,
    Fence,
    Fenced,
    Tail,
    TailEntries,
    Lease,
    Grant,
    SnapshotBegin,
    SnapshotRecords,
    SnapshotEnd,
    SnapshotAcknowledge,
    Notice,
    Part,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Append,
        Self::Acknowledge,
        Self::Missing,
        Self::Stale,
        Self::Fence,
        Self::Fenced,
        Self::Tail,
        Self::TailEntries,
        Self::Lease,
        Self::Grant,
        Self::SnapshotBegin,
        Self::SnapshotRecords,
        Self::SnapshotEnd,
        Self::SnapshotAcknowledge,
        Self::Notice,
        Self::Part,
    ];

    fn from_number(number: u8) -> Result<Self, DecodeError> {
        let kind = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        kind.ok_or(DecodeError::UnknownMessage { kind: number })
    }
}

/// What every message starts with. `partition` and `epoch` are 0 where a message is about none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) partition: u16,
    pub(crate) epoch: u32,
}

impl Head {
    pub(crate) const fn of(kind: Kind, partition: PartitionId, epoch: u32) -> Self {
        Self { kind, partition: partition.0, epoch }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [kind, version] = reader.array()?;
        let (partition, epoch) = (reader.u16()?, reader.u32()?);
        if version != PEER_VERSION {
            return Err(DecodeError::UnsupportedVersion { version });
        }
        Ok(Self { kind: Kind::from_number(kind)?, partition, epoch })
    }

    pub(crate) fn encode(self, writer: &mut Writer<'_>) {
        writer.bytes(&[self.kind as u8, PEER_VERSION]);
        writer.u16(self.partition);
        writer.u32(self.epoch);
    }

    pub(crate) fn partition(self) -> PartitionId {
        PartitionId(self.partition)
    }

    /// The epoch, which versions have to have room for.
    pub(crate) fn epoch(self) -> Result<u32, DecodeError> {
        if self.epoch > crate::Version::EPOCH_MAX {
            return Err(DecodeError::EpochRange { epoch: self.epoch });
        }
        Ok(self.epoch)
    }
}

/// Fails unless a field that has no meaning is 0.
pub(crate) fn reserved(field: &'static str, value: u64) -> Result<(), DecodeError> {
    if value == 0 { Ok(()) } else { Err(DecodeError::ReservedField { field }) }
}

impl<'a> PeerMessage<'a> {
    /// Reads a message; nothing is copied.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for bytes that are no message. Whatever a message says of lengths, counts, order and epochs was checked
    /// when it is returned; whether it is true is the receiver's to judge.
    pub fn decode(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let head = Head::decode(&mut reader)?;
        Ok(match head.kind {
            Kind::Append => Self::Append(AppendEntries::decode(head, reader)?),
            Kind::Acknowledge => Self::Acknowledge(Acknowledgements::decode(head, reader)?),
            Kind::Missing => Self::Missing(Missing::decode(head, reader)?),
            Kind::Stale => Self::Stale(Stale::decode(head, reader)?),
            Kind::Fence => Self::Fence(Fence::decode(head, reader)?),
            Kind::Fenced => Self::Fenced(Fenced::decode(head, reader)?),
            Kind::Tail => Self::Tail(Tail::decode(head, reader)?),
            Kind::TailEntries => Self::TailEntries(TailEntries::decode(head, reader)?),
            Kind::Lease => Self::Lease(Lease::decode(head, reader)?),
            Kind::Grant => Self::Grant(Grant::decode(head, reader)?),
            Kind::SnapshotBegin => Self::SnapshotBegin(SnapshotBegin::decode(head, reader)?),
            Kind::SnapshotRecords => Self::SnapshotRecords(SnapshotRecords::decode(head, reader)?),
            Kind::SnapshotEnd => Self::SnapshotEnd(SnapshotEnd::decode(head, reader)?),
            Kind::SnapshotAcknowledge => {
                Self::SnapshotAcknowledge(SnapshotAcknowledge::decode(head, reader)?)
            }
            Kind::Notice => Self::Notice(Notice::decode(head, reader)?),
            Kind::Part => Self::Part(Part::decode(head, reader)?),
        })
    }

    /// Bytes of the message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN
            + match self {
                Self::Append(append) => append.body_len(),
                Self::Acknowledge(acknowledgements) => acknowledgements.body_len(),
                Self::Stale(_) => 0,
                Self::Fence(_) | Self::Tail(_) => 8,
                Self::Missing(_)
                | Self::Fenced(_)
                | Self::Lease(_)
                | Self::SnapshotBegin(_)
                | Self::SnapshotAcknowledge(_) => 16,
                Self::TailEntries(entries) => entries.body_len(),
                Self::Grant(_) | Self::SnapshotEnd(_) => 24,
                Self::SnapshotRecords(records) => records.body_len(),
                Self::Notice(notice) => notice.body.len(),
                Self::Part(part) => part.body_len(),
            }
    }

    /// Writes the message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        match self {
            Self::Append(append) => append.encode(&mut writer),
            Self::Acknowledge(acknowledgements) => acknowledgements.encode(&mut writer),
            Self::Missing(missing) => missing.encode(&mut writer),
            Self::Stale(stale) => stale.encode(&mut writer),
            Self::Fence(fence) => fence.encode(&mut writer),
            Self::Fenced(fenced) => fenced.encode(&mut writer),
            Self::Tail(tail) => tail.encode(&mut writer),
            Self::TailEntries(entries) => entries.encode(&mut writer),
            Self::Lease(lease) => lease.encode(&mut writer),
            Self::Grant(grant) => grant.encode(&mut writer),
            Self::SnapshotBegin(begin) => begin.encode(&mut writer),
            Self::SnapshotRecords(records) => records.encode(&mut writer),
            Self::SnapshotEnd(end) => end.encode(&mut writer),
            Self::SnapshotAcknowledge(acknowledge) => acknowledge.encode(&mut writer),
            Self::Notice(notice) => notice.encode(&mut writer),
            Self::Part(part) => part.encode(&mut writer),
        }
        writer.finish();
    }

    /// The partition that the message is about, or `None` if it is about two nodes or several partitions.
    pub fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::Append(append) => Some(append.partition),
            Self::Missing(missing) => Some(missing.partition),
            Self::Stale(stale) => Some(stale.partition),
            Self::Fence(fence) => Some(fence.partition),
            Self::Fenced(fenced) => Some(fenced.partition),
            Self::Tail(tail) => Some(tail.partition),
            Self::TailEntries(entries) => Some(entries.partition),
            Self::SnapshotBegin(begin) => Some(begin.partition),
            Self::SnapshotRecords(records) => Some(records.partition),
            Self::SnapshotEnd(end) => Some(end.partition),
            Self::SnapshotAcknowledge(acknowledge) => Some(acknowledge.partition),
            Self::Acknowledge(_)
            | Self::Lease(_)
            | Self::Grant(_)
            | Self::Notice(_)
            | Self::Part(_) => None,
        }
    }
}

impl Body for PeerMessage<'_> {
    fn len(&self) -> usize {
        self.encoded_len()
    }

    fn write(self, buffer: &mut [u8]) {
        self.encode(buffer);
    }
}

#[cfg(test)]
mod tests;
