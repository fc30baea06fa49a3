//! Put-tables: tell a node which tables there are from now on.
//!
//! ```text
//! request  prefix | version that it replaces u64 | the catalog
//! reply    head: ok, the new version; or conflict, the version that is there
//! ```

use crate::catalog::Catalog;
use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Gives a node another catalog, if the one that it has is of the expected version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutTables<'a> {
    /// The version of the catalog that the node is to have.
    pub expected: u64,
    /// The new one.
    pub catalog: CatalogBytes<'a>,
}

/// A catalog as it is in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogBytes<'a>(&'a [u8]);

impl<'a> CatalogBytes<'a> {
    /// The bytes of `catalog`, which are put into `buffer`.
    pub fn of(catalog: &Catalog, buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(catalog.encoded_len(), 0);
        let mut writer = Writer::new(buffer);
        catalog.encode(&mut writer);
        writer.finish();
        Self(buffer)
    }

    /// The catalog.
    pub fn catalog(&self) -> Catalog {
        Catalog::decode(Reader::new(self.0)).expect("it was read when the request was")
    }
}

impl<'a> PutTables<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let expected = reader.u64()?;
        Catalog::decode(reader)?;
        Ok(Self { expected, catalog: CatalogBytes(reader.rest()) })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8 + self.catalog.0.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::PutTables).encode(&mut writer);
        writer.u64(self.expected);
        writer.bytes(self.catalog.0);
        writer.finish();
    }
}

/// The answer to [`PutTables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutTablesReply {
    /// The node has the new catalog.
    Done {
        /// Its version.
        version: u64,
    },
    /// The node has, and keeps, another catalog than was expected.
    Conflict {
        /// The version of that one.
        version: u64,
    },
}

impl PutTablesReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        head.takes_no_body()?;
        let version = head.version;
        match head.status {
            Status::Ok => Ok(Self::Done { version }),
            Status::Conflict => Ok(Self::Conflict { version }),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (status, version) = match *self {
            Self::Done { version } => (Status::Ok, version),
            Self::Conflict { version } => (Status::Conflict, version),
        };
        buffer.copy_from_slice(&ReplyHead::bare(status, Version(version)).to_bytes());
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
        let mut buffer = Vec::new();
        let catalog = CatalogBytes::of(&two_tables(), &mut buffer);
        let request = PutTables { expected: 1, catalog };
        check_request(Request::PutTables(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("put-tables request"));
        assert_eq!(catalog.catalog(), two_tables());

        let conflict = PutTablesReply::Conflict { version: 3 };
        let message = encode(conflict.encoded_len(), |buffer| conflict.encode(buffer));
        assert_eq!(message, documented("put-tables conflict"));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(version: u64, is_done: bool) {
            let reply = if is_done {
                PutTablesReply::Done { version }
            } else {
                PutTablesReply::Conflict { version }
            };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(PutTablesReply::decode(&message), Ok(reply));
            check_head_alone(&message, PutTablesReply::decode);
        }

        #[test]
        fn hostile_requests_are_survived(message in hostile(documented("put-tables request"))) {
            if let Ok(Request::PutTables(put)) = Request::decode(&message) {
                prop_assert!(put.catalog.catalog().tables().len() <= message.len());
            }
        }
    }
}
