//! What a partition knows of its tables: how much each holds, how much it may, and its keys in their order if it is ordered.
//!
//! Truncating and dropping a table walk nothing: what was written up to then is absent from one moment to the next, since its version
//! is not above the table's [`Grave`]. The objects go when they are met, or when the partition is swept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_protocol::{Eviction, TableId, Version};
use weft_transport::Memory;

use super::error::StoreError;
use super::header::Record;
use super::ordered::Ordered;

/// By how many tables the room for them grows, in each partition.
const TABLES_STEP: usize = 8;

/// What the objects of a table may take in all partitions of a node.
#[derive(Debug)]
pub struct Quota {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

/// What a table starts from.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// Its number.
    pub id: TableId,
    /// Whether its keys are kept in order.
    pub ordered: bool,
    /// What it may take.
    pub quota: Option<Arc<Quota>>,
    /// What makes room in it.
    pub eviction: Eviction,
}

/// How much room there is in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// What its quota says.
    Quota,
    /// As much as is needed: whoever leads the partition has looked at the quota.
    Any,
}

/// What a partition holds of a table.
#[derive(Debug)]
pub(super) struct Table {
    id: TableId,
    /// Objects, expired ones that nobody met included.
    pub(super) objects: u64,
    /// Bytes of their records.
    pub(super) bytes: u64,
    pub(super) ordered: Option<Ordered>,
    quota: Option<Arc<Quota>>,
    pub(super) eviction: Eviction,
}

/// The tables of a partition.
#[derive(Debug)]
pub(super) struct Tables {
    memory: Memory,
    /// The one that is always there.
    default: Table,
    /// The others, by number.
    others: Vec<Table>,
    /// Of tables that are not there, for when they are created by a primary.
    pub(super) quotas: BTreeMap<TableId, Arc<Quota>>,
    /// Of tables that were truncated or dropped, as long as some of their objects are in the index.
    graves: Vec<Grave>,
    /// How many tables evict.
    evicting: usize,
    /// Objects that are in the index and in a grave.
    pub(super) buried: u64,
    /// Objects that have an expiry, those in graves included.
    pub(super) expiring: u64,
}

/// Objects of a table up to a version are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grave {
    table: TableId,
    last: Version,
}

impl Quota {
    /// Nothing is used of it.
    pub fn new(limit_bytes: u64) -> Quota {
        Quota { limit_bytes: AtomicU64::new(limit_bytes), used_bytes: AtomicU64::new(0) }
    }

    /// How many bytes there may be.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Lets there be another number of bytes from now on. There may be more already.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// How many bytes there are.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `new` bytes for `old` ones. Who takes no more is never refused.
    fn exchange(&self, old: u64, new: u64, room: Room) -> Result<(), StoreError> {
        let limit = self.limit_bytes();
        let exchanged = |used: u64| used - old + new;
        let taken = |used| {
            let used = exchanged(used);
            (new <= old || used <= limit || room == Room::Any).then_some(used)
        };
        let ordering = Ordering::Relaxed;
        match self.used_bytes.fetch_update(ordering, ordering, taken) {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::QuotaReached { limit }),
        }
    }
}

impl Table {
    fn new(config: TableConfig, memory: &Memory) -> Table {
        let ordered = config.ordered.then(|| Ordered::new(memory));
        let TableConfig { id, quota, eviction, .. } = config;
        Table { id, objects: 0, bytes: 0, ordered, quota, eviction }
    }

    pub(super) fn id(&self) -> TableId {
        self.id
    }

    /// Whether its keys are kept in order.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Takes room for a record of `new` bytes in the place of one of `old` bytes, or of none.
    #[inline]
    pub(super) fn reserve(
        &self,
        old: Option<usize>,
        new: usize,
        room: Room,
    ) -> Result<(), StoreError> {
        match &self.quota {
            None => Ok(()),
            Some(quota) => quota.exchange(old.unwrap_or(0) as u64, new as u64, room),
        }
    }

    /// Gives back what was reserved for a record that was not written.
    pub(super) fn unreserve(&self, old: Option<usize>, new: usize) {
        if let Some(quota) = &self.quota {
            // What it was before is no more than what it may be, or it had been no less before.
            let (old, new) = (old.unwrap_or(0) as u64, new as u64);
            quota.used_bytes.fetch_add(old, Ordering::Relaxed);
            quota.used_bytes.fetch_sub(new, Ordering::Relaxed);
        }
    }

    /// Notes that a record of `new` bytes, for which room was taken, is there in the place of one of `old` bytes, or of none.
    #[inline]
    pub(super) fn written(&mut self, old: Option<usize>, new: usize) {
        match old {
            Some(old) => self.bytes -= old as u64,
            None => self.objects += 1,
        }
        self.bytes += new as u64;
    }

    /// Notes that a record of `len` bytes is gone.
    pub(super) fn removed(&mut self, len: usize) {
        self.objects -= 1;
        self.bytes -= len as u64;
        self.unreserve(None, len);
    }

    /// Counts what it holds against another quota, or none.
    pub(super) fn take_quota(&mut self, quota: Option<Arc<Quota>>) {
        let of_table = |quota: &Option<Arc<Quota>>| quota.as_ref().map(Arc::as_ptr);
        if of_table(&self.quota) == of_table(&quota) {
            return;
        }
        if let Some(old) = &self.quota {
            old.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        if let Some(new) = &quota {
            new.used_bytes.fetch_add(self.bytes, Ordering::Relaxed);
        }
        self.quota = quota;
    }

    /// Forgets all that it holds. Returns how many objects that were.
    fn clear(&mut self) -> u64 {
        if let Some(ordered) = &mut self.ordered {
            ordered.clear();
        }
        if let Some(quota) = &self.quota {
            quota.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = 0;
        std::mem::take(&mut self.objects)
    }
}

/// The tables besides the one that is always there that a partition has room for when it has `count` of them.
const fn room_for(count: usize) -> usize {
    count.next_multiple_of(TABLES_STEP)
}

impl Tables {
    /// Heap memory that a partition takes for `count` tables besides the one that is always there, whatever is in them.
    pub(super) const fn bytes_of(count: usize) -> u64 {
        (room_for(count) * size_of::<Table>()) as u64
    }

    /// The table that is always there.
    pub(super) fn new(memory: Memory) -> Tables {
        let id = TableId::DEFAULT;
        let default = TableConfig { id, ordered: false, quota: None, eviction: Eviction::None };
        Tables {
            default: Table::new(default, &memory),
            memory,
            others: Vec::new(),
            quotas: BTreeMap::new(),
            graves: Vec::new(),
            evicting: 0,
            buried: 0,
            expiring: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, id: TableId) -> Option<&Table> {
        if id == TableId::DEFAULT {
            return Some(&self.default);
        }
        let position = self.others.binary_search_by_key(&id, |table| table.id).ok()?;
        Some(&self.others[position])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: TableId) -> Option<&mut Table> {
        if id == TableId::DEFAULT {
            return Some(&mut self.default);
        }
        let position = self.others.binary_search_by_key(&id, |table| table.id).ok()?;
        Some(&mut self.others[position])
    }

    /// All tables, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// Whether objects of a table may be evicted.
    #[inline]
    pub(super) fn evicts(&self, id: TableId) -> bool {
        self.evicting > 0 && self.get(id).is_some_and(|table| table.eviction != Eviction::None)
    }

    /// Objects that may be evicted: of one table, or of all.
    pub(super) fn evictable(&self, of: Option<TableId>) -> u64 {
        if self.evicting == 0 {
            return 0;
        }
        let is_of = |table: &&Table| of.is_none_or(|of| table.id == of);
        let evict = self.iter().filter(is_of).filter(|table| table.eviction != Eviction::None);
        evict.map(|table| table.objects).sum()
    }

    /// Adds a table, unless there is one of this number.
    pub(super) fn create(&mut self, config: TableConfig) {
        if config.id == TableId::DEFAULT {
            return;
        }
        if let Err(position) = self.others.binary_search_by_key(&config.id, |table| table.id) {
            self.evicting += usize::from(config.eviction != Eviction::None);
            if self.others.len() == self.others.capacity() {
                self.others.reserve_exact(TABLES_STEP);
            }
            self.others.insert(position, Table::new(config, &self.memory));
        }
    }

    /// Lets something else make room in a table.
    pub(super) fn set_eviction(&mut self, id: TableId, eviction: Eviction) {
        let Some(table) = self.get_mut(id) else { return };
        let was = usize::from(table.eviction != Eviction::None);
        table.eviction = eviction;
        let is = usize::from(table.eviction != Eviction::None);
        self.evicting = self.evicting - was + is;
    }

    /// How many there are beside the one that is always there.
    pub(super) fn others(&self) -> usize {
        self.others.len()
    }

    /// Counts nothing against the quotas any more, and returns them, for a partition that begins anew.
    pub(super) fn take_quotas(&mut self) -> BTreeMap<TableId, Arc<Quota>> {
        let tables = std::iter::once(&mut self.default).chain(&mut self.others);
        let taken = tables.filter_map(|table| {
            let quota = table.quota.clone();
            table.take_quota(None);
            Some((table.id, quota?))
        });
        taken.collect()
    }

    /// Removes a table with the objects that it has up to version `last`. Returns how many these are.
    pub(super) fn drop(&mut self, id: TableId, last: Version) -> Option<u64> {
        let removed = self.truncate(id, last)?;
        self.evicting -= usize::from(self.evicts(id));
        self.others.retain(|table| table.id != id);
        self.others.shrink_to(room_for(self.others.len()));
        Some(removed)
    }

    /// Removes the objects that a table has up to version `last`, which is the newest. Returns how many these are.
    pub(super) fn truncate(&mut self, id: TableId, last: Version) -> Option<u64> {
        let removed = self.get_mut(id)?.clear();
        if removed > 0 {
            self.buried += removed;
            match self.graves.iter_mut().find(|grave| grave.table == id) {
                Some(grave) => grave.last = last,
                None => self.graves.push(Grave { table: id, last }),
            }
        }
        Some(removed)
    }

    /// Whether a record is of a table that was truncated or dropped after it was written.
    #[inline]
    pub(super) fn is_buried(&self, record: &Record<'_>) -> bool {
        !self.graves.is_empty() && self.is_in_grave(record)
    }

    #[cold]
    fn is_in_grave(&self, record: &Record<'_>) -> bool {
        let (table, version) = (record.table(), record.version());
        self.graves.iter().any(|grave| grave.table == table && version <= grave.last)
    }

    /// Notes that a buried object is gone from the index.
    pub(super) fn exhumed(&mut self) {
        self.buried -= 1;
        if self.buried == 0 {
            self.graves.clear();
        }
    }
}
