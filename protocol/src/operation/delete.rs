//! Delete: remove the object of one key, if there is one.
//!
//! ```text
//! request  prefix | completion id? | key
//! reply    head: ok or absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::CompletionId;
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::operation::Operation;
use crate::part::ItemReply;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::version::Version;

/// Removes the object of `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// Which mutation this is, for exactly-once effect.
    pub completion: Option<CompletionId>,
    /// The key.
    pub key: Key<'a>,
}

impl<'a> Delete<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_argument()?;
        let completion = prefix.completion(&mut reader)?;
        let key = reader.key(prefix.key_len)?;
        reader.finish()?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, completion, key })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let (_, completion) = CompletionId::flag_and_len(self.completion);
        PREFIX_LEN + completion + self.key.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let (flags, _) = CompletionId::flag_and_len(self.completion);
        let prefix = Prefix {
            flags,
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            ..Prefix::bare(Operation::Delete)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        writer.bytes(&self.key);
        writer.finish();
    }
}

/// The answer to a [`Delete`], and to each key of a multi-delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteReply {
    /// The version of the removal; if there was nothing to remove, the newest version that the
    /// key's partition has given out.
    pub version: Version,
    /// Whether there was an object.
    pub existed: bool,
}

impl DeleteReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a delete.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        Ok(Self::from_head(&head, body)?)
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
        buffer.copy_from_slice(&self.head(0).to_bytes());
    }
}

impl<'a> ItemReply<'a> for DeleteReply {
    #[inline]
    fn head(&self, index: u16) -> ReplyHead {
        let status = if self.existed { Status::Ok } else { Status::Absent };
        ReplyHead { index, ..ReplyHead::bare(status, self.version) }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn from_head(head: &ReplyHead, _body: &'a [u8]) -> Result<Self, DecodeError> {
        head.takes_no_body()?;
        let version = Version(head.version);
        match head.status {
            Status::Ok => Ok(Self { version, existed: true }),
            Status::Absent => Ok(Self { version, existed: false }),
            Status::Unprocessed | Status::Error(_) => Err(head.unexpected()),
        }
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
        let completion = Some(CompletionId { client: 3, sequence: 4 });
        let delete = Delete { table: TableId(2), map_epoch: 7, completion, key: key(b"loom") };
        let request = encode(delete.encoded_len(), |buffer| delete.encode(buffer));
        assert_eq!(request, documented("delete request"));

        let absent = DeleteReply { version: Version::new(1, 9), existed: false };
        let reply = encode(absent.encoded_len(), |buffer| absent.encode(buffer));
        assert_eq!(reply, documented("get absent"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            completion in completions(),
            bytes in bytes(100),
        ) {
            let key = key(&bytes);
            check_request(Request::Delete(Delete { table, map_epoch, completion, key }));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), existed: bool) {
            let reply = DeleteReply { version, existed };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(DeleteReply::decode(&message), Ok(reply));
            check_head_alone(&message, DeleteReply::decode);
        }
    }
}
