//! Get-and-delete: remove the object of a key, and get it.

use weft_protocol::{GetAndDelete, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
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

    fn request(&self, heading: Heading) -> impl Body {
        GetAndDelete { target: target(heading, self.key) }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Replaced, ClientError> {
        replaced(reply, from)
    }
}
