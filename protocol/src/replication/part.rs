//! A message that is too long to be sent in one piece.

use weft_transport::limits::{LARGE_MAX, MESSAGE_MAX};

use super::{Head, Kind};
use crate::codec::{Reader, Writer};
use crate::configuration::PartitionId;
use crate::error::DecodeError;

/// A part of a message about a partition. An entry may be as long as the largest value, which a node has memory for in its store, where it is to lie, but not
/// among what it receives. Parts come in order, one message at a time; what does not go on where the one before ended is the rest of a message of which
/// something was lost, and of no use.
///
/// ```text
/// head, without partition and epoch | total 8 | offset 8 | bytes of the message
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Bytes of the whole message.
    pub total: usize,
    /// Where in it these bytes are.
    pub offset: usize,
    /// At least one, and at most [`BYTES_MAX`](Self::BYTES_MAX).
    pub bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// Bytes of a message in one part.
    pub const BYTES_MAX: usize = 256 << 10;

    pub(super) fn decode(head: Head, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        super::reserved("partition", u64::from(head.partition))?;
        super::reserved("epoch", u64::from(head.epoch))?;
        let (total, offset) = (reader.u64()?, reader.u64()?);
        let bytes = reader.rest();
        let end = offset.checked_add(bytes.len() as u64);
        let is_inside = end.is_some_and(|end| end <= total) && total <= LARGE_MAX as u64;
        if !is_inside || bytes.is_empty() || bytes.len() > Self::BYTES_MAX {
            return Err(DecodeError::PartRange { total, offset, len: bytes.len() });
        }
        Ok(Self { total: total as usize, offset: offset as usize, bytes })
    }

    pub(super) fn body_len(&self) -> usize {
        16 + self.bytes.len()
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        Head::of(Kind::Part, PartitionId(0), 0).encode(writer);
        writer.u64(self.total as u64);
        writer.u64(self.offset as u64);
        writer.bytes(self.bytes);
    }
}

const _: () = assert!(Part::BYTES_MAX + 16 + super::HEAD_LEN <= MESSAGE_MAX);
