//! Multi-delete: remove the objects of many keys.

use std::marker::PhantomData;

use weft_protocol::{DeleteReply, Item, Key, Keys, MultiDelete, MultiDeletePart, ReplyError, Slot};
use weft_transport::{Body, Reply};

use crate::core::Heading;
use crate::multi::{Answered, AskMany};
use crate::object::Deleted;
use crate::retry::Effect;

pub(crate) struct AskMultiDelete<'a>(PhantomData<&'a ()>);

impl<'a> AskMany for AskMultiDelete<'a> {
    type Element = Key<'a>;
    type Answer = Deleted;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(key: &Key<'a>) -> Slot {
        key.slot()
    }

    fn request(keys: &[Key<'a>], heading: Heading) -> (impl Body, usize) {
        let Heading { table, map_epoch, completion } = heading;
        let (keys, _) = Keys::fitting(keys);
        (MultiDelete { table, map_epoch, completion, keys }, keys.len())
    }

    fn answers<'r>(
        part: &'r Reply,
        mut take: impl FnMut(Answered<'r, Deleted>),
    ) -> Result<(), ReplyError<'r>> {
        for Item { index, outcome, .. } in MultiDeletePart::decode(part)?.items() {
            take(Answered::new(index, outcome, |DeleteReply { version, existed }| Deleted {
                version,
                existed,
            }));
        }
        Ok(())
    }
}
