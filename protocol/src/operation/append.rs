//! Append: add bytes to the end of the value of one key.
//!
//! ```text
//! request  prefix: tail length | completion id? | expiry? | key | tail
//! reply    head: ok, length 8, version | length of the whole value u64
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::numbered::NumberedHead;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::ReplyHead;
use crate::target::Target;
use crate::value::Value;
use crate::version::Version;

/// Makes the value of a key longer by `tail`. A key without an object counts as one with an empty
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Append<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When an object that this creates ceases to be, in milliseconds of Unix time; `None` is
    /// never. One that is there keeps the expiry that it has.
    pub expires_at_ms: Option<u64>,
    /// What is added.
    pub tail: Value<'a>,
}

impl<'a> Append<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let tail = reader.value(prefix.argument)?;
        reader.finish()?;
        Ok(Self { target, expires_at_ms, tail })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + self.tail.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let tail_len = self.tail.wire_len();
        self.target.encode(Operation::Append, tail_len, self.expires_at_ms, &mut writer);
        writer.bytes(&self.tail);
        writer.finish();
    }
}

/// The answer to an [`Append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendReply {
    /// The version of the object that was written.
    pub version: Version,
    /// Bytes of its whole value.
    pub value_len: u64,
}

impl AppendReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to an append.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        let (version, value_len) = NumberedHead::alone(&head, body)?;
        Ok(Self { version, value_len })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        NumberedHead::LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        NumberedHead::new(self.version, self.value_len, 0).encode(buffer);
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
        let request =
            Append { target: documented_target(), expires_at_ms: Some(5), tail: value(b"weft!") };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("append request"));

        let reply = AppendReply { version: Version::new(1, 9), value_len: 12 };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("append reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            bytes in bytes(300),
        ) {
            let request = Append { target: target.get(), expires_at_ms, tail: value(&bytes) };
            check_request(Request::Append(request));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), value_len: u64) {
            let reply = AppendReply { version, value_len };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(AppendReply::decode(&message), Ok(reply));
            check_cut(&message, AppendReply::decode);
        }
    }
}
