//! Expire: change when the object of a key ceases to be.

use weft_protocol::{Expire, ExpireReply, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Existence;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskExpire<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskExpire<'_> {
    type Answer = Existence;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, expires_at_ms } = self;
        Expire { target: target(heading, key), expires_at_ms }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Existence, ClientError> {
        match ExpireReply::decode(&reply) {
            Ok(ExpireReply { version, exists }) => Ok(Existence { version, exists }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
