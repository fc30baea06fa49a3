//! Open-client: ask to be a client that is remembered.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length, client | lease u32
//! ```

use crate::bare::bare_request;
use crate::codec::{Reader, Writer};
use crate::error::ReplyError;
use crate::reply::{HEAD_LEN, ReplyHead, Status};

bare_request!(
    /// Asks for a number that [completion ids](crate::CompletionId) have, and for a lease of it.
    OpenClient
);

/// The answer to [`OpenClient`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenClientReply {
    /// The client's number, which is nobody else's and never was; not 0.
    pub client: u64,
    /// For how many milliseconds what the client does is remembered, from when it asked on, unless it
    /// [renews](crate::RenewClient) that.
    pub lease_ms: u32,
}

impl OpenClientReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let mut reader = Reader::new(body);
        let lease_ms = reader.u32()?;
        reader.finish()?;
        Ok(Self { client: head.version, lease_ms })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + 4
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead { status: Status::Ok, index: 0, length: 4, version: self.client };
        writer.bytes(&head.to_bytes());
        writer.u32(self.lease_ms);
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
        check_request(Request::OpenClient(OpenClient));
        let message = encode(OpenClient.encoded_len(), |buffer| OpenClient.encode(buffer));
        assert_eq!(message, documented("open-client request"));
        let reply = OpenClientReply { client: 3, lease_ms: 60_000 };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("open-client reply"));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(client: u64, lease_ms: u32) {
            let reply = OpenClientReply { client, lease_ms };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(OpenClientReply::decode(&message), Ok(reply));
            check_cut(&message, OpenClientReply::decode);
        }
    }
}
