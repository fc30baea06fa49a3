//! Get: read the object of one key.
//!
//! ```text
//! request  prefix | key
//! reply    head: ok, value length, version | value
//!          head: absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::operation::Operation;
use crate::part::ItemReply;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::version::Version;

/// Asks for the object of `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// The key.
    pub key: Key<'a>,
}

impl<'a> Get<'a> {
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
            ..Prefix::bare(Operation::Get)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&self.key);
        writer.finish();
    }
}

/// The answer to a [`Get`], and to each key of a multi-get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetReply<'a> {
    /// The key has an object.
    Found {
        /// The object's version.
        version: Version,
        /// The object's value: in a [`Get`]'s reply what follows [`ReplyHead::LEN`].
        value: &'a [u8],
    },
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out: as of it, the key was absent.
        version: Version,
    },
}

impl<'a> GetReply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a get.
    #[inline]
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        Ok(Self::from_head(&head, body)?)
    }

    /// The version of the object, or the one as of which the key was absent.
    #[inline]
    pub const fn version(&self) -> Version {
        match *self {
            Self::Found { version, .. } | Self::Absent { version } => version,
        }
    }

    /// The value, if the key has an object.
    #[inline]
    pub const fn value(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Found { value, .. } => Some(value),
            Self::Absent { .. } => None,
        }
    }

    /// Bytes of the reply's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body().len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long. The value has to fit a message, as every stored one does.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        writer.bytes(&self.head(0).to_bytes());
        writer.bytes(self.body());
        writer.finish();
    }
}

impl<'a> ItemReply<'a> for GetReply<'a> {
    #[inline]
    fn head(&self, index: u16) -> ReplyHead {
        match *self {
            Self::Found { version, value } => {
                ReplyHead { index, ..GetFoundHead::new(version, value.len()).head() }
            }
            Self::Absent { version } => {
                ReplyHead { index, ..ReplyHead::bare(Status::Absent, version) }
            }
        }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        self.value().unwrap_or_default()
    }

    #[inline]
    fn from_head(head: &ReplyHead, body: &'a [u8]) -> Result<Self, DecodeError> {
        let version = Version(head.version);
        match head.status {
            Status::Ok => Ok(Self::Found { version, value: body }),
            Status::Absent => head.takes_no_body().map(|()| Self::Absent { version }),
            Status::Unprocessed | Status::Conflict | Status::Error(_) => Err(head.unexpected()),
        }
    }
}

/// What precedes the value in the reply to a [`Get`], for a server that gathers the value from where
/// it lies: head and value one after the other are the bytes of [`GetReply::Found`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetFoundHead {
    version: Version,
    value_len: u32,
}

impl GetFoundHead {
    /// Bytes of the head.
    pub const LEN: usize = HEAD_LEN;

    /// The head for a value of `value_len` bytes, at most [`REQUEST_VALUE_MAX`](crate::limits::REQUEST_VALUE_MAX).
    #[inline]
    pub const fn new(version: Version, value_len: usize) -> Self {
        Self { version, value_len: value_len as u32 }
    }

    /// Bytes of the head, [`LEN`](Self::LEN).
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        Self::LEN
    }

    /// Writes the head into `buffer`, which is [`LEN`](Self::LEN) bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.head().to_bytes());
    }

    #[inline]
    pub(crate) fn head(self) -> ReplyHead {
        ReplyHead { length: self.value_len, ..ReplyHead::bare(Status::Ok, self.version) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error_code::ErrorCode;
    use crate::reply::ErrorReply;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let get = Get { table: TableId(2), map_epoch: 7, key: key(b"loom") };
        let request = encode(get.encoded_len(), |buffer| get.encode(buffer));
        assert_eq!(request, documented("get request"));

        let found = GetReply::Found { version: Version::new(1, 9), value: b"weft" };
        let reply = encode(found.encoded_len(), |buffer| found.encode(buffer));
        assert_eq!(reply, documented("get found"));

        let absent = GetReply::Absent { version: Version::new(1, 9) };
        let reply = encode(absent.encoded_len(), |buffer| absent.encode(buffer));
        assert_eq!(reply, documented("get absent"));
    }

    #[test]
    fn an_absent_key_has_no_value() {
        let reply = hex("0100 0000 01000000 0900000000100000 77");
        let error = DecodeError::TrailingBytes { extra: 1 };
        assert_eq!(GetReply::decode(&reply), Err(error.into()));
    }

    #[test]
    fn a_reply_without_an_answer_is_none() {
        let unprocessed = hex("0200 0000 00000000 0000000000000000");
        let error = DecodeError::UnexpectedStatus { status: 2 };
        assert_eq!(GetReply::decode(&unprocessed), Err(error.into()));

        let refused = ErrorReply::wrong_owner(12).with_detail("ask node 3");
        let reply = encode(refused.encoded_len(), |buffer| refused.encode(buffer));
        let error = GetReply::decode(&reply).expect_err("the server refused");
        assert_eq!(error.code(), ErrorCode::WrongOwner);
        assert_eq!(error, ReplyError::Refused(refused));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            bytes in bytes(100),
        ) {
            check_request(Request::Get(Get { table, map_epoch, key: key(&bytes) }));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), value in bytes(100)) {
            for reply in [GetReply::Found { version, value: &value }, GetReply::Absent { version }] {
                let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(GetReply::decode(&message), Ok(reply));
                for cut in cuts(message.len()) {
                    prop_assert!(GetReply::decode(&message[..cut]).is_err());
                }
                let error = DecodeError::TrailingBytes { extra: 1 };
                let longer = [&message[..], &[0]].concat();
                prop_assert_eq!(GetReply::decode(&longer), Err(error.into()));
            }
        }

        /// Whether a server copies or gathers the value, the client gets the same bytes.
        #[test]
        fn a_gathered_value_gives_the_same_bytes(version in versions(), value in bytes(100)) {
            let copied = GetReply::Found { version, value: &value };
            let copied = encode(copied.encoded_len(), |buffer| copied.encode(buffer));
            let head = GetFoundHead::new(version, value.len());
            let head = encode(head.encoded_len(), |buffer| head.encode(buffer));
            prop_assert_eq!(head.len(), GetFoundHead::LEN);
            prop_assert_eq!([head, value].concat(), copied);
        }
    }
}
