//! Increment: add to the number that a key holds, as decimal text.
//!
//! ```text
//! request  prefix | completion id? | expiry? | key | delta i64
//! reply    head: ok, length 8, version | the sum i64
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::numbered::NumberedHead;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::ReplyHead;
use crate::target::Target;
use crate::version::Version;

/// Adds `delta` to the number that is the value of a key. A key without an object counts as 0.
///
/// The value is decimal text, as with Redis and memcached, so that a number can be put and got by
/// whoever does not know of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Increment<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When an object that this creates ceases to be, in milliseconds of Unix time; `None` is
    /// never. One that is there keeps the expiry that it has.
    pub expires_at_ms: Option<u64>,
    /// What to add; may be negative.
    pub delta: i64,
}

impl<'a> Increment<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_no_argument()?;
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let delta = reader.u64()?.cast_signed();
        reader.finish()?;
        Ok(Self { target, expires_at_ms, delta })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::Increment, 0, self.expires_at_ms, &mut writer);
        writer.u64(self.delta.cast_unsigned());
        writer.finish();
    }
}

/// The answer to an [`Increment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncrementReply {
    /// The version of the object that was written.
    pub version: Version,
    /// The number that it holds.
    pub number: i64,
}

impl IncrementReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to an increment.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        let (version, number) = NumberedHead::alone(&head, body)?;
        Ok(Self { version, number: number.cast_signed() })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        NumberedHead::LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        NumberedHead::new(self.version, self.number.cast_unsigned(), 0).encode(buffer);
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
        let request = Increment { target: documented_target(), expires_at_ms: None, delta: -2 };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("increment request"));

        let reply = IncrementReply { version: Version::new(1, 9), number: -1 };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("increment reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            delta: i64,
        ) {
            let request = Increment { target: target.get(), expires_at_ms, delta };
            check_request(Request::Increment(request));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), number: i64) {
            let reply = IncrementReply { version, number };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(IncrementReply::decode(&message), Ok(reply));
            check_cut(&message, IncrementReply::decode);
        }
    }
}
