//! Get-and-put: make a value the object of a key, and get the one that it replaces.

use weft_protocol::{GetAndPut, Key, Slot, TableId, Value};
use weft_transport::{Body, Connection, Reply};

use crate::core::Ask;
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

    fn request(&self, table: TableId, map_epoch: u32) -> impl Body {
        let &Self { key, value, expires_at_ms } = self;
        GetAndPut { target: target(table, key, map_epoch), expires_at_ms, value }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Replaced, ClientError> {
        replaced(reply, from)
    }
}
