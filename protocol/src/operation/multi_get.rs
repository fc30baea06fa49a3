//! Multi-get: read the objects of many keys.
//!
//! ```text
//! request  prefix: count | (key length u16 | key) ...
//! reply    parts of items: ok with value, absent, unprocessed, or an error each
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::list::{Keys, List};
use crate::operation::Operation;
use crate::operation::get::GetReply;
use crate::part::Part;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::table::TableId;

/// Asks for the objects of `keys`. The replies are the [`MultiGetPart`]s of a streamed call, in the
/// order in which the server comes by them; every key is answered by one item. Keys whose values the
/// replies had no room for come back unprocessed, and the client asks for them again, as in
/// DynamoDB's BatchGetItem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiGet<'a> {
    /// The table that the keys belong to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// The keys, in any slots that the node owns.
    pub keys: Keys<'a>,
}

impl<'a> MultiGet<'a> {
    pub(crate) fn decode(prefix: &Prefix, reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        let keys = List::decode(prefix.argument, reader)?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, keys })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.keys.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let prefix = Prefix {
            table: self.table,
            map_epoch: self.map_epoch,
            argument: self.keys.wire_count(),
            ..Prefix::bare(Operation::MultiGet)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        self.keys.encode(&mut writer);
        writer.finish();
    }
}

/// One of the replies to a [`MultiGet`].
pub type MultiGetPart<'a> = Part<'a, GetReply<'a>>;
