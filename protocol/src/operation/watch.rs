//! Watch: have a node tell what happens to a key, or to the keys with a prefix, from now on.
//!
//! ```text
//! request  prefix: bytes of queue | key or prefix of keys
//! reply    head: ok, 1 if the key has an object, length, version | id u64 | queue bytes u32 | lease ms u32
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::operation::Operation;
use crate::prefix::{FLAG_PREFIX, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::version::Version;

/// Bytes behind the head of the reply.
const BODY_LEN: usize = 16;

/// Which keys are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched<'a> {
    /// This one.
    Key(Key<'a>),
    /// Those of the node that begin so.
    Prefix(Key<'a>),
}

impl<'a> Watched<'a> {
    const fn key(&self) -> Key<'a> {
        match self {
            Self::Key(key) | Self::Prefix(key) => *key,
        }
    }
}

/// Opens a watch at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch<'a> {
    /// The table of the keys.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map. A node with another map refuses to watch a prefix, since it may own other
    /// partitions than the client thinks.
    pub map_epoch: u32,
    /// Which keys.
    pub watched: Watched<'a>,
    /// How many bytes of events the node is to keep; 0 for as many as it likes. It may keep fewer or more.
    pub queue_bytes: u32,
}

impl<'a> Watch<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_PREFIX)?;
        let key = reader.key(prefix.key_len)?;
        reader.finish()?;
        let is_prefix = prefix.flags & FLAG_PREFIX != 0;
        let watched = if is_prefix { Watched::Prefix(key) } else { Watched::Key(key) };
        let Prefix { table, map_epoch, argument: queue_bytes, .. } = prefix;
        Ok(Self { table, map_epoch, watched, queue_bytes })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.watched.key().len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let key = self.watched.key();
        let prefix = Prefix {
            operation: Operation::Watch,
            flags: match self.watched {
                Watched::Key(_) => 0,
                Watched::Prefix(_) => FLAG_PREFIX,
            },
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: key.wire_len(),
            argument: self.queue_bytes,
        };
        prefix.encode(&mut writer);
        writer.bytes(&key);
        writer.finish();
    }
}

/// The answer to a [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchReply {
    /// What the watch is called from now on.
    pub id: u64,
    /// The version of the key's object at the moment from which on events are told; if it has none, the newest that its partition
    /// has given out. [`Version::NONE`] for a prefix.
    pub version: Version,
    /// Whether the key has an object. `false` for a prefix.
    pub exists: bool,
    /// How many bytes of events the node keeps.
    pub queue_bytes: u32,
    /// The watch ends when the node was not asked for its events for so many milliseconds.
    pub lease_ms: u32,
}

impl WatchReply {
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
        let (id, queue_bytes, lease_ms) = (reader.u64()?, reader.u32()?, reader.u32()?);
        reader.finish()?;
        let (version, exists) = (Version(head.version), head.index != 0);
        Ok(Self { id, version, exists, queue_bytes, lease_ms })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + BODY_LEN
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: u16::from(self.exists),
            length: BODY_LEN as u32,
            version: self.version.0,
        };
        writer.bytes(&head.to_bytes());
        writer.u64(self.id);
        writer.u32(self.queue_bytes);
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
        let (table, map_epoch, queue_bytes) = (TableId(2), 7, 1 << 20);
        let one = Watch { table, map_epoch, watched: Watched::Key(key(b"loom")), queue_bytes };
        let all = Watch { watched: Watched::Prefix(key(b"lo")), queue_bytes: 0, ..one };
        for (request, name) in [(one, "watch request"), (all, "watch request for a prefix")] {
            let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
            assert_eq!(message, documented(name));
        }
        let reply = WatchReply {
            id: 0x0123_4567_89ab_cdef,
            version: Version::new(1, 9),
            exists: true,
            queue_bytes,
            lease_ms: 30_000,
        };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("watch reply"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            key_bytes in bytes(100),
            is_prefix: bool,
            queue_bytes: u32,
        ) {
            let key = key(&key_bytes);
            let watched = if is_prefix { Watched::Prefix(key) } else { Watched::Key(key) };
            let watch = Watch { table, map_epoch, watched, queue_bytes };
            check_request(Request::Watch(watch));
            let of_key = (!is_prefix).then_some((table, key));
            prop_assert_eq!(Request::Watch(watch).key(), of_key);
        }

        #[test]
        fn replies_are_read_as_written(
            version in versions(),
            (id, exists, queue_bytes, lease_ms) in any::<(u64, bool, u32, u32)>(),
        ) {
            let reply = WatchReply { id, version, exists, queue_bytes, lease_ms };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(WatchReply::decode(&message), Ok(reply));
            check_cut(&message, WatchReply::decode);
        }
    }
}
