//! A change of primary: nothing of an earlier epoch is taken any more.

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;
use crate::version::Version;

/// A new primary asks each other member to take nothing of a lower epoch any more.
///
/// ```text
/// head | map version 8
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The partition.
    pub partition: PartitionId,
    /// The new primary's epoch.
    pub epoch: u32,
    /// A version of the map that has the new primary. Leases that the receiver grants from now on carry at least that, so that the
    /// former primary cannot use them without learning that it is none.
    pub map_version: u64,
}

impl Fence {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, map_version) = (head.epoch()?, reader.u64()?);
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, map_version })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Fence, self.partition, self.epoch).encode(writer);
        writer.u64(self.map_version);
    }
}

/// A member will take nothing of a lower epoch any more.
///
/// ```text
/// head | last 8 | lease 4, in milliseconds | served 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch of the fence.
    pub epoch: u32,
    /// The last entry that the member has.
    pub last: Version,
    /// For how long, by the member's clock, a lease that it granted to a former primary may still run.
    pub lease_ms: u32,
    /// The last epoch in which the member served the partition as its primary until another one was named or fenced it, in this life; or 0. It
    /// has read nothing by that since, whatever leases it holds, and nobody before it could read any more once it served.
    pub served: u32,
}

impl Fenced {
    pub(super) fn decode(head: Head, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let (epoch, last, lease_ms) = (head.epoch()?, Version(reader.u64()?), reader.u32()?);
        let served = reader.u32()?;
        reader.finish()?;
        Ok(Self { partition: head.partition(), epoch, last, lease_ms, served })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Fenced, self.partition, self.epoch).encode(writer);
        writer.u64(self.last.0);
        writer.u32(self.lease_ms);
        writer.u32(self.served);
    }
}
