//! Tables: ask which tables there are.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length, the catalog's version | the catalog
//! ```

use crate::bare::bare_request;
use crate::catalog::Catalog;
use crate::codec::{Reader, Writer};
use crate::error::ReplyError;
use crate::reply::{HEAD_LEN, ReplyHead, Status};

bare_request!(
    /// Asks a node for the tables that it knows.
    Tables
);

/// The answer to [`Tables`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablesReply {
    /// The tables that the node knows.
    pub catalog: Catalog,
}

impl TablesReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no catalog.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok => Ok(Self { catalog: Catalog::decode(Reader::new(body))? }),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.catalog.encoded_len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: 0,
            length: self.catalog.encoded_len() as u32,
            version: self.catalog.version(),
        };
        writer.bytes(&head.to_bytes());
        self.catalog.encode(&mut writer);
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
        check_request(Request::Tables(Tables));
        let message = encode(Tables.encoded_len(), |buffer| Tables.encode(buffer));
        assert_eq!(message, documented("tables request"));

        let reply = TablesReply { catalog: two_tables() };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("tables reply"));
        assert_eq!(TablesReply::decode(&message), Ok(reply));
        check_cut(&message, TablesReply::decode);
    }

    proptest! {
        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("tables reply"))) {
            if let Ok(reply) = TablesReply::decode(&message) {
                let again = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
                prop_assert_eq!(TablesReply::decode(&again), Ok(reply));
            }
        }
    }
}
