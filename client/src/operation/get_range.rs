//! Get-range: some bytes of a key's value.

use weft_protocol::{GetRange, GetRangeReply, Key, NumberedHead, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::{Object, RangeLookup};
use crate::retry::Effect;

pub(crate) struct AskGetRange<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) offset: u64,
    pub(crate) len_max: u32,
}

impl Ask for AskGetRange<'_> {
    type Answer = RangeLookup;
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        let &Self { key, offset, len_max } = self;
        GetRange { table, map_epoch, key, offset, len_max }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<RangeLookup, ClientError> {
        let (version, value_len) = match GetRangeReply::decode(&reply) {
            Ok(GetRangeReply::Found { version, value_len, .. }) => (version, value_len),
            Ok(GetRangeReply::Absent { version }) => return Ok(RangeLookup::Absent { version }),
            Err(error) => return Err(ClientError::of_reply(from, error)),
        };
        let message_len = reply.len();
        let bytes = Object::new(reply.slice(NumberedHead::LEN..message_len), version);
        Ok(RangeLookup::Found { bytes, value_len })
    }
}
