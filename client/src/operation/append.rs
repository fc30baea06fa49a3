//! Append: add bytes to the end of a key's value.

use weft_protocol::{Append, AppendReply, Key, Slot, Value};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Appended;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskAppend<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) tail: Value<'a>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskAppend<'_> {
    type Answer = Appended;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, tail, expires_at_ms } = self;
        Append { target: target(heading, key), expires_at_ms, tail }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Appended, ClientError> {
        match AppendReply::decode(&reply) {
            Ok(AppendReply { version, value_len }) => Ok(Appended { version, value_len }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
