//! Put-fields: change some fields of a key's record.

use weft_protocol::{FieldChange, Key, List, PutFields, PutReply, Slot, Version};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskPutFields<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) changes: List<'a, FieldChange<'a>>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskPutFields<'_> {
    type Answer = Version;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, changes, expires_at_ms } = self;
        PutFields { target: target(heading, key), expires_at_ms, changes }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Version, ClientError> {
        match PutReply::decode(&reply) {
            Ok(reply) => Ok(reply.version),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
