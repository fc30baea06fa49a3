//! Unregister-worker: have the cluster forget a process that works for it no more.
//!
//! ```text
//! request  prefix | worker u64
//! reply    head: ok
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Ends a worker's registration. It is done, too, if there is none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnregisterWorker {
    /// The worker.
    pub worker: u64,
}

impl UnregisterWorker {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let worker = reader.u64()?;
        reader.finish()?;
        Ok(Self { worker })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::UnregisterWorker).encode(&mut writer);
        writer.u64(self.worker);
        writer.finish();
    }
}

/// The answer to [`UnregisterWorker`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnregisterWorkerReply;

impl UnregisterWorkerReply {
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

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&ReplyHead::bare(Status::Ok, Version(0)).to_bytes());
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
        let request = UnregisterWorker { worker: 3 };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("unregister-worker request"));
        let reply = UnregisterWorkerReply;
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("unregister-worker reply"));
        check_head_alone(&message, UnregisterWorkerReply::decode);
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(worker: u64) {
            check_request(Request::UnregisterWorker(UnregisterWorker { worker }));
        }
    }
}
