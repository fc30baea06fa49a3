//! Delete: remove the object of a key.

use weft_protocol::{Delete, DeleteReply, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Deleted;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskDelete<'a> {
    pub(crate) key: Key<'a>,
}

impl Ask for AskDelete<'_> {
    type Answer = Deleted;
    const EFFECT: Effect = Effect::Mutation;

    #[inline]
    fn slot(&self) -> Slot {
        self.key.slot()
    }

    #[inline]
    fn request(&self, heading: Heading) -> impl Body {
        Delete { target: target(heading, self.key) }
    }

    #[inline]
    fn answer(reply: Reply, from: &Connection) -> Result<Deleted, ClientError> {
        match DeleteReply::decode(&reply) {
            Ok(DeleteReply { version, existed }) => Ok(Deleted { version, existed }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
