//! Multi-delete: remove the objects of many keys.
//!
//! ```text
//! request  prefix: count | completion id? | (key length u16 | key) ...
//! reply    parts of items: ok, absent, unprocessed, or an error each
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::DecodeError;
use crate::list::{Keys, List};
use crate::operation::Operation;
use crate::operation::delete::DeleteReply;
use crate::part::Part;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::table::TableId;

/// Removes the objects of `keys`. Each is a delete of its own: some may succeed and others fail. The
/// replies are [`MultiDeletePart`]s; every key is answered by one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiDelete<'a> {
    /// The table that the keys belong to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// Which mutation item 0 is; item `i` is `sequence + i`.
    pub completion: Option<Completion>,
    /// The keys, in any slots that the node owns.
    pub keys: Keys<'a>,
}

impl<'a> MultiDelete<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        let completion = prefix.completion(prefix.argument, &mut reader)?;
        let keys = List::decode(prefix.argument, reader)?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, completion, keys })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        let (_, completion) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion + self.keys.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (flags, _) = Completion::flag_and_len(self.completion);
        let prefix = Prefix {
            flags,
            table: self.table,
            map_epoch: self.map_epoch,
            argument: self.keys.wire_count(),
            ..Prefix::bare(Operation::MultiDelete)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        self.keys.encode(&mut writer);
        writer.finish();
    }
}

/// One of the replies to a [`MultiDelete`].
pub type MultiDeletePart<'a> = Part<'a, DeleteReply>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let keys = [key(b"warp"), key(b"weft")];
        let (keys, _) = Keys::fitting(&keys);
        let completion = Some(completion(3, 4, 2));
        let multi_delete = MultiDelete { table: TableId(2), map_epoch: 7, completion, keys };
        let request = encode(multi_delete.encoded_len(), |buffer| multi_delete.encode(buffer));
        assert_eq!(request, documented("multi-delete request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            completion in completions(),
            owned in prop::collection::vec(bytes(20), 0..20),
        ) {
            let keys: Vec<_> = owned.iter().map(|bytes| key(bytes)).collect();
            let (keys, rest) = Keys::fitting(&keys);
            prop_assert!(rest.is_empty());
            check_request(Request::MultiDelete(MultiDelete { table, map_epoch, completion, keys }));
        }
    }
}
