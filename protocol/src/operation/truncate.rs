//! Truncate: remove all objects that a node has of a table.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length, 0 | removed u64
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;

/// Removes all objects that a node has of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncate {
    /// The table.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
}

impl Truncate {
    pub(crate) fn decode(prefix: Prefix, reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        reader.finish()?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let &Self { table, map_epoch } = self;
        Prefix { table, map_epoch, ..Prefix::bare(Operation::Truncate) }.encode(&mut writer);
        writer.finish();
    }
}

/// The answer to [`Truncate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncateReply {
    /// How many objects there were, expired ones that nobody met included.
    pub removed: u64,
}

impl TruncateReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let mut reader = Reader::new(body);
        let removed = reader.u64()?;
        reader.finish()?;
        Ok(Self { removed })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + 8
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead { status: Status::Ok, index: 0, length: 8, version: 0 };
        writer.bytes(&head.to_bytes());
        writer.u64(self.removed);
        writer.finish();
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
        let request = Truncate { table: TableId(2), map_epoch: 7 };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("truncate request"));
        let reply = TruncateReply { removed: 9 };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("truncate reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written((table, map_epoch) in tables()) {
            check_request(Request::Truncate(Truncate { table, map_epoch }));
        }

        #[test]
        fn replies_are_read_as_written(removed: u64) {
            let reply = TruncateReply { removed };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(TruncateReply::decode(&message), Ok(reply));
            check_cut(&message, TruncateReply::decode);
        }
    }
}
