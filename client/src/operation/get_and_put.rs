//! Get-and-put: make a value the object of a key, and get the one that it replaces.

use weft_protocol::{GetAndPut, Key, Slot, Value};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Replaced;
use crate::operation::{replaced, target};
use crate::retry::Effect;

pub(crate) struct AskGetAndPut<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) value: Value<'a>,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Ask for AskGetAndPut<'_> {
    type Answer = Replaced;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, value, expires_at_ms } = self;
        GetAndPut { target: target(heading, key), expires_at_ms, value }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Replaced, ClientError> {
        replaced(reply, from)
    }
}
