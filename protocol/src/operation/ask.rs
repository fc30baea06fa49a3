//! Ask: have a node's coordinator do or tell something.
//!
//! ```text
//! request  prefix: length | what is asked
//! reply    head: ok, length | the answer
//! ```
//!
//! What is asked and answered are messages of nodes and operators' tools, in protobuf; the server has them. Clients ask nothing of that kind:
//! what they need of the coordinator has operations of its own.

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Asks something of the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// What.
    pub body: &'a [u8],
}

impl<'a> Ask<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        let body = reader.take(prefix.argument as usize)?;
        reader.finish()?;
        Ok(Self { body })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.body.len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let argument = self.body.len() as u32;
        Prefix { argument, ..Prefix::bare(Operation::Ask) }.encode(&mut writer);
        writer.bytes(self.body);
        writer.finish();
    }
}

/// The answer to [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskReply<'a> {
    /// What is answered.
    pub body: &'a [u8],
}

impl<'a> AskReply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok => Ok(Self { body }),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body.len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let length = self.body.len() as u32;
        let head = ReplyHead { length, ..ReplyHead::bare(Status::Ok, Version(0)) };
        writer.bytes(&head.to_bytes());
        writer.bytes(self.body);
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
        let request = Ask { body: &[8, 1] };
        check_request(Request::Ask(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("ask request"));
        let reply = AskReply { body: &[8, 1, 16, 2] };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("ask reply"));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(body: Vec<u8>) {
            let reply = AskReply { body: &body };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(AskReply::decode(&message), Ok(reply));
        }
    }
}
