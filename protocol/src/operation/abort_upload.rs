//! Abort-upload: give up a value that was being uploaded.
//!
//! ```text
//! request  prefix | completion id? | key | upload u64
//! reply    head: ok, or absent if there was no such upload
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead};
use crate::target::Target;
use crate::version::Version;

/// Gives up an upload, so that its memory is free before its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortUpload<'a> {
    /// Which object it was for.
    pub target: Target<'a>,
    /// The upload's number.
    pub upload: u64,
}

impl<'a> AbortUpload<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_no_argument()?;
        let target = Target::decode(&prefix, &mut reader)?;
        let upload = reader.u64()?;
        reader.finish()?;
        Ok(Self { target, upload })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(None) + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::AbortUpload, 0, None, &mut writer);
        writer.u64(self.upload);
        writer.finish();
    }
}

/// The answer to an [`AbortUpload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortUploadReply {
    /// Whether there was such an upload.
    pub existed: bool,
}

impl AbortUploadReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to an abort.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, _) = ReplyHead::decode(message)?;
        let (_, existed) = head.presence()?;
        Ok(Self { existed })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let head = ReplyHead::of_presence(Version::NONE, self.existed);
        buffer.copy_from_slice(&head.to_bytes());
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
        let request = AbortUpload { target: documented_target(), upload: 17 };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("abort-upload request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(target in targets(), upload: u64) {
            check_request(Request::AbortUpload(AbortUpload { target: target.get(), upload }));
        }

        #[test]
        fn replies_are_read_as_written(existed: bool) {
            let reply = AbortUploadReply { existed };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(AbortUploadReply::decode(&message), Ok(reply));
            check_head_alone(&message, AbortUploadReply::decode);
        }
    }
}
