//! Put: make a value the object of a key.

use weft_protocol::{Key, Put, PutReply, Slot, Value, Version};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
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
    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, value, expires_at_ms } = self;
        Put { target: target(heading, key), expires_at_ms, value }
    }

    #[inline]
    fn answer(reply: Reply, from: &Connection) -> Result<Version, ClientError> {
        match PutReply::decode(&reply) {
            Ok(reply) => Ok(reply.version),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
