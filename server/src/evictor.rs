//! Who evicts objects, and when: whoever writes to a table that has reached its quota, or finds that memory is short and that
//! segments are too full to be emptied for it.
//!
//! Partitions take turns, so that all of them have the same share of what a table keeps. One is locked for a step of some hundred
//! buckets at most.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weft_protocol::{Catalog, Eviction, TableId};

use crate::limits::SCAN_BUCKETS_MAX;
use crate::partitions::Partitions;
use crate::store::Evicted;

/// The part of a quota that is freed at a time, beside what is needed: of a table that is a small part of what a node holds, few
/// objects are met for many that are looked at.
const QUOTA_SHARE: u64 = 256;

/// What evicts objects.
#[derive(Debug, Default)]
pub(crate) struct Evictor {
    /// Whether there is a table that allows it.
    is_allowed: AtomicBool,
    /// Whose turn it is, modulo the number of partitions.
    turn: AtomicUsize,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Evictor {
    /// Notes which tables there are.
    pub(crate) fn take_note(&self, catalog: &Catalog) {
        let others = catalog.tables().iter().map(|table| table.options);
        let mut tables = std::iter::once(catalog.default_options()).chain(others);
        let is_allowed = tables.any(|options| options.eviction != Eviction::None);
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Whether there is a table that allows it.
    #[inline]
    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed.load(Ordering::Relaxed)
    }

    /// Objects that were evicted so far.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Bytes of their records.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes room for `needed_bytes` in a table that has reached its quota on this node, of `limit_bytes`. Returns whether
    /// there is more than before. The caller may hold no partition's lock.
    pub(crate) fn make_room_in(
        &self,
        partitions: &Partitions,
        table: TableId,
        (needed_bytes, limit_bytes): (u64, u64),
        now_ms: u64,
    ) -> bool {
        // What would not fit an empty table is no reason to empty it.
        let bytes = needed_bytes + limit_bytes / QUOTA_SHARE;
        needed_bytes <= limit_bytes && self.evict(partitions, Some(table), bytes, now_ms) > 0
    }

    /// Evicts objects of one table, or of all that allow it, until `bytes` of their records have gone or there are none. Returns how many
    /// bytes that were. The caller may hold no partition's lock.
    pub(crate) fn evict(
        &self,
        partitions: &Partitions,
        of: Option<TableId>,
        bytes: u64,
        now_ms: u64,
    ) -> u64 {
        let (mut gone_bytes, mut exhausted) = (0, 0);
        if !self.is_allowed() {
            return 0;
        }
        while gone_bytes < bytes && exhausted < partitions.len() {
            let position = self.turn.fetch_add(1, Ordering::Relaxed) % partitions.len();
            let mut hosted = partitions.host(position as u16);
            let evicted = hosted.partition.evict(of, SCAN_BUCKETS_MAX, now_ms);
            // They go on their way with what is written there next, or with the next heartbeat.
            hosted.record();
            drop(hosted);
            let Evicted { objects, bytes, is_exhausted } = evicted;
            self.objects.fetch_add(objects, Ordering::Relaxed);
            self.bytes.fetch_add(if objects > 0 { bytes } else { 0 }, Ordering::Relaxed);
            gone_bytes += bytes;
            exhausted = if is_exhausted { exhausted + 1 } else { 0 };
        }
        gone_bytes
    }
}
