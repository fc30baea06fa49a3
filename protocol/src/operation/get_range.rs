//! Get-range: read some bytes of the value of one key.
//!
//! ```text
//! request  prefix: most bytes to return | key | offset u64
//! reply    head: ok, length, version | length of the whole value u64 | bytes
//!          head: absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::numbered::NumberedHead;
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::version::Version;

/// Asks for the bytes of a value from `offset` on: `len_max` of them, or fewer where the value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetRange<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// The key.
    pub key: Key<'a>,
    /// Bytes of the value that are left out before those that are wanted. One beyond the end of the
    /// value is answered with no bytes.
    pub offset: u64,
    /// The most bytes to return.
    pub len_max: u32,
}

impl<'a> GetRange<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        let Prefix { table, map_epoch, argument: len_max, .. } = prefix;
        let key = reader.key(prefix.key_len)?;
        let offset = reader.u64()?;
        reader.finish()?;
        Ok(Self { table, map_epoch, key, offset, len_max })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.key.len() + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let prefix = Prefix {
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            argument: self.len_max,
            ..Prefix::bare(Operation::GetRange)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&self.key);
        writer.u64(self.offset);
        writer.finish();
    }

    /// The part of a value of `value_len` bytes that is asked for.
    pub fn range_of(&self, value_len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(self.offset).map_or(value_len, |start| start.min(value_len));
        start..start.saturating_add(self.len_max as usize).min(value_len)
    }
}

/// The answer to a [`GetRange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetRangeReply<'a> {
    /// The key has an object.
    Found {
        /// The object's version.
        version: Version,
        /// Bytes of its whole value.
        value_len: u64,
        /// Those that were asked for: in the reply, what follows [`NumberedHead::LEN`].
        bytes: &'a [u8],
    },
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out: as of it, the key was absent.
        version: Version,
    },
}

impl<'a> GetRangeReply<'a> {
    /// What precedes `len` bytes of a value of `value_len`, if they are gathered behind it.
    #[inline]
    pub const fn head(version: Version, value_len: usize, len: usize) -> NumberedHead {
        NumberedHead::new(version, value_len as u64, len)
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a get-range.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status == Status::Absent {
            let (version, _) = head.presence()?;
            return Ok(Self::Absent { version });
        }
        let (version, value_len, bytes) = NumberedHead::split(&head, body)?;
        Ok(Self::Found { version, value_len, bytes })
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Found { bytes, .. } => NumberedHead::LEN + bytes.len(),
            Self::Absent { .. } => HEAD_LEN,
        }
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        match *self {
            Self::Found { version, value_len, bytes } => {
                NumberedHead::new(version, value_len, bytes.len()).write(&mut writer);
                writer.bytes(bytes);
            }
            Self::Absent { version } => {
                writer.bytes(&ReplyHead::of_presence(version, false).to_bytes());
            }
        }
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::target::Target;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let Target { table, map_epoch, key, .. } = documented_target();
        let request = GetRange { table, map_epoch, key, offset: 2, len_max: 3 };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("get-range request"));

        let version = Version::new(1, 9);
        let reply = GetRangeReply::Found { version, value_len: 5, bytes: b"ft!" };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("get-range reply"));
    }

    #[test]
    fn a_range_ends_where_the_value_does() {
        let range = |offset, len_max| {
            let Target { table, map_epoch, key, .. } = documented_target();
            GetRange { table, map_epoch, key, offset, len_max }.range_of(10)
        };
        assert_eq!(range(0, 10), 0..10);
        assert_eq!(range(3, 4), 3..7);
        assert_eq!(range(3, 0), 3..3);
        assert_eq!(range(9, u32::MAX), 9..10);
        assert_eq!(range(10, 1), 10..10);
        assert_eq!(range(u64::MAX, u32::MAX), 10..10);
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            bytes in bytes(100),
            (offset, len_max) in any::<(u64, u32)>(),
        ) {
            let request = GetRange { table, map_epoch, key: key(&bytes), offset, len_max };
            check_request(Request::GetRange(request));
        }

        #[test]
        fn replies_are_read_as_written(
            (version, value_len) in (versions(), any::<u64>()),
            bytes in bytes(60),
        ) {
            let found = GetRangeReply::Found { version, value_len, bytes: &bytes };
            for reply in [found, GetRangeReply::Absent { version }] {
                let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(GetRangeReply::decode(&message), Ok(reply));
                check_cut(&message, GetRangeReply::decode);
            }
        }
    }
}
