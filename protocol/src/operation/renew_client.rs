//! Renew-client: ask to be remembered for longer.
//!
//! ```text
//! request  prefix | client u64
//! reply    head: ok, length, client | lease u32
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::operation::open_client::OpenClientReply;
use crate::prefix::{PREFIX_LEN, Prefix};

/// Asks for a client's lease to begin anew. [`ClientUnknown`](crate::ErrorCode::ClientUnknown) if it has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewClient {
    /// The client.
    pub client: u64,
}

impl RenewClient {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let client = reader.u64()?;
        reader.finish()?;
        Ok(Self { client })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::RenewClient).encode(&mut writer);
        writer.u64(self.client);
        writer.finish();
    }
}

/// The answer to a [`RenewClient`]: that of [open-client](crate::OpenClient), with the client's own number.
pub type RenewClientReply = OpenClientReply;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = RenewClient { client: 3 };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("renew-client request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(client: u64) {
            check_request(Request::RenewClient(RenewClient { client }));
        }
    }
}
