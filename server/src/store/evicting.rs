//! Which objects go when their table makes room for others.
//!
//! Nobody keeps all objects in the order of their use: each record says when it was used last, and what goes is chosen among a
//! sample, as Redis does it. Neighbours in the order of the index's hashes are such a sample. The place where they are taken from
//! wanders through that order, so that everything is looked at in the course of time, and nothing twice while something else was
//! never.

use std::cmp::Reverse;

use weft_protocol::{Eviction, KeyChange, TableId};

use super::address::Address;
use super::header::{LastUse, Record};
use super::partition::Partition;
use super::scanning::BUCKETS_TOGETHER;

/// A choice is made among so many objects, if they are within reach.
const SAMPLE_MIN: usize = 32;
/// One of so many goes, rounded up.
const SAMPLE_SHARE: usize = 8;

/// What a step of eviction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Objects that were there, and are not any more.
    pub objects: u64,
    /// Bytes of the records that went, those of objects included that had expired.
    pub bytes: u64,
    /// Whether there is nothing that could go.
    pub is_exhausted: bool,
}

/// How much an object is worth keeping: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It expires by itself, then (milliseconds of Unix time).
    Expires(u64),
    /// It has not been used for so long.
    Idle(Reverse<u32>),
}

impl Partition {
    /// Removes some of the objects that are least worth keeping, among those of a table or of all tables whose options allow it. Looks at
    /// about `buckets_max` buckets of the index, so that nothing may have been met though there is something.
    pub fn evict(&mut self, of: Option<TableId>, buckets_max: usize, now_ms: u64) -> Evicted {
        let mut evicted = Evicted::default();
        // On a replica that is for its primary to say.
        if self.tables.evictable(of) == 0 || self.follows || self.is_learning() {
            evicted.is_exhausted = true;
            return evicted;
        }
        let now = LastUse::at(now_ms);
        let (mut entries, mut sample) = (Vec::new(), Vec::with_capacity(2 * SAMPLE_MIN));
        let mut buckets = 0;
        while buckets < buckets_max && sample.len() < SAMPLE_MIN && evicted.bytes == 0 {
            entries.clear();
            let next = self.collect(Some(self.evict_at), &mut entries);
            for &(_, address) in &entries {
                let record = self.log.record(address);
                if self.is_gone(&record, now_ms) {
                    evicted.bytes += record.len() as u64;
                    self.remove_gone(self.slot_at(address), address);
                } else if let Some(worth) = self.worth(&record, of, now) {
                    sample.push((worth, address));
                }
            }
            self.evict_at = next.unwrap_or(0);
            buckets += BUCKETS_TOGETHER;
            // From the beginning on, the same ones would be met again.
            if next.is_none() {
                break;
            }
        }
        // What had expired has made room already.
        if evicted.bytes > 0 {
            return evicted;
        }
        sample.sort_unstable_by_key(|(worth, _)| *worth);
        sample.truncate(sample.len().div_ceil(SAMPLE_SHARE));
        for (_, address) in sample {
            let record = self.log.record(address);
            let (len, mut version) = (record.len() as u64, record.version());
            if self.is_recording() {
                // Replicas have to be told, and each entry has a version of its own.
                let Ok(next) = self.next_version() else { break };
                (version, self.version) = (next, next);
            }
            evicted.objects += 1;
            evicted.bytes += len;
            self.remove(self.slot_at(address), address, KeyChange::Evicted, version);
        }
        evicted
    }

    /// What an object is worth, if it may go.
    fn worth(&self, record: &Record<'_>, of: Option<TableId>, now: LastUse) -> Option<Worth> {
        let table = record.table();
        if of.is_some_and(|of| of != table) {
            return None;
        }
        let idle = Worth::Idle(Reverse(record.last_use().idle_by(now)));
        match self.tables.get(table)?.eviction {
            Eviction::None => None,
            Eviction::LeastRecentlyUsed => Some(idle),
            Eviction::SoonestExpiry => Some(record.expiry_ms().map_or(idle, Worth::Expires)),
        }
    }

    /// Notes that an object is being used.
    #[inline]
    pub(super) fn touch(&mut self, address: Address, now: LastUse) {
        // Many uses fall into one unit of the time, and then nothing is written.
        if self.log.record(address).last_use() != now {
            self.log.touch(address, now);
        }
    }
}
