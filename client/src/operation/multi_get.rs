//! Multi-get: the objects of many keys.

use std::marker::PhantomData;

use weft_protocol::{GetReply, Item, Key, Keys, MultiGet, MultiGetPart, ReplyError, Slot};
use weft_transport::{Body, Reply};

use crate::core::Heading;
use crate::multi::{Answered, AskMany};
use crate::object::{Lookup, Object};
use crate::retry::Effect;

pub(crate) struct AskMultiGet<'a>(PhantomData<&'a ()>);

impl<'a> AskMany for AskMultiGet<'a> {
    type Element = Key<'a>;
    type Answer = Lookup;
    const EFFECT: Effect = Effect::Read;

    fn slot(key: &Key<'a>) -> Slot {
        key.slot()
    }

    fn request(keys: &[Key<'a>], heading: Heading) -> (impl Body, usize) {
        let Heading { table, map_epoch, .. } = heading;
        let (keys, _) = Keys::fitting(keys);
        (MultiGet { table, map_epoch, keys }, keys.len())
    }

    fn answers<'r>(
        part: &'r Reply,
        mut take: impl FnMut(Answered<'r, Lookup>),
    ) -> Result<(), ReplyError<'r>> {
        for Item { index, outcome, value_range } in MultiGetPart::decode(part)?.items() {
            take(Answered::new(index, outcome, |answer| match answer {
                GetReply::Found { version, .. } => {
                    Lookup::Found(Object::new(part.clone().slice(value_range), version))
                }
                GetReply::Absent { version } => Lookup::Absent { version },
            }));
        }
        Ok(())
    }
}
