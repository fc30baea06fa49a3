//! Range: a page of what one node has of a range.

use std::ops::Bound;

use weft_protocol::{Key, Range, ScanReply, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::operation::scan::{Page, page_of};
use crate::retry::Effect;

pub(crate) struct AskRange<'a> {
    /// One of the node's.
    pub(crate) slot: Slot,
    pub(crate) lower: Bound<Key<'a>>,
    pub(crate) upper: Bound<Key<'a>>,
    pub(crate) descending: bool,
    pub(crate) objects_max: u32,
    pub(crate) with_values: bool,
}

impl Ask for AskRange<'_> {
    /// The page, and the epoch of the map by which the node has this part of the range.
    type Answer = (Page, u64);
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.slot
    }

    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        let &Self { slot, lower, upper, descending, objects_max, with_values } = self;
        Range { table, map_epoch, lower, upper, descending, objects_max, with_values, slot }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<(Page, u64), ClientError> {
        let page = ScanReply::decode(&reply).map_err(|error| ClientError::of_reply(from, error))?;
        let map_epoch = page.version.0;
        Ok((page_of(&page, &reply), map_epoch))
    }
}
