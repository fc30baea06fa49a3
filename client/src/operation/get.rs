//! Get: the object of one key.

use weft_protocol::{Get, GetReply, Key, ReplyHead, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::{Lookup, Object};
use crate::retry::Effect;

pub(crate) struct AskGet<'a> {
    pub(crate) key: Key<'a>,
}

impl Ask for AskGet<'_> {
    type Answer = Lookup;
    const EFFECT: Effect = Effect::Read;

    #[inline]
    fn slot(&self) -> Slot {
        self.key.slot()
    }

    #[inline]
    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        Get { table, map_epoch, key: self.key }
    }

    #[inline]
    fn answer(reply: Reply, from: &Connection) -> Result<Lookup, ClientError> {
        let version = match GetReply::decode(&reply) {
            Ok(GetReply::Found { version, .. }) => version,
            Ok(GetReply::Absent { version }) => return Ok(Lookup::Absent { version }),
            Err(error) => return Err(ClientError::of_reply(from, error)),
        };
        let message_len = reply.len();
        Ok(Lookup::Found(Object::new(reply.slice(ReplyHead::LEN..message_len), version)))
    }
}
