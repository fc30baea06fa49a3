//! Watch: have the owner of a key, or a node that owns some with a prefix, tell what happens.

use weft_protocol::{Slot, Version, Watch, WatchReply, Watched};
use weft_transport::{Body, Connection, NodeId, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::retry::Effect;

pub(crate) struct AskWatch<'a> {
    /// Of the key, or one of the node's.
    pub(crate) slot: Slot,
    pub(crate) watched: Watched<'a>,
    pub(crate) queue_bytes: u32,
}

/// A watch at one node.
pub(crate) struct Opened {
    pub(crate) node: NodeId,
    pub(crate) id: u64,
    pub(crate) version: Version,
    pub(crate) exists: bool,
}

impl Ask for AskWatch<'_> {
    type Answer = Opened;
    /// One whose answer is lost ends by itself.
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.slot
    }

    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        let &Self { watched, queue_bytes, .. } = self;
        Watch { table, map_epoch, watched, queue_bytes }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Opened, ClientError> {
        let reply = WatchReply::decode(&reply);
        let WatchReply { id, version, exists, .. } =
            reply.map_err(|error| ClientError::of_reply(from, error))?;
        Ok(Opened { node: from.peer().node, id, version, exists })
    }
}
