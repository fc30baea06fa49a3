//! Objects of a table one after the other: all of them, a page at a time, while others write; those within bounds of an ordered
//! one; and those that are to be swept away.
//!
//! The order is that of the index's hashes, which no write changes (`index/walk.rs`): an object that is there
//! from the first page to the last is met once, whatever else comes and goes. Nothing is kept between two pages.

use std::ops::Bound;

use arrayvec::ArrayVec;
use weft_protocol::{TableId, Version};

use super::address::Address;
use super::index::Slot;
use super::partition::Partition;

/// Buckets that are looked at together: their lines, and then their records, are waited for at the same time.
pub(super) const BUCKETS_TOGETHER: usize = 8;
/// Records of a range that are waited for at the same time: most partitions show few of a short one.
const RECORDS_TOGETHER: usize = 4;

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

/// An object that a range has met.
#[derive(Clone, Copy, Debug)]
pub struct Ranged<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Its version.
    pub version: Version,
    /// When it expires, in milliseconds of Unix time.
    pub expiry_ms: Option<u64>,
}

/// The table keeps its keys in no order, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOrdered;

/// What a step of sweeping did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Whether the index was swept to its end; the next step begins at its beginning.
    pub is_end: bool,
    /// Objects that were removed.
    pub removed: u64,
}

/// What there is to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweepable {
    /// Objects of tables that were truncated or dropped.
    pub buried: u64,
    /// Objects that expire some time, or have.
    pub expiring: u64,
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
            entries.clear();
            next = self.collect(next, &mut entries);
            for &(position, address) in &entries {
                let record = self.log.record(address);
                if record.table() != table || self.is_gone(&record, now_ms) {
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

    /// Shows the objects of an ordered table whose keys are within bounds to `visit`, in the order of the keys or the other
    /// way round, until that says `false`.
    ///
    /// # Errors
    /// When the table keeps no order, or there is none.
    pub fn range(
        &self,
        table: TableId,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        descending: bool,
        now_ms: u64,
        mut visit: impl FnMut(Ranged<'_>) -> bool,
    ) -> Result<(), NotOrdered> {
        let state = self.tables.get(table).and_then(|table| table.ordered.as_ref());
        let ordered = state.ok_or(NotOrdered)?;
        let addresses = ordered.range(lower, upper, |address| self.log.record(address).key());
        let mut show = |address| {
            let record = self.log.record(address);
            let (key, value) = (record.key(), record.value());
            let (version, expiry_ms) = (record.version(), record.expiry_ms());
            record.is_expired(now_ms) || visit(Ranged { key, value, version, expiry_ms })
        };
        // What was truncated is not in order any more.
        match descending {
            false => self.show_ahead(addresses, &mut show),
            true => self.show_ahead(addresses.rev(), &mut show),
        }
        Ok(())
    }

    /// Has `show` look at records until it says `false`, a few of them on the way into the cache at a time.
    fn show_ahead(
        &self,
        mut addresses: impl Iterator<Item = Address>,
        mut show: impl FnMut(Address) -> bool,
    ) {
        loop {
            let ahead: ArrayVec<Address, RECORDS_TOGETHER> =
                addresses.by_ref().take(RECORDS_TOGETHER).collect();
            ahead.iter().for_each(|address| self.log.prefetch(*address, 0));
            if ahead.is_empty() || !ahead.into_iter().all(&mut show) {
                return;
            }
        }
    }

    /// Removes what is of no object any more in about `buckets_max` buckets of the index, the next ones. Returns whether
    /// these were the last, and how many objects were removed.
    pub fn sweep(&mut self, buckets_max: usize, now_ms: u64) -> Swept {
        let mut entries = Vec::with_capacity(16 * BUCKETS_TOGETHER);
        let mut removed = 0;
        for _ in 0..buckets_max.div_ceil(BUCKETS_TOGETHER) {
            entries.clear();
            let next = self.collect(Some(self.sweep_at), &mut entries);
            for &(_, address) in &entries {
                let record = self.log.record(address);
                if self.is_removable(&record, now_ms) {
                    self.remove_gone(self.slot_at(address), address);
                    removed += 1;
                }
            }
            self.sweep_at = next.unwrap_or(0);
            if next.is_none() {
                return Swept { is_end: true, removed };
            }
        }
        Swept { is_end: false, removed }
    }

    /// Whether there is something to sweep: objects of tables that were truncated or dropped, or that expire some time.
    pub fn sweepable(&self) -> Sweepable {
        Sweepable { buried: self.tables.buried, expiring: self.tables.expiring }
    }

    /// Adds the entries of the next few buckets from `next` on, all of them on the way into the cache with their records.
    /// Returns where the ones behind begin.
    pub(super) fn collect(
        &self,
        mut next: Option<u32>,
        entries: &mut Vec<(u32, Address)>,
    ) -> Option<u32> {
        let mut ahead = next;
        for _ in 0..BUCKETS_TOGETHER {
            let Some(position) = ahead else { break };
            self.index.prefetch_position(position);
            ahead = self.index.bucket_end(position);
        }
        for _ in 0..BUCKETS_TOGETHER {
            let Some(position) = next else { break };
            self.index.collect_from(position, entries);
            next = self.index.bucket_end(position);
        }
        entries.iter().for_each(|(_, address)| self.log.prefetch(*address, 0));
        next
    }

    /// Where the index leads to the live record at `address`.
    pub(super) fn slot_at(&self, address: Address) -> Slot {
        let record = self.log.record(address);
        let tag = self.index.tag(record.table(), record.key());
        let found = self.index.find(tag, |found| found == address);
        found.expect("the index leads to every live record").0
    }

    /// Tells the life of this partition, within which a scan's positions mean the same, from others.
    pub fn scan_stamp(&self) -> u32 {
        self.index.stamp()
    }
}
