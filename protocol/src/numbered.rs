//! Replies that carry a number: it follows the head, and a value may follow it.
//!
//! ```text
//! head: ok, length, version | number u64 | value
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// What such a reply begins with: the caller gathers the value behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedHead {
    version: Version,
    number: u64,
    value_len: u32,
}

impl NumberedHead {
    /// Bytes of the head and the number.
    pub const LEN: usize = HEAD_LEN + 8;

    /// What precedes a value of `value_len` bytes, which is at most
    /// [`REQUEST_VALUE_MAX`](crate::limits::REQUEST_VALUE_MAX).
    #[inline]
    pub(crate) const fn new(version: Version, number: u64, value_len: usize) -> Self {
        Self { version, number, value_len: value_len as u32 }
    }

    /// Bytes of the head and the number.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        Self::LEN
    }

    /// Writes head and number into `buffer`, which is [`LEN`](Self::LEN) bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.write(&mut writer);
        writer.finish();
    }

    #[inline]
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        let head =
            ReplyHead { length: 8 + self.value_len, ..ReplyHead::bare(Status::Ok, self.version) };
        writer.bytes(&head.to_bytes());
        writer.u64(self.number);
    }

    /// The number of a reply that is ok, and the value behind it.
    #[inline]
    pub(crate) fn split<'a>(
        head: &ReplyHead,
        body: &'a [u8],
    ) -> Result<(Version, u64, &'a [u8]), DecodeError> {
        match head.status {
            Status::Ok => {
                let mut reader = Reader::new(body);
                Ok((Version(head.version), reader.u64()?, reader.rest()))
            }
            Status::Absent | Status::Unprocessed | Status::Conflict | Status::Error(_) => {
                Err(head.unexpected())
            }
        }
    }

    /// The same of a reply that no value follows.
    #[inline]
    pub(crate) fn alone(head: &ReplyHead, body: &[u8]) -> Result<(Version, u64), DecodeError> {
        let (version, number, rest) = Self::split(head, body)?;
        Reader::new(rest).finish()?;
        Ok((version, number))
    }
}
