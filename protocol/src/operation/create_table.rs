//! Create-table: have the cluster make one more table.
//!
//! ```text
//! request  prefix | completion id? | the table, of number 0
//! reply    head: ok, length, version of the catalog | number u16 | six zeroes
//! ```

use crate::catalog::{decode_table, encode_table, table_len};
use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::{TableId, TableOptions};

/// Bytes of the reply's body.
const BODY_LEN: usize = 8;

/// Makes a table. Any node has the coordinators do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateTable<'a> {
    /// Which request it is: asked again, it makes no other table.
    pub completion: Option<Completion>,
    /// Its name.
    pub name: &'a str,
    /// What it is like.
    pub options: TableOptions,
}

impl<'a> CreateTable<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let completion = prefix.completion(1, &mut reader)?;
        let (id, name, options) = decode_table(&mut reader)?;
        reader.finish()?;
        match id {
            TableId::DEFAULT => Ok(Self { completion, name, options }),
            _ => Err(DecodeError::ReservedField { field: "table number" }),
        }
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        let (_, completion_len) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion_len + table_len(self.name)
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let (flags, _) = Completion::flag_and_len(self.completion);
        Prefix { flags, ..Prefix::bare(Operation::CreateTable) }.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        encode_table(TableId::DEFAULT, self.name, &self.options, &mut writer);
        writer.finish();
    }
}

/// The answer to [`CreateTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateTableReply {
    /// The number that the table was given.
    pub table: TableId,
    /// The version of a catalog that has it, or had it before it was dropped again.
    pub catalog_version: u64,
}

impl CreateTableReply {
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
        let table = TableId(reader.u16()?);
        if (reader.u16()?, reader.u32()?) != (0, 0) {
            return Err(DecodeError::ReservedField { field: "table reserved" }.into());
        }
        reader.finish()?;
        Ok(Self { table, catalog_version: head.version })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + BODY_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let (length, version) = (BODY_LEN as u32, self.catalog_version);
        writer.bytes(&ReplyHead { status: Status::Ok, index: 0, length, version }.to_bytes());
        writer.u16(self.table.0);
        writer.u16(0);
        writer.u32(0);
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::table::Eviction;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let options = TableOptions {
            ordered: true,
            quota_bytes: Some(1 << 30),
            eviction: Eviction::LeastRecentlyUsed,
            ..TableOptions::default()
        };
        let request = CreateTable { completion: None, name: "times", options };
        check_request(Request::CreateTable(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("create-table request"));
        let reply = CreateTableReply { table: TableId(2), catalog_version: 3 };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("create-table reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(completion in completions(), replicas in 1_u8..=3) {
            let options = TableOptions { replicas, ..TableOptions::default() };
            check_request(Request::CreateTable(CreateTable { completion, name: "yarn", options }));
        }

        #[test]
        fn replies_are_read_as_written(number: u16, catalog_version: u64) {
            let reply = CreateTableReply { table: TableId(number), catalog_version };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(CreateTableReply::decode(&message), Ok(reply));
            check_cut(&message, CreateTableReply::decode);
        }

        #[test]
        fn hostile_requests_are_survived(message in hostile(documented("create-table request"))) {
            if let Ok(Request::CreateTable(create)) = Request::decode(&message) {
                prop_assert!(!create.name.is_empty());
            }
        }
    }
}
