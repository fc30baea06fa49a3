//! Put: write the object of one key, whether or not there was one.
//!
//! ```text
//! request  prefix: value length | completion id? | expiry? | key | value
//! reply    head: ok, version
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::CompletionId;
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::limits::EXPIRY_LEN;
use crate::operation::Operation;
use crate::part::ItemReply;
use crate::prefix::{FLAG_COMPLETION, FLAG_EXPIRY, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::value::Value;
use crate::version::Version;

/// Makes `value` the object of `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// Which mutation this is, for exactly-once effect.
    pub completion: Option<CompletionId>,
    /// When the object ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The key.
    pub key: Key<'a>,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Put<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION | FLAG_EXPIRY)?;
        let completion = prefix.completion(&mut reader)?;
        let expires_at_ms =
            if prefix.flags & FLAG_EXPIRY != 0 { Some(reader.u64()?) } else { None };
        let key = reader.key(prefix.key_len)?;
        let value = Value::new(reader.take(prefix.argument as usize)?)?;
        reader.finish()?;
        let (table, map_epoch) = (prefix.table, prefix.map_epoch);
        Ok(Self { table, map_epoch, completion, expires_at_ms, key, value })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let (_, completion) = CompletionId::flag_and_len(self.completion);
        let expiry = if self.expires_at_ms.is_some() { EXPIRY_LEN } else { 0 };
        PREFIX_LEN + completion + expiry + self.key.len() + self.value.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let (completion, _) = CompletionId::flag_and_len(self.completion);
        let expiry = if self.expires_at_ms.is_some() { FLAG_EXPIRY } else { 0 };
        let prefix = Prefix {
            operation: Operation::Put,
            flags: completion | expiry,
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            argument: self.value.wire_len(),
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        if let Some(completion) = self.completion {
            completion.encode(&mut writer);
        }
        if let Some(expires_at_ms) = self.expires_at_ms {
            writer.u64(expires_at_ms);
        }
        writer.bytes(&self.key);
        writer.bytes(&self.value);
        writer.finish();
    }
}

/// The answer to a [`Put`], and to each pair of a multi-put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutReply {
    /// The version of the object that was written.
    pub version: Version,
}

impl PutReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a put.
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

impl<'a> ItemReply<'a> for PutReply {
    #[inline]
    fn head(&self, index: u16) -> ReplyHead {
        ReplyHead { index, ..ReplyHead::bare(Status::Ok, self.version) }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn from_head(head: &ReplyHead, _body: &'a [u8]) -> Result<Self, DecodeError> {
        head.takes_no_body()?;
        match head.status {
            Status::Ok => Ok(Self { version: Version(head.version) }),
            Status::Absent | Status::Unprocessed | Status::Error(_) => Err(head.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::LimitError;
    use crate::limits::VALUE_MAX;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let mut put = Put {
            table: TableId(2),
            map_epoch: 7,
            completion: None,
            expires_at_ms: None,
            key: key(b"loom"),
            value: value(b"weft!"),
        };
        let request = encode(put.encoded_len(), |buffer| put.encode(buffer));
        assert_eq!(request, documented("put request"));

        put.completion = Some(CompletionId { client: 3, sequence: 4 });
        put.expires_at_ms = Some(5);
        let request = encode(put.encoded_len(), |buffer| put.encode(buffer));
        assert_eq!(request, documented("put request with everything"));

        let written = PutReply { version: Version::new(1, 9) };
        let reply = encode(written.encoded_len(), |buffer| written.encode(buffer));
        assert_eq!(reply, documented("put reply"));
    }

    #[test]
    fn a_value_above_the_limit_is_refused_by_name() {
        let len = VALUE_MAX + 1;
        let prefix = hex("02 00 0200 07000000 01 00 0000");
        let request = [prefix, (len as u32).to_le_bytes().to_vec(), vec![0; len]].concat();
        let error = DecodeError::Limit(LimitError::ValueTooLarge { len });
        assert_eq!(Request::decode(&request), Err(error));
    }

    #[test]
    fn the_longest_object_fits_a_message() {
        let bytes = vec![1; weft_transport::limits::MESSAGE_MAX];
        let put = Put {
            table: TableId::DEFAULT,
            map_epoch: 0,
            completion: Some(CompletionId { client: 1, sequence: 1 }),
            expires_at_ms: Some(1),
            key: key(&bytes[..crate::limits::KEY_MAX]),
            value: value(&bytes[..VALUE_MAX]),
        };
        assert!(put.encoded_len() <= bytes.len());
        check_request(Request::Put(put));
    }

    #[test]
    fn a_put_is_never_answered_with_absent() {
        let absent = hex("0100 0000 00000000 0900000000100000");
        let error = DecodeError::UnexpectedStatus { status: 1 };
        assert_eq!(PutReply::decode(&absent), Err(error.into()));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            completion in completions(),
            expires_at_ms in any::<Option<u64>>(),
            (key_bytes, value_bytes) in (bytes(100), bytes(300)),
        ) {
            let (key, value) = (key(&key_bytes), value(&value_bytes));
            let put = Put { table, map_epoch, completion, expires_at_ms, key, value };
            check_request(Request::Put(put));
        }

        #[test]
        fn replies_are_read_as_written(version in versions()) {
            let reply = PutReply { version };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(PutReply::decode(&message), Ok(reply));
            check_head_alone(&message, PutReply::decode);
        }
    }
}
