//! Map: ask who serves which slots.
//!
//! ```text
//! request  prefix | known epoch u64
//! reply    head: ok, 0, length, the map's epoch | the map, or nothing if its epoch is the known one
//!          head: ok, 1, length, the map's epoch | what makes it of the known one
//! ```

use crate::cluster_map::{ClusterMap, MapDifference};
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

/// The index of a reply that has the difference to the known map.
const DIFFERENCE: u16 = 1;

/// The answer to [`Map`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapReply {
    /// The server's map.
    Map(ClusterMap),
    /// What makes the server's map of the one that the client knows.
    Difference(MapDifference),
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

    /// The same of a server that still has the map that the client knows, if that is `known`: what has changed, unless the whole is shorter.
    pub fn since(known: &ClusterMap, map: &ClusterMap, request: Map) -> Self {
        if known.epoch() != request.known_epoch || map.epoch() <= known.epoch() {
            return Self::new(map, request);
        }
        let difference = MapDifference::between(known, map);
        if difference.encoded_len() < map.encoded_len() {
            Self::Difference(difference)
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
            Status::Ok if head.index == DIFFERENCE => {
                let difference = MapDifference::decode(head.version, Reader::new(body))?;
                Ok(Self::Difference(difference))
            }
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
            index: if let Self::Difference(_) = self { DIFFERENCE } else { 0 },
            length: self.body_len() as u32,
            version: self.epoch(),
        };
        writer.bytes(&head.to_bytes());
        match self {
            Self::Map(map) => map.encode(&mut writer),
            Self::Difference(difference) => difference.encode(&mut writer),
            Self::Unchanged { .. } => {}
        }
        writer.finish();
    }

    /// The epoch of the server's map.
    pub const fn epoch(&self) -> u64 {
        match self {
            Self::Map(map) => map.epoch(),
            Self::Difference(difference) => difference.epoch(),
            Self::Unchanged { epoch } => *epoch,
        }
    }

    fn body_len(&self) -> usize {
        match self {
            Self::Map(map) => map.encoded_len(),
            Self::Difference(difference) => difference.encoded_len(),
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
    fn of_a_known_map_only_what_has_changed_is_sent() {
        let known = ClusterMap::even(map(9).nodes().to_vec(), 2, 8).unwrap();
        let mut partitions = known.partitions().to_vec();
        partitions[1].epoch += 1;
        partitions[1].primary = None;
        let newer = ClusterMap::new(9, known.nodes().to_vec(), partitions).unwrap();
        let reply = MapReply::since(&known, &newer, Map { known_epoch: 8 });
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("map difference"));
        let Ok(MapReply::Difference(difference)) = MapReply::decode(&message) else {
            panic!("it is a difference");
        };
        assert_eq!(difference.apply(&known), Ok(newer.clone()));
        let error = MapError::OtherBase { base: 8, epoch: 9 };
        assert_eq!(difference.apply(&newer), Err(error));
        check_cut(&message, MapReply::decode);

        // Another map than the server has kept, a newer one, or one that has nothing in common with its own.
        for (known, epoch) in [(&known, 7), (&newer, 9), (&newer, 10)] {
            let whole = MapReply::since(known, &newer, Map { known_epoch: epoch });
            assert_eq!(whole, MapReply::new(&newer, Map { known_epoch: epoch }));
        }
        let other = ClusterMap::new(8, vec![map(9).nodes()[0].clone()], vec![]).unwrap();
        let reply = MapReply::since(&other, &newer, Map { known_epoch: 8 });
        assert_eq!(reply, MapReply::Map(newer));
    }

    #[test]
    fn a_map_is_never_absent() {
        for name in ["map reply", "map difference", "map unchanged"] {
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

        #[test]
        fn hostile_differences_are_survived(message in hostile(documented("map difference"))) {
            if let Ok(MapReply::Difference(difference)) = MapReply::decode(&message)
                && let Ok(map) = difference.apply(&map(8))
            {
                let _ = map.owner_of(crate::slot::Slot::of(&message));
            }
        }
    }
}
