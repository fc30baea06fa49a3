//! The partitions that a node owns, each behind its lock, found by slot.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use weft_protocol::{
    ClusterMap, ErrorCode, ErrorReply, Key, PartitionEntry, Slot, TableClass, TableId, TableUse,
};
use weft_transport::{Charge, Memory, NodeId, Purpose};

use crate::limits::BATCH_MAX;
use crate::store::{LogUse, Partition, PartitionConfig, PartitionStats, StoreError, Tag, Tags};

/// In the table of slots: another node owns it.
const ELSEWHERE: u16 = u16::MAX;

const _: () = assert!(Slot::COUNT < ELSEWHERE, "every partition has a number of its own");

/// The partitions of one node.
#[derive(Debug)]
pub(crate) struct Partitions {
    map_epoch: u64,
    owned: Box<[CachePadded<Mutex<Partition>>]>,
    /// The first and the last slot of each.
    slot_ranges: Box<[(Slot, Slot)]>,
    /// For each slot, where in `owned` its partition is, or [`ELSEWHERE`]: 32 KiB that stay in the
    /// cache, instead of a search a key.
    by_slot: Box<[u16]>,
    /// By which all partitions find their keys.
    tags: Tags,
    _charge: Charge,
}

impl Partitions {
    /// Empty partitions, as many as `map` gives to `node`.
    ///
    /// # Errors
    /// [`StoreError::EpochsExhausted`], and [`StoreError::MemoryLimit`] if `memory` has no room for so many.
    pub(crate) fn owned_by(
        node: NodeId,
        map: &ClusterMap,
        memory: &Memory,
        seed: u64,
    ) -> Result<Partitions, StoreError> {
        // Those of other classes have no place in `by_slot` yet.
        let is_own = |entry: &&PartitionEntry| entry.primary == Some(node);
        let entries = map.partitions_of(TableClass::DEFAULT).iter().filter(is_own);
        let count = entries.clone().count();
        let bytes = count * size_of::<CachePadded<Mutex<Partition>>>();
        let charge = memory.charge(bytes as u64, Purpose::Partition)?;
        let (mut owned, mut slot_ranges) = (Vec::new(), Vec::new());
        let mut by_slot = vec![ELSEWHERE; usize::from(Slot::COUNT)].into_boxed_slice();
        for entry in entries {
            let slots =
                usize::from(entry.first_slot.number())..=usize::from(entry.last_slot.number());
            by_slot[slots].fill(owned.len() as u16);
            slot_ranges.push((entry.first_slot, entry.last_slot));
            owned.push(CachePadded::new(Mutex::new(Partition::new(PartitionConfig {
                id: entry.id.0,
                epoch: entry.epoch,
                seed,
                memory: memory.clone(),
            })?)));
        }
        let (owned, slot_ranges) = (owned.into(), slot_ranges.into());
        let (map_epoch, tags) = (map.epoch(), Tags::new(seed));
        Ok(Partitions { map_epoch, owned, slot_ranges, by_slot, tags, _charge: charge })
    }

    /// Where among the partitions the one of `slot` is, if this node owns it.
    #[inline]
    pub(crate) fn position_of(&self, slot: Slot) -> Option<u16> {
        let position = self.by_slot[usize::from(slot.number())];
        (position != ELSEWHERE).then_some(position)
    }

    /// The last slot of the partition of `slot`, if this node owns it.
    pub(crate) fn last_slot(&self, slot: Slot) -> Option<Slot> {
        self.position_of(slot).map(|position| self.slots_of(position).1)
    }

    /// The first and the last slot of the partition at `position`, below [`len`](Self::len).
    pub(crate) fn slots_of(&self, position: u16) -> (Slot, Slot) {
        self.slot_ranges[usize::from(position)]
    }

    /// Computes tags of keys, in whichever partition.
    pub(crate) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The epoch of the map that they are by.
    pub(crate) fn map_epoch(&self) -> u64 {
        self.map_epoch
    }

    /// How many slots they have together.
    pub(crate) fn slots(&self) -> usize {
        self.by_slot.iter().filter(|position| **position != ELSEWHERE).count()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.owned.len()
    }

    /// The partition at `position`, below [`len`](Self::len). The caller may hold no other.
    pub(crate) fn lock(&self, position: u16) -> MutexGuard<'_, Partition> {
        self.owned[usize::from(position)].lock()
    }

    /// What the tables hold in all partitions, by number. Takes one lock after the other, so the caller may hold none.
    pub(crate) fn table_uses(&self) -> Vec<TableUse> {
        let mut sums = BTreeMap::<TableId, TableUse>::new();
        // A node without partitions has the table that is always there, too.
        sums.insert(TableId::DEFAULT, TableUse::default());
        for partition in &self.owned {
            for one in partition.lock().table_uses() {
                let sum = sums.entry(one.table).or_default();
                sum.table = one.table;
                sum.objects += one.objects;
                sum.bytes += one.bytes;
            }
        }
        sums.into_values().collect()
    }

    /// How much of the logs is live, over all partitions. Takes one lock after the other, so the caller may hold none.
    pub(crate) fn log_use(&self) -> LogUse {
        let mut sum = LogUse::default();
        for partition in &self.owned {
            let one = partition.lock().log_use();
            sum.objects += one.objects;
            sum.bytes += one.bytes;
            sum.live_bytes += one.live_bytes;
            sum.killed_bytes += one.killed_bytes;
        }
        sum
    }

    /// The sum over all partitions. Takes one lock after the other, so the caller may hold none.
    pub(crate) fn stats(&self) -> PartitionStats {
        let mut sum = PartitionStats::default();
        for partition in &self.owned {
            let stats = partition.lock().stats();
            sum.objects += stats.objects;
            sum.live_bytes += stats.live_bytes;
            sum.log_bytes += stats.log_bytes;
            sum.upload_bytes += stats.upload_bytes;
            sum.segments += stats.segments;
            sum.pinned_bytes += stats.pinned_bytes;
            sum.index_bytes += stats.index_bytes;
            sum.expired_removed += stats.expired_removed;
        }
        sum
    }
}

/// Where a key's object is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    /// Its tag in the slot's partition, if this node owns that.
    pub(crate) tag: Option<Tag>,
}

/// At most one partition's lock, kept from one request to the next as long as they are for the same
/// partition. Only one is ever held, so threads that hold them cannot wait for one another in a
/// circle.
#[derive(Debug)]
pub(crate) struct Held<'n> {
    partitions: &'n Partitions,
    current: Option<(u16, MutexGuard<'n, Partition>)>,
}

impl<'n> Held<'n> {
    pub(crate) fn new(partitions: &'n Partitions) -> Held<'n> {
        Held { partitions, current: None }
    }

    /// The partition of `slot`, for a key of `table`.
    ///
    /// # Errors
    /// What to answer if this node has no such table or partition.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        table: TableId,
        slot: Slot,
    ) -> Result<&mut Partition, ErrorReply<'static>> {
        let Some(position) = self.partitions.position_of(slot) else {
            return Err(ErrorReply::wrong_owner(self.partitions.map_epoch));
        };
        self.enter_at(table, position)
    }

    /// The partition at `position`, for keys of `table`.
    ///
    /// # Errors
    /// What to answer if the node has no such table.
    #[inline]
    pub(crate) fn enter_at(
        &mut self,
        table: TableId,
        position: u16,
    ) -> Result<&mut Partition, ErrorReply<'static>> {
        let partition = self.lock(position);
        if !partition.has_table(table) {
            return Err(ErrorReply::new(ErrorCode::TableUnknown));
        }
        Ok(partition)
    }

    /// Has what lookups of `keys` will read brought into the cache, of up to [`BATCH_MAX`] of them. First all buckets, then all
    /// records, then those whose buckets have overflowed, so that there are three waits for memory, whatever the number of
    /// keys. Returns where they are looked for, in their order.
    ///
    /// Slots and tags are computed before the first lock is taken: the processor begins nothing that stands behind a lock before
    /// it has that, and the sums of several keys can go on at a time.
    pub(crate) fn prefetch<'k>(
        &mut self,
        keys: impl Iterator<Item = (TableId, Key<'k>, Slot)>,
    ) -> ArrayVec<Place, BATCH_MAX> {
        let mut places = ArrayVec::<_, BATCH_MAX>::new();
        let mut owned = ArrayVec::<(u16, Tag), BATCH_MAX>::new();
        for (table, key, slot) in keys.take(BATCH_MAX) {
            let position = self.partitions.position_of(slot);
            let tag = position.map(|_| self.partitions.tags.of(table, &key));
            owned.extend(position.zip(tag));
            places.push(Place { slot, tag });
        }
        for (position, tag) in &owned {
            self.lock(*position).prefetch_bucket(*tag);
        }
        owned.retain(|(position, tag)| self.lock(*position).prefetch_record(*tag));
        for (position, tag) in &owned {
            self.lock(*position).prefetch_overflowed(*tag);
        }
        places
    }

    /// Lets go of the lock, if one is held.
    pub(crate) fn release(&mut self) {
        self.current = None;
    }

    #[inline]
    fn lock(&mut self, position: u16) -> &mut Partition {
        if self.current.as_ref().is_none_or(|(held, _)| *held != position) {
            // The old one first: two are never held.
            self.current = None;
            self.current = Some((position, self.partitions.lock(position)));
        }
        &mut self.current.as_mut().expect("it was locked just now").1
    }
}
