//! Compare-and-set: make a value the object of a key if the one that is there is as expected.

use weft_protocol::{CompareAndSet, CompareAndSetReply, Key, Slot, Value, Version};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Compared;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskCompareAndSet<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) expected: Version,
    pub(crate) value: Value<'a>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskCompareAndSet<'_> {
    type Answer = Compared;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, expected, value, expires_at_ms } = self;
        CompareAndSet { target: target(heading, key), expires_at_ms, expected, value }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Compared, ClientError> {
        match CompareAndSetReply::decode(&reply) {
            Ok(CompareAndSetReply::Written { version }) => Ok(Compared::Written { version }),
            Ok(CompareAndSetReply::Conflict { version }) => Ok(Compared::Conflict { version }),
            Ok(CompareAndSetReply::Absent { version }) => Ok(Compared::Absent { version }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
