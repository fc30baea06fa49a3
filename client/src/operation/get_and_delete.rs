//! Get-and-delete: remove the object of a key, and get it.

use weft_protocol::{GetAndDelete, Key, Slot, TableId};
use weft_transport::{Body, Connection, Reply};

use crate::core::Ask;
use crate::error::ClientError;
use crate::object::Replaced;
use crate::operation::{replaced, target};
use crate::retry::Effect;

pub(crate) struct AskGetAndDelete<'a> {
    pub(crate) key: Key<'a>,
}

impl Ask for AskGetAndDelete<'_> {
    type Answer = Replaced;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, table: TableId, map_epoch: u32) -> impl Body {
        GetAndDelete { target: target(table, self.key, map_epoch) }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Replaced, ClientError> {
        replaced(reply, from)
    }
}
