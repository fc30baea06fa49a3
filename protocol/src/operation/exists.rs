//! Exists: ask whether a key has an object, and of which version, without its value.
//!
//! ```text
//! request  prefix | key
//! reply    head: ok or absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead};
use crate::table::TableId;
use crate::version::Version;

/// Asks whether `key` has an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exists<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// The key.
    pub key: Key<'a>,
}

impl<'a> Exists<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_argument()?;
        let key = reader.key(prefix.key_len)?;
        reader.finish()?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, key })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.key.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let prefix = Prefix {
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            ..Prefix::bare(Operation::Exists)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&self.key);
        writer.finish();
    }
}

/// The answer to an [`Exists`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExistsReply {
    /// The version of the object; if there is none, the newest version that the key's partition has
    /// given out.
    pub version: Version,
    /// Whether there is an object.
    pub exists: bool,
}

impl ExistsReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to an exists.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        let (version, exists) = head.presence()?;
        Ok(Self { version, exists })
    }

    /// Bytes of the reply's message.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&ReplyHead::of_presence(self.version, self.exists).to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let exists = Exists { table: TableId(2), map_epoch: 7, key: key(b"loom") };
        let request = encode(exists.encoded_len(), |buffer| exists.encode(buffer));
        assert_eq!(request, documented("exists request"));

        let there = ExistsReply { version: Version::new(1, 9), exists: true };
        let reply = encode(there.encoded_len(), |buffer| there.encode(buffer));
        assert_eq!(reply, documented("put reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written((table, map_epoch) in tables(), bytes in bytes(100)) {
            check_request(Request::Exists(Exists { table, map_epoch, key: key(&bytes) }));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), exists: bool) {
            let reply = ExistsReply { version, exists };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(ExistsReply::decode(&message), Ok(reply));
            check_head_alone(&message, ExistsReply::decode);
        }
    }
}
