//! Scan: a page of the objects of a partition.

use weft_protocol::{Key, Scan, ScanObject, ScanReply, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::object::Object;
use crate::retry::Effect;
use crate::scan::Scanned;

pub(crate) struct AskScan<'a> {
    pub(crate) slot: Slot,
    pub(crate) cursor: u64,
    pub(crate) key_prefix: Key<'a>,
    pub(crate) objects_max: u32,
    pub(crate) with_values: bool,
}

/// A page, and where the scan goes on.
pub(crate) struct Page {
    pub(crate) objects: Vec<Scanned>,
    /// 0 if the partition has no more.
    pub(crate) cursor: u64,
    pub(crate) last_slot: Slot,
}

impl Ask for AskScan<'_> {
    type Answer = Page;
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.slot
    }

    fn request(&self, heading: Heading) -> impl Body {
        let Heading { table, map_epoch, .. } = heading;
        let &Self { slot, cursor, key_prefix, objects_max, with_values } = self;
        Scan { table, map_epoch, key_prefix, objects_max, with_values, slot, cursor }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<Page, ClientError> {
        let page = ScanReply::decode(&reply).map_err(|error| ClientError::of_reply(from, error))?;
        Ok(page_of(&page, &reply))
    }
}

/// The page that a reply is.
pub(crate) fn page_of(page: &ScanReply<'_>, reply: &Reply) -> Page {
    let scanned = |object: ScanObject<'_>| {
        let ScanObject { key, version, expires_at_ms, value_len, value_range } = object;
        let value = value_range.map(|range| Object::new(reply.clone().slice(range), version));
        Scanned { key: key.to_vec(), version, expires_at_ms, value_len: value_len.into(), value }
    };
    let objects = page.objects().map(scanned).collect();
    Page { objects, cursor: page.cursor, last_slot: page.last_slot }
}
