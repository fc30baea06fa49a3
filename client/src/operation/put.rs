//! Put: make a value the object of a key.

use weft_protocol::{Key, Put, PutReply, Slot, TableId, Value, Version};
use weft_transport::{Body, Connection, Reply};

use crate::core::Ask;
use crate::error::ClientError;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskPut<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) value: Value<'a>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskPut<'_> {
    type Answer = Version;
    const EFFECT: Effect = Effect::Mutation;

    #[inline]
    fn slot(&self) -> Slot {
        self.key.slot()
    }

    #[inline]
    fn request(&self, table: TableId, map_epoch: u32) -> impl Body {
        let &Self { key, value, expires_at_ms } = self;
        Put { target: target(table, key, map_epoch), expires_at_ms, value }
    }

    #[inline]
    fn answer(reply: Reply, from: &Connection) -> Result<Version, ClientError> {
        match PutReply::decode(&reply) {
            Ok(reply) => Ok(reply.version),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
