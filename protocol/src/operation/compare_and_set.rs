//! Compare-and-set: write the object of one key if it is still the one that the client knows.
//!
//! ```text
//! request  prefix: value length | completion id? | expiry? | key | expected version u64 | value
//! reply    head: ok, version
//!          head: conflict, version of the object that is there
//!          head: absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::target::Target;
use crate::value::Value;
use crate::version::Version;

/// Makes `value` the object of a key if the object that is there has the version `expected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareAndSet<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When the new object ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The version of the object that is to be replaced; [`Version::NONE`] if there is to be none
    /// (put-if-absent, as etcd and Consul say it).
    pub expected: Version,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> CompareAndSet<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let expected = Version(reader.u64()?);
        let value = reader.value(prefix.argument)?;
        reader.finish()?;
        Ok(Self { target, expires_at_ms, expected, value })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + 8 + self.value.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let value_len = self.value.wire_len();
        self.target.encode(Operation::CompareAndSet, value_len, self.expires_at_ms, &mut writer);
        writer.u64(self.expected.0);
        writer.bytes(&self.value);
        writer.finish();
    }
}

/// The answer to a [`CompareAndSet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareAndSetReply {
    /// The object was as expected, and is the new one now.
    Written {
        /// The version of the new object.
        version: Version,
    },
    /// The key has another object, which stays.
    Conflict {
        /// The version of that object.
        version: Version,
    },
    /// The key has no object, and one was expected.
    Absent {
        /// The newest version that the key's partition has given out: as of it, the key was absent.
        version: Version,
    },
}

impl CompareAndSetReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a compare-and-set.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        head.takes_no_body()?;
        let version = Version(head.version);
        match head.status {
            Status::Ok => Ok(Self::Written { version }),
            Status::Conflict => Ok(Self::Conflict { version }),
            Status::Absent => Ok(Self::Absent { version }),
            Status::Unprocessed | Status::Error(_) => Err(head.unexpected().into()),
        }
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
        let (status, version) = match *self {
            Self::Written { version } => (Status::Ok, version),
            Self::Conflict { version } => (Status::Conflict, version),
            Self::Absent { version } => (Status::Absent, version),
        };
        buffer.copy_from_slice(&ReplyHead::bare(status, version).to_bytes());
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
        let request = CompareAndSet {
            target: documented_target(),
            expires_at_ms: None,
            expected: Version::new(1, 8),
            value: value(b"weft!"),
        };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("compare-and-set request"));

        let conflict = CompareAndSetReply::Conflict { version: Version::new(1, 9) };
        let bytes = encode(conflict.encoded_len(), |buffer| conflict.encode(buffer));
        assert_eq!(bytes, documented("compare-and-set conflict"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            expected in versions(),
            bytes in bytes(300),
        ) {
            let (target, value) = (target.get(), value(&bytes));
            let request = CompareAndSet { target, expires_at_ms, expected, value };
            check_request(Request::CompareAndSet(request));
        }

        #[test]
        fn replies_are_read_as_written(version in versions()) {
            for reply in [
                CompareAndSetReply::Written { version },
                CompareAndSetReply::Conflict { version },
                CompareAndSetReply::Absent { version },
            ] {
                let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(CompareAndSetReply::decode(&message), Ok(reply));
                check_head_alone(&message, CompareAndSetReply::decode);
            }
        }
    }
}
