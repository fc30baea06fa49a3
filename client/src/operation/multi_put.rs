//! Multi-put: write the objects of many keys.

use std::marker::PhantomData;

use weft_protocol::{Item, MultiPut, MultiPutPart, Pair, Pairs, ReplyError, Slot, Version};
use weft_transport::{Body, Reply};

use crate::core::Heading;
use crate::multi::{Answered, AskMany};
use crate::retry::Effect;

pub(crate) struct AskMultiPut<'a>(PhantomData<&'a ()>);

impl<'a> AskMany for AskMultiPut<'a> {
    type Element = Pair<'a>;
    type Answer = Version;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(pair: &Pair<'a>) -> Slot {
        pair.key.slot()
    }

    fn request(pairs: &[Pair<'a>], heading: Heading) -> (impl Body, usize) {
        let Heading { table, map_epoch, completion } = heading;
        let (pairs, _) = Pairs::fitting(pairs);
        (MultiPut { table, map_epoch, completion, pairs }, pairs.len())
    }

    fn answers<'r>(
        part: &'r Reply,
        mut take: impl FnMut(Answered<'r, Version>),
    ) -> Result<(), ReplyError<'r>> {
        for Item { index, outcome, .. } in MultiPutPart::decode(part)?.items() {
            take(Answered::new(index, outcome, |answer| answer.version));
        }
        Ok(())
    }
}
