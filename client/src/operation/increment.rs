//! Increment: add to the number that a key holds.

use weft_protocol::{Increment, IncrementReply, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Incremented;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskIncrement<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) delta: i64,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskIncrement<'_> {
    type Answer = Incremented;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, delta, expires_at_ms } = self;
        Increment { target: target(heading, key), expires_at_ms, delta }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Incremented, ClientError> {
        match IncrementReply::decode(&reply) {
            Ok(IncrementReply { version, number }) => Ok(Incremented { version, number }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
