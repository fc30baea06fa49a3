//! Watch-end: have a node forget a watch.
//!
//! ```text
//! request  prefix | id u64
//! reply    head: ok, 0
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Ends a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEnd {
    /// The watch.
    pub id: u64,
}

impl WatchEnd {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let id = reader.u64()?;
        reader.finish()?;
        Ok(Self { id })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::WatchEnd).encode(&mut writer);
        writer.u64(self.id);
        writer.finish();
    }
}

/// The answer to a [`WatchEnd`]: that there is no such watch any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEndReply;

impl WatchEndReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        head.takes_no_body()?;
        match head.status {
            Status::Ok => Ok(Self),
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
        buffer.copy_from_slice(&ReplyHead::bare(Status::Ok, Version::NONE).to_bytes());
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
        let request = WatchEnd { id: 0x0123_4567_89ab_cdef };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("watch-end request"));
        let message = encode(HEAD_LEN, |buffer| WatchEndReply.encode(buffer));
        assert_eq!(message, documented("watch-end reply"));
        assert_eq!(WatchEndReply::decode(&message), Ok(WatchEndReply));
        check_head_alone(&message, WatchEndReply::decode);
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(id: u64) {
            check_request(Request::WatchEnd(WatchEnd { id }));
        }
    }
}
