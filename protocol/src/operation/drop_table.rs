//! Drop-table: have the cluster remove a table, with all its objects.
//!
//! ```text
//! request  prefix: length of the name | completion id? | name
//! reply    head: ok, version of the catalog
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Removes a table. Any node has the coordinators do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropTable<'a> {
    /// Which request it is: asked again, it drops no other table of the name.
    pub completion: Option<Completion>,
    /// Its name.
    pub name: &'a str,
}

impl<'a> DropTable<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        prefix.takes_no_key()?;
        let completion = prefix.completion(1, &mut reader)?;
        let name = reader.take(prefix.argument as usize)?;
        let name = crate::catalog::decode_name(&mut Reader::new(name))?;
        reader.finish()?;
        Ok(Self { completion, name })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        let (_, completion_len) = Completion::flag_and_len(self.completion);
        PREFIX_LEN + completion_len + self.name.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let (flags, _) = Completion::flag_and_len(self.completion);
        let argument = self.name.len() as u32;
        Prefix { flags, argument, ..Prefix::bare(Operation::DropTable) }.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        writer.bytes(self.name.as_bytes());
        writer.finish();
    }
}

/// The answer to [`DropTable`], and to [`AlterTable`](crate::AlterTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableChangedReply {
    /// The version of a catalog in which it is so.
    pub catalog_version: u64,
}

impl TableChangedReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        head.takes_no_body()?;
        match head.status {
            Status::Ok => Ok(Self { catalog_version: head.version }),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let head = ReplyHead::bare(Status::Ok, Version(self.catalog_version));
        buffer.copy_from_slice(&head.to_bytes());
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
        let request = DropTable { completion: None, name: "people" };
        check_request(Request::DropTable(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("drop-table request"));
        let reply = TableChangedReply { catalog_version: 4 };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("drop-table reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(completion in completions()) {
            check_request(Request::DropTable(DropTable { completion, name: "yarn" }));
        }

        #[test]
        fn replies_are_read_as_written(catalog_version: u64) {
            let reply = TableChangedReply { catalog_version };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(TableChangedReply::decode(&message), Ok(reply));
            check_head_alone(&message, TableChangedReply::decode);
        }

        #[test]
        fn hostile_requests_are_survived(message in hostile(documented("drop-table request"))) {
            if let Ok(Request::DropTable(dropped)) = Request::decode(&message) {
                prop_assert!(!dropped.name.is_empty());
            }
        }
    }
}
