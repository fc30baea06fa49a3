//! Expire: change when the object of one key ceases to be, and leave its value as it is.
//!
//! ```text
//! request  prefix | completion id? | expiry? | key
//! reply    head: ok or absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead};
use crate::target::Target;
use crate::version::Version;

/// Gives the object of a key another expiry, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expire<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When it ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
}

impl<'a> Expire<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_no_argument()?;
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        reader.finish()?;
        Ok(Self { target, expires_at_ms })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms)
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::Expire, 0, self.expires_at_ms, &mut writer);
        writer.finish();
    }
}

/// The answer to an [`Expire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpireReply {
    /// The version that the object has now: another, though the value is the same, unless it had that
    /// expiry already. If there is none, the newest version that the key's partition has given out.
    pub version: Version,
    /// Whether there is an object.
    pub exists: bool,
}

impl ExpireReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to an expire.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        let (version, exists) = head.presence()?;
        Ok(Self { version, exists })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&ReplyHead::of_presence(self.version, self.exists).to_bytes());
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
        let request = Expire { target: documented_target(), expires_at_ms: Some(5) };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("expire request"));

        let reply = ExpireReply { version: Version::new(1, 9), exists: true };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("put reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
        ) {
            let request = Expire { target: target.get(), expires_at_ms };
            check_request(Request::Expire(request));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), exists: bool) {
            let reply = ExpireReply { version, exists };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(ExpireReply::decode(&message), Ok(reply));
            check_head_alone(&message, ExpireReply::decode);
        }
    }
}
