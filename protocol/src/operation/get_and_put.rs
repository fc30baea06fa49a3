//! Get-and-put: write the object of one key, and return the one that it replaces.
//!
//! ```text
//! request  prefix: value length | completion id? | expiry? | key | value
//! reply    head: ok, length, version | version of what was there u64 | its value
//!          head: absent, version; the object was written all the same
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::target::Target;
use crate::value::Value;

/// Makes `value` the object of a key, and asks for the one that was there: the answer is a
/// [`PreviousReply`](crate::PreviousReply).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetAndPut<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When the new object ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> GetAndPut<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        let value = reader.value(prefix.argument)?;
        reader.finish()?;
        Ok(Self { target, expires_at_ms, value })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + self.value.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let value_len = self.value.wire_len();
        self.target.encode(Operation::GetAndPut, value_len, self.expires_at_ms, &mut writer);
        writer.bytes(&self.value);
        writer.finish();
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
        let (target, value) = (documented_target(), value(b"weft!"));
        let request = GetAndPut { target, expires_at_ms: None, value };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("get-and-put request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            bytes in bytes(300),
        ) {
            let request = GetAndPut { target: target.get(), expires_at_ms, value: value(&bytes) };
            check_request(Request::GetAndPut(request));
        }
    }
}
