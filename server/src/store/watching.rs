//! Who is told what happens to the objects of a partition.
//!
//! Events are told under the partition's lock, by the two functions that all changes go through and by those that empty a table, so
//! those of a key come in the order of its versions and none is missed. A partition that nobody watches pays for a look at a pointer a change; one that is watched, for a
//! search among the keys that are, and a comparison with each prefix.

use std::sync::Arc;

use weft_protocol::{Key, KeyChange, Slot, TableId, TableRemoval, Version, WatchEvent};

use super::feed::{Feed, Scope};
use super::partition::Partition;

/// The feeds of a partition.
#[derive(Debug)]
pub(super) struct Watchers {
    /// The first and the last slot of the partition.
    slots: (Slot, Slot),
    /// Of keys, by table and key.
    keys: Vec<Arc<Feed>>,
    prefixes: Vec<Arc<Feed>>,
}

impl Partition {
    /// Has `feed` be told what happens from now on to what it is about, in this partition, which has the `slots` from the first to the
    /// second. Its table is there.
    pub fn watch(&mut self, feed: &Arc<Feed>, slots: (Slot, Slot)) {
        let watchers = self.watchers.get_or_insert_with(|| Box::new(Watchers::new(slots)));
        match feed.scope {
            Scope::Key => {
                let at = watchers.first_of(feed.table, &feed.bytes);
                watchers.keys.insert(at, Arc::clone(feed));
            }
            Scope::Prefix => watchers.prefixes.push(Arc::clone(feed)),
        }
        feed.joined();
    }

    /// Tells `feed` nothing more, if it was told something.
    pub fn unwatch(&mut self, feed: &Arc<Feed>) {
        self.leave(|other| Arc::ptr_eq(other, feed));
    }

    /// Says that a table was emptied, or dropped; then nothing is told of it any more.
    pub(super) fn tell_of_table(&mut self, table: TableId, change: TableRemoval) {
        let Some(watchers) = &self.watchers else { return };
        let (first_slot, last_slot) = watchers.slots;
        let version = self.version;
        let event = WatchEvent::Table { first_slot, last_slot, change, version };
        let of_table = |feed: &&Arc<Feed>| feed.table == table;
        watchers
            .keys
            .iter()
            .chain(&watchers.prefixes)
            .filter(of_table)
            .for_each(|feed| feed.tell(&event));
        match change {
            TableRemoval::Truncated => {}
            TableRemoval::Dropped => self.leave(|feed| feed.table == table),
        }
    }

    /// Says to all who watch that another node knows what happens here from now on.
    pub(super) fn tell_of_move(&mut self) {
        let Some(watchers) = self.watchers.take() else { return };
        watchers.keys.iter().chain(&watchers.prefixes).for_each(|feed| feed.moved());
    }

    /// Lets go of the feeds that `leaves` says.
    fn leave(&mut self, leaves: impl Fn(&Arc<Feed>) -> bool) {
        let Some(watchers) = &mut self.watchers else { return };
        let stays = |feed: &Arc<Feed>| {
            let leaves = leaves(feed);
            if leaves {
                feed.left();
            }
            !leaves
        };
        watchers.keys.retain(stays);
        watchers.prefixes.retain(stays);
        if watchers.keys.is_empty() && watchers.prefixes.is_empty() {
            self.watchers = None;
        }
    }
}

impl Watchers {
    fn new(slots: (Slot, Slot)) -> Watchers {
        Watchers { slots, keys: Vec::new(), prefixes: Vec::new() }
    }

    /// Says what happened to a key.
    #[cold]
    pub(super) fn tell(&self, table: TableId, key: &[u8], change: KeyChange, version: Version) {
        let at = self.first_of(table, key);
        let of_key = self.keys[at..].iter().take_while(|feed| is_of(feed, table, key));
        let begins = |feed: &&Arc<Feed>| feed.table == table && key.starts_with(&feed.bytes);
        let key = Key::new(key).expect("an object's key is no longer than a key may be");
        let event = WatchEvent::Key { key, change, version };
        of_key.chain(self.prefixes.iter().filter(begins)).for_each(|feed| feed.tell(&event));
    }

    /// Where among the keys those that are this one begin.
    fn first_of(&self, table: TableId, key: &[u8]) -> usize {
        self.keys.partition_point(|feed| (feed.table, &*feed.bytes) < (table, key))
    }
}

fn is_of(feed: &Feed, table: TableId, key: &[u8]) -> bool {
    feed.table == table && *feed.bytes == *key
}
