//! Get-fields: some fields of a key's record.

use weft_protocol::{FieldsReply, GetFields, Key, Keys, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::{Fields, FieldsLookup};
use crate::retry::Effect;

pub(crate) struct AskGetFields<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) names: Keys<'a>,
}

impl Ask for AskGetFields<'_> {
    type Answer = FieldsLookup;
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        let &Self { key, names } = self;
        GetFields { table, map_epoch, key, names }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<FieldsLookup, ClientError> {
        match FieldsReply::decode(&reply) {
            Ok(FieldsReply::Found { version, fields }) => {
                Ok(FieldsLookup::Found(Fields::new(reply, version, fields)))
            }
            Ok(FieldsReply::Absent { version }) => Ok(FieldsLookup::Absent { version }),
            Err(error) => Err(ClientError::of_reply(from, error)),
        }
    }
}
