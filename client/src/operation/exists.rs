//! Exists: whether a key has an object, and of which version.

use weft_protocol::{Exists, ExistsReply, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Existence;
use crate::retry::Effect;

pub(crate) struct AskExists<'a> {
    pub(crate) key: Key<'a>,
}

impl Ask for AskExists<'_> {
    type Answer = Existence;
    const EFFECT: Effect = Effect::Read;

    #[inline]
    fn slot(&self) -> Slot {
        self.key.slot()
    }

    #[inline]
    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        Exists { table, map_epoch, key: self.key }
    }

    #[inline]
    fn answer(reply: Reply, from: &Connection) -> Result<Existence, ClientError> {
        match ExistsReply::decode(&reply) {
            Ok(ExistsReply { version, exists }) => Ok(Existence { version, exists }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
