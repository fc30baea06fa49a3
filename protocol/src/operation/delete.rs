//! Delete: remove the object of one key, if there is one.
//!
//! ```text
//! request  prefix | completion id? | key
//! reply    head: ok or absent, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::part::ItemReply;
use crate::prefix::Prefix;
use crate::reply::{HEAD_LEN, ReplyHead};
use crate::target::Target;
use crate::version::Version;

/// Removes the object of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Which object.
    pub target: Target<'a>,
}

impl<'a> Delete<'a> {
    #[inline]
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_no_argument()?;
        let target = Target::decode(&prefix, &mut reader)?;
        reader.finish()?;
        Ok(Self { target })
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(None)
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::Delete, 0, None, &mut writer);
        writer.finish();
    }
}

/// The answer to a [`Delete`], and to each key of a multi-delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteReply {
    /// The version of the removal; if there was nothing to remove, the newest version that the
    /// key's partition has given out.
    pub version: Version,
    /// Whether there was an object.
    pub existed: bool,
}

impl DeleteReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a delete.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        Ok(Self::from_head(&head, body)?)
    }

    /// Bytes of the reply's message.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.head(0).to_bytes());
    }
}

impl<'a> ItemReply<'a> for DeleteReply {
    #[inline]
    fn head(&self, index: u16) -> ReplyHead {
        ReplyHead { index, ..ReplyHead::of_presence(self.version, self.existed) }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn from_head(head: &ReplyHead, _body: &'a [u8]) -> Result<Self, DecodeError> {
        let (version, existed) = head.presence()?;
        Ok(Self { version, existed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::table::TableId;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let completion = Some(completion(3, 4, 2));
        let target = Target { table: TableId(2), map_epoch: 7, completion, key: key(b"loom") };
        let delete = Delete { target };
        let request = encode(delete.encoded_len(), |buffer| delete.encode(buffer));
        assert_eq!(request, documented("delete request"));

        let absent = DeleteReply { version: Version::new(1, 9), existed: false };
        let reply = encode(absent.encoded_len(), |buffer| absent.encode(buffer));
        assert_eq!(reply, documented("get absent"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(target in targets()) {
            check_request(Request::Delete(Delete { target: target.get() }));
        }

        #[test]
        fn replies_are_read_as_written(version in versions(), existed: bool) {
            let reply = DeleteReply { version, existed };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(DeleteReply::decode(&message), Ok(reply));
            check_head_alone(&message, DeleteReply::decode);
        }
    }
}
