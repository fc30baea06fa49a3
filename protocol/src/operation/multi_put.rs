//! Multi-put: write the objects of many keys.
//!
//! ```text
//! request  prefix: count | completion id? | pairs:
//!          (key length u16 | flags u16 | value length u32 | expiry? | key | value) ...
//! reply    parts of items: ok, unprocessed, or an error each
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::DecodeError;
use crate::list::{List, Pairs};
use crate::operation::Operation;
use crate::operation::put::PutReply;
use crate::part::Part;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::table::TableId;

/// Writes `pairs`. Each is a put of its own: some may succeed and others fail, and nothing but the
/// order of pairs with the same key is promised. The replies are [`MultiPutPart`]s; every pair is
/// answered by one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiPut<'a> {
    /// The table that the keys belong to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// Which mutation item 0 is; item `i` is `sequence + i`.
    pub completion: Option<Completion>,
    /// What to write, in any slots that the node owns.
    pub pairs: Pairs<'a>,
}

impl<'a> MultiPut<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        let completion = prefix.completion(prefix.argument, &mut reader)?;
        let pairs = List::decode(prefix.argument, reader)?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, completion, pairs })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        let (_, completion) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion + self.pairs.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (flags, _) = Completion::flag_and_len(self.completion);
        let prefix = Prefix {
            flags,
            table: self.table,
            map_epoch: self.map_epoch,
            argument: self.pairs.wire_count(),
            ..Prefix::bare(Operation::MultiPut)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        self.pairs.encode(&mut writer);
        writer.finish();
    }
}

/// One of the replies to a [`MultiPut`].
pub type MultiPutPart<'a> = Part<'a, PutReply>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::list::Pair;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let pairs = [
            Pair { key: key(b"warp"), value: value(b"up"), expires_at_ms: None },
            Pair { key: key(b"weft"), value: value(b""), expires_at_ms: Some(5) },
        ];
        let (pairs, rest) = Pairs::fitting(&pairs);
        assert!(rest.is_empty());
        let completion = Some(completion(3, 4, 2));
        let multi_put = MultiPut { table: TableId(2), map_epoch: 7, completion, pairs };
        let request = encode(multi_put.encoded_len(), |buffer| multi_put.encode(buffer));
        assert_eq!(request, documented("multi-put request"));
    }

    #[test]
    fn a_flag_of_a_pair_that_nobody_knows_is_refused() {
        let request = hex("06 00 0200 07000000 01 00 0000 01000000 0000 0280 00000000");
        let error = DecodeError::UnsupportedPairFlags { flags: 0x8002 };
        assert_eq!(Request::decode(&request), Err(error));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            completion in completions(),
            owned in owned_pairs(),
        ) {
            let pairs: Vec<_> = owned.iter().map(pair).collect();
            let (pairs, rest) = Pairs::fitting(&pairs);
            prop_assert!(rest.is_empty());
            check_request(Request::MultiPut(MultiPut { table, map_epoch, completion, pairs }));
        }
    }
}
