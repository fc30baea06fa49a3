//! Get-and-delete: remove the object of one key, and return it.
//!
//! ```text
//! request  prefix | completion id? | key
//! reply    head: ok, length, version | version of what was there u64 | its value
//!          head: absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::target::Target;

/// Removes the object of a key, and asks for it: the answer is a
/// [`PreviousReply`](crate::PreviousReply).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetAndDelete<'a> {
    /// Which object.
    pub target: Target<'a>,
}

impl<'a> GetAndDelete<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_no_argument()?;
        let target = Target::decode(&prefix, &mut reader)?;
        reader.finish()?;
        Ok(Self { target })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(None)
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::GetAndDelete, 0, None, &mut writer);
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
        let request = GetAndDelete { target: documented_target() };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("get-and-delete request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(target in targets()) {
            check_request(Request::GetAndDelete(GetAndDelete { target: target.get() }));
        }
    }
}
