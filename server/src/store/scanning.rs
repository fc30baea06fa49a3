//! All objects of a table, a page at a time, while others write.
//!
//! The order is that of the index's hashes, which no write changes (`index/walk.rs`): an object that is there
//! from the first page to the last is met once, whatever else comes and goes. Nothing is kept between two pages.

use weft_protocol::{TableId, Version};

use super::partition::Partition;

/// Buckets that are looked at together: their lines, and then their records, are waited for at the same time.
const BUCKETS_TOGETHER: usize = 8;

/// An object that a scan has met.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// Where in the order it comes. Several may share a position.
    pub position: u32,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Its version.
    pub version: Version,
    /// When it expires, in milliseconds of Unix time.
    pub expiry_ms: Option<u64>,
}

impl Partition {
    /// Shows the live objects of `table` at `position` and after it to `visit`, until that says `false`, or
    /// about `buckets_max` buckets of the index have been looked at. Returns the position to go on from: that
    /// of the object that was not wanted, so that those which share it come again; `None` when that was all.
    pub fn scan(
        &self,
        table: TableId,
        position: u32,
        buckets_max: usize,
        now_ms: u64,
        mut visit: impl FnMut(Scanned<'_>) -> bool,
    ) -> Option<u32> {
        let mut entries = Vec::with_capacity(16 * BUCKETS_TOGETHER);
        let mut next = Some(position);
        for _ in 0..buckets_max.div_ceil(BUCKETS_TOGETHER) {
            let mut ahead = next;
            for _ in 0..BUCKETS_TOGETHER {
                let Some(position) = ahead else { break };
                self.index.prefetch_position(position);
                ahead = self.index.bucket_end(position);
            }
            entries.clear();
            for _ in 0..BUCKETS_TOGETHER {
                let Some(position) = next else { break };
                self.index.collect_from(position, &mut entries);
                next = self.index.bucket_end(position);
            }
            entries.iter().for_each(|(_, address)| self.log.prefetch(*address));
            for &(position, address) in &entries {
                let record = self.log.record(address);
                if record.table() != table || record.is_expired(now_ms) {
                    continue;
                }
                let (key, value) = (record.key(), record.value());
                let (version, expiry_ms) = (record.version(), record.expiry_ms());
                if !visit(Scanned { position, key, value, version, expiry_ms }) {
                    return Some(position);
                }
            }
            next?;
        }
        next
    }

    /// Tells the life of this partition, within which a scan's positions mean the same, from others.
    pub fn scan_stamp(&self) -> u32 {
        self.index.stamp()
    }
}
