//! Put: write the object of one key, whether or not there was one.
//!
//! ```text
//! request  prefix: value length | completion id? | expiry? | key | value
//! reply    head: ok, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::part::ItemReply;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::target::Target;
use crate::value::Value;
use crate::version::Version;

/// Makes `value` the object of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When the object ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Put<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let value = reader.value(prefix.argument)?;
        reader.finish()?;
        Ok(Self { target, expires_at_ms, value })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + self.value.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let value_len = self.value.wire_len();
        self.target.encode(Operation::Put, value_len, self.expires_at_ms, &mut writer);
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
            Status::Absent | Status::Unprocessed | Status::Conflict | Status::Error(_) => {
                Err(head.unexpected())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::LimitError;
    use crate::limits::REQUEST_VALUE_MAX;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::table::TableId;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let target =
            Target { table: TableId(2), map_epoch: 7, completion: None, key: key(b"loom") };
        let mut put = Put { target, expires_at_ms: None, value: value(b"weft!") };
        let request = encode(put.encoded_len(), |buffer| put.encode(buffer));
        assert_eq!(request, documented("put request"));

        put.target.completion = Some(completion(3, 4, 2));
        put.expires_at_ms = Some(5);
        let request = encode(put.encoded_len(), |buffer| put.encode(buffer));
        assert_eq!(request, documented("put request with everything"));

        let written = PutReply { version: Version::new(1, 9) };
        let reply = encode(written.encoded_len(), |buffer| written.encode(buffer));
        assert_eq!(reply, documented("put reply"));
    }

    #[test]
    fn a_value_above_the_limit_is_refused_by_name() {
        let len = REQUEST_VALUE_MAX + 1;
        let prefix = hex("02 00 0200 07000000 01 00 0000");
        let request = [prefix, (len as u32).to_le_bytes().to_vec(), vec![0; len]].concat();
        let error = DecodeError::Limit(LimitError::RequestValueTooLarge { len });
        assert_eq!(Request::decode(&request), Err(error));
    }

    #[test]
    fn the_longest_object_fits_a_message() {
        let bytes = vec![1; weft_transport::limits::MESSAGE_MAX];
        let target = Target {
            table: TableId::DEFAULT,
            map_epoch: 0,
            completion: Some(completion(1, 1, 1)),
            key: key(&bytes[..crate::limits::KEY_MAX]),
        };
        let put = Put { target, expires_at_ms: Some(1), value: value(&bytes[..REQUEST_VALUE_MAX]) };
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
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            bytes in bytes(300),
        ) {
            let put = Put { target: target.get(), expires_at_ms, value: value(&bytes) };
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
