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
    pub(crate) fn decode(prefix: Prefix, reader: Reader<'a>) -> Result<Self, DecodeError> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::LimitError;
    use crate::limits::MULTI_KEYS_MAX;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let keys = [key(b"warp"), key(b""), key(b"weft!")];
        let (keys, rest) = Keys::fitting(&keys);
        assert!(rest.is_empty());
        let multi_get = MultiGet { table: TableId(2), map_epoch: 7, keys };
        let request = encode(multi_get.encoded_len(), |buffer| multi_get.encode(buffer));
        assert_eq!(request, documented("multi-get request"));
    }

    #[test]
    fn a_count_that_the_bytes_do_not_hold_is_refused() {
        let request = |count: u32| {
            [hex("05 00 0200 07000000 01 00 0000"), count.to_le_bytes().to_vec(), hex("0000 0000")]
                .concat()
        };
        assert!(Request::decode(&request(2)).is_ok());
        let error = DecodeError::TrailingBytes { extra: 2 };
        assert_eq!(Request::decode(&request(1)), Err(error));
        let error = DecodeError::Truncated { missing: 2 };
        assert_eq!(Request::decode(&request(3)), Err(error));
        let error = DecodeError::Truncated { missing: 2 };
        assert_eq!(Request::decode(&request(MULTI_KEYS_MAX as u32)), Err(error));
        let count = u32::MAX as usize;
        let error = DecodeError::Limit(LimitError::TooManyKeys { count });
        assert_eq!(Request::decode(&request(u32::MAX)), Err(error));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            owned in prop::collection::vec(bytes(20), 0..20),
        ) {
            let keys: Vec<_> = owned.iter().map(|bytes| key(bytes)).collect();
            let (list, rest) = Keys::fitting(&keys);
            prop_assert!(rest.is_empty());
            check_request(Request::MultiGet(MultiGet { table, map_epoch, keys: list }));
        }
    }
}
