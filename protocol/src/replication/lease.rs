//! Leases between two nodes: the right to read, for a while, without asking.

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;

/// A node asks another for a lease, for all partitions that both hold.
///
/// ```text
/// head, without partition and epoch | sent at 8 | map version 8
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// When the holder sent this, in nanoseconds of its own clock, which means nothing to anybody else.
    pub sent_at: u64,
    /// The version of the holder's map.
    pub map_version: u64,
}

impl Lease {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        is_about_nodes(head)?;
        let (sent_at, map_version) = (reader.u64()?, reader.u64()?);
        reader.finish()?;
        Ok(Self { sent_at, map_version })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Lease, PartitionId(0), 0).encode(writer);
        writer.u64(self.sent_at);
        writer.u64(self.map_version);
    }
}

/// The lease. It counts for the holder from `sent_at` on, and only while its map is as new as `map_version`.
///
/// ```text
/// head, without partition and epoch | sent at 8 | map version 8 | duration 4, in milliseconds | zero 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// As the [`Lease`] had it.
    pub sent_at: u64,
    /// The newest version of the map that the grantor knows of.
    pub map_version: u64,
    /// For how long.
    pub duration_ms: u32,
}

impl Grant {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        is_about_nodes(head)?;
        let (sent_at, map_version) = (reader.u64()?, reader.u64()?);
        let duration_ms = reader.u32()?;
        super::reserved("grant", u64::from(reader.u32()?))?;
        reader.finish()?;
        Ok(Self { sent_at, map_version, duration_ms })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Grant, PartitionId(0), 0).encode(writer);
        writer.u64(self.sent_at);
        writer.u64(self.map_version);
        writer.u32(self.duration_ms);
        writer.u32(0);
    }
}

fn is_about_nodes(head: Head) -> Result<(), DecodeError> {
    super::reserved("partition", u64::from(head.partition))?;
    super::reserved("epoch", u64::from(head.epoch))
}
