//! Map: ask who owns which slots.
//!
//! ```text
//! request  prefix | known epoch u64
//! reply    head: ok, length, the map's epoch | the map, or nothing if its epoch is the known one
//! ```

use crate::cluster_map::ClusterMap;
use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};

/// Asks for the cluster map, unless it is still the one that the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map {
    /// The epoch of the client's map; 0 if it has none, since no map has epoch 0.
    pub known_epoch: u64,
}

impl Map {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        let known_epoch = reader.u64()?;
        reader.finish()?;
        Ok(Self { known_epoch })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 8
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::Map).encode(&mut writer);
        writer.u64(self.known_epoch);
        writer.finish();
    }
}

/// The answer to [`Map`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapReply {
    /// The server's map.
    Map(ClusterMap),
    /// The server's map is the one that the client knows.
    Unchanged {
        /// The map's epoch.
        epoch: u64,
    },
}

impl MapReply {
    /// The answer of a server with `map` to a client that knows `known_epoch`.
    pub fn new(map: &ClusterMap, request: Map) -> Self {
        if map.epoch() == request.known_epoch {
            Self::Unchanged { epoch: map.epoch() }
        } else {
            Self::Map(map.clone())
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no map.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok if body.is_empty() => Ok(Self::Unchanged { epoch: head.version }),
            Status::Ok => Ok(Self::Map(ClusterMap::decode(head.version, Reader::new(body))?)),
            _ => Err(head.unexpected().into()),
        }
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body_len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: 0,
            length: self.body_len() as u32,
            version: self.epoch(),
        };
        writer.bytes(&head.to_bytes());
        if let Self::Map(map) = self {
            map.encode(&mut writer);
        }
        writer.finish();
    }

    /// The epoch of the server's map.
    pub const fn epoch(&self) -> u64 {
        match self {
            Self::Map(map) => map.epoch(),
            Self::Unchanged { epoch } => *epoch,
        }
    }

    fn body_len(&self) -> usize {
        match self {
            Self::Map(map) => map.encoded_len(),
            Self::Unchanged { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_transport::{Incarnation, NodeId};

    use super::*;
    use crate::cluster_map::{MapError, NodeEntry};
    use crate::request::Request;
    use crate::round_trip::*;

    fn map(epoch: u64) -> ClusterMap {
        let node = |id| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(4),
            address: format!("n{id}:74"),
        };
        ClusterMap::even(vec![node(2), node(1)], 2, epoch).unwrap()
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = Map { known_epoch: 8 };
        check_request(Request::Map(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("map request"));

        let reply = MapReply::Map(map(9));
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("map reply"));
        assert_eq!(MapReply::decode(&message), Ok(reply));
    }

    #[test]
    fn a_known_map_is_not_sent_again() {
        let reply = MapReply::new(&map(9), Map { known_epoch: 9 });
        assert_eq!(reply, MapReply::Unchanged { epoch: 9 });
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("map unchanged"));
        assert_eq!(MapReply::decode(&message), Ok(reply));

        let reply = MapReply::new(&map(9), Map { known_epoch: 10 });
        assert_eq!(reply, MapReply::Map(map(9)));
    }

    #[test]
    fn a_map_is_never_absent() {
        for name in ["map reply", "map unchanged"] {
            let mut message = documented(name);
            message[0] = 1;
            let error = DecodeError::UnexpectedStatus { status: 1 };
            assert_eq!(MapReply::decode(&message), Err(error.into()));
        }
    }

    #[test]
    fn counts_that_the_bytes_do_not_hold_are_refused() {
        let message = |nodes: u32, partitions: u32| {
            let head = hex("0000 0000 08000000 0900000000000000");
            [head, nodes.to_le_bytes().to_vec(), partitions.to_le_bytes().to_vec()].concat()
        };
        let check = |nodes, partitions, error: DecodeError| {
            assert_eq!(MapReply::decode(&message(nodes, partitions)), Err(error.into()));
        };
        check(0, 0, MapError::NodeCount { count: 0 }.into());
        check(1, 0, DecodeError::Truncated { missing: 8 });
        check(0, 1, DecodeError::Truncated { missing: 2 });
        check(u32::MAX, 0, MapError::NodeCount { count: u32::MAX as usize }.into());
        check(0, u32::MAX, MapError::PartitionCount { count: u32::MAX as usize }.into());
    }

    proptest! {
        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("map reply"))) {
            if let Ok(MapReply::Map(map)) = MapReply::decode(&message) {
                let _ = map.owner_of(crate::slot::Slot::of(&message));
            }
        }
    }
}
