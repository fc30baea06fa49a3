//! What nodes and coordinators tell each other.

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;

/// Something that a coordinator or a node is to know: in protobuf, which the server reads.
///
/// ```text
/// head, without partition and epoch | the notice
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice<'a> {
    /// What.
    pub body: &'a [u8],
}

impl<'a> Notice<'a> {
    pub(super) fn decode(head: Head, reader: Reader<'a>) -> Result<Self, DecodeError> {
        super::reserved("partition", u64::from(head.partition))?;
        super::reserved("epoch", u64::from(head.epoch))?;
        Ok(Self { body: reader.rest() })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Notice, PartitionId(0), 0).encode(writer);
        writer.bytes(self.body);
    }
}
