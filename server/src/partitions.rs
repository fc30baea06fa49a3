//! The partitions that a node owns, each behind its lock, found by slot.

mod classes;
mod hosts;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrayvec::ArrayVec;
use parking_lot::{MappedMutexGuard, MutexGuard, RwLock};
use weft_protocol::replication::Entries;
use weft_protocol::{
    ClusterMap, Configuration, ErrorCode, ErrorReply, Key, Member, PartitionEntry, PartitionId,
    Slot, TableClass, TableId, TableUse, Version,
};
use weft_transport::{Incarnation, Memory};

use self::classes::{CLASSES, Classes, class_index};
use self::hosts::Hosts;
use crate::cluster::Cluster;
use crate::cluster::hosted::{Hosted, InLog};
use crate::cluster::telling::Terms;
use crate::coordinator;
use crate::durable::Mode;
use crate::limits::BATCH_MAX;
use crate::logs::Logs;
use crate::store::{
    LogUse, Partition, PartitionConfig, PartitionStats, StoreError, Tag, Tags, key_of_entry,
};
use crate::withheld::{Answer, Awaited, Withheld};

/// In the table of slots: another node owns it.
const ELSEWHERE: u16 = u16::MAX;

const _: () = assert!(Slot::COUNT < ELSEWHERE, "every partition has a number of its own");

/// How much of a partition may be told of, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) position: u16,
    pub(crate) terms: Terms,
}

impl Committed {
    /// Whether `version` is beyond it.
    #[inline]
    pub(crate) fn excludes(self, version: Version) -> bool {
        version.sequence() > self.terms.committed
    }
}

/// A partition that the coordinator has placed, and where.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Its number.
    pub id: PartitionId,
    /// Whose slots they are.
    pub class: TableClass,
    /// The first slot.
    pub first_slot: Slot,
    /// The last slot, which belongs to it too.
    pub last_slot: Slot,
    /// Who holds it.
    pub configuration: Configuration,
    /// The epoch in which it began empty: what there is of it from before is no part of it.
    pub born_in: u32,
}

impl Placement {
    /// A partition as the coordinators have it.
    pub fn of(id: PartitionId, partition: &coordinator::Partition) -> Placement {
        Placement {
            id,
            class: partition.class,
            first_slot: partition.first_slot,
            last_slot: partition.last_slot,
            configuration: partition.configuration.clone(),
            born_in: partition.born_in,
        }
    }

    /// The partitions of a map, each of which its primary holds alone, in this life of its.
    pub fn of_nodes_alone(map: &ClusterMap, incarnation: Incarnation) -> Vec<Placement> {
        let place = |entry: &PartitionEntry| {
            let primary = entry.primary.map(|node| Member { node, incarnation });
            Placement {
                id: entry.id,
                class: entry.class,
                first_slot: entry.first_slot,
                last_slot: entry.last_slot,
                configuration: Configuration {
                    epoch: entry.epoch,
                    primary,
                    members: primary.into_iter().collect(),
                    learners: Vec::new(),
                    min_in_sync: 1,
                    is_lost: entry.is_lost,
                },
                born_in: 0,
            }
        };
        map.partitions().iter().map(place).collect()
    }
}

/// The partitions of one node.
#[derive(Debug)]
pub(crate) struct Partitions {
    map_epoch: AtomicU64,
    hosts: Hosts,
    /// For each class of tables, which partitions this node serves.
    routes: [OnceLock<Route>; CLASSES],
    /// Of which class each table is.
    classes: Classes,
    /// Where in `hosts` each partition is, by number.
    by_id: Box<[AtomicU16]>,
    /// By which all partitions find their keys.
    tags: Tags,
    memory: Memory,
    seed: u64,
}

/// Which partitions of a class this node serves.
#[derive(Debug)]
struct Route {
    /// For each slot, where in the hosts its partition is, or [`ELSEWHERE`]: 32 KiB that stay in the cache, instead of a search a key.
    by_slot: Box<[AtomicU16]>,
    /// Each of them once, by slot.
    served: RwLock<Arc<[u16]>>,
}

impl Route {
    fn new() -> Route {
        let by_slot = (0..Slot::COUNT).map(|_| AtomicU16::new(ELSEWHERE)).collect();
        Route { by_slot, served: RwLock::new([].into()) }
    }
}

impl Partitions {
    /// No partitions.
    ///
    /// # Errors
    /// [`StoreError::MemoryLimit`] if `memory` has no room for where they would be.
    pub(crate) fn new(memory: &Memory, seed: u64) -> Result<Partitions, StoreError> {
        Ok(Partitions {
            map_epoch: AtomicU64::new(0),
            hosts: Hosts::new(memory)?,
            routes: Default::default(),
            classes: Classes::default(),
            by_id: (0..=u16::MAX).map(|_| AtomicU16::new(ELSEWHERE)).collect(),
            tags: Tags::new(seed),
            memory: memory.clone(),
            seed,
        })
    }

    /// Where the partition with this number is, added with what the node's `log` has of it if it is not there yet.
    ///
    /// # Errors
    /// [`StoreError::MemoryLimit`].
    pub(crate) fn host_of(
        &self,
        cluster: &Cluster,
        placement: &Placement,
        log: Option<(&Logs, Mode)>,
    ) -> Result<u16, StoreError> {
        if let Some(position) = self.position_of_id(placement.id) {
            return Ok(position);
        }
        let hosted = Hosted::new(
            cluster,
            PartitionConfig {
                id: placement.id.0,
                epoch: 0,
                seed: self.seed,
                memory: self.memory.clone(),
            },
            log.map_or(InLog::Unlogged, |(logs, mode)| logs.take(placement.id, mode)),
        )?;
        let slots = (placement.first_slot, placement.last_slot);
        let position = self.hosts.add(slots, hosted)?;
        self.by_id[usize::from(placement.id.0)].store(position, Ordering::Release);
        Ok(position)
    }

    /// Has keys of a placement's slots looked for at `position`, or elsewhere.
    pub(crate) fn lead(&self, placement: &Placement, position: Option<u16>) {
        let route = self.routes[class_index(placement.class)].get_or_init(Route::new);
        let (first, last) = (placement.first_slot.number(), placement.last_slot.number());
        for slot in &route.by_slot[usize::from(first)..=usize::from(last)] {
            slot.store(position.unwrap_or(ELSEWHERE), Ordering::Release);
        }
        let mut served: Vec<u16> =
            route.by_slot.iter().map(|slot| slot.load(Ordering::Relaxed)).collect();
        served.dedup();
        served.retain(|position| *position != ELSEWHERE);
        *route.served.write() = served.into();
    }

    /// The partitions are by this epoch of the map from now on.
    pub(crate) fn learn_epoch(&self, epoch: u64) {
        self.map_epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Where the partition with this number is.
    pub(crate) fn position_of_id(&self, id: PartitionId) -> Option<u16> {
        let position = self.by_id.get(usize::from(id.0))?.load(Ordering::Acquire);
        (position != ELSEWHERE).then_some(position)
    }

    /// All positions.
    pub(crate) fn positions(&self) -> std::ops::Range<u16> {
        0..self.hosts.len() as u16
    }

    /// Where among the partitions the one of `slot` for keys of `table` is, if this node serves it.
    #[inline]
    pub(crate) fn position_of(&self, table: TableId, slot: Slot) -> Option<u16> {
        let route = self.routes[self.classes.index_of(table)].get()?;
        let position = route.by_slot[usize::from(slot.number())].load(Ordering::Acquire);
        (position != ELSEWHERE).then_some(position)
    }

    /// The last slot of the partition of `slot` for keys of `table`, if this node serves it.
    pub(crate) fn last_slot(&self, table: TableId, slot: Slot) -> Option<Slot> {
        self.position_of(table, slot).map(|position| self.slots_of(position).1)
    }

    /// The first and the last slot of the partition at `position`, below [`len`](Self::len).
    pub(crate) fn slots_of(&self, position: u16) -> (Slot, Slot) {
        self.hosts.get(position).slots
    }

    /// Whether this node leads the partition at `position`, below [`len`](Self::len), by the map.
    pub(crate) fn leads(&self, position: u16) -> bool {
        let slot = usize::from(self.slots_of(position).0.number());
        let mut routes = self.routes.iter().filter_map(OnceLock::get);
        routes.any(|route| route.by_slot[slot].load(Ordering::Acquire) == position)
    }

    /// Of which class each table is.
    pub(crate) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Computes tags of keys, in whichever partition.
    pub(crate) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The epoch of the map that they are by.
    pub(crate) fn map_epoch(&self) -> u64 {
        self.map_epoch.load(Ordering::Acquire)
    }

    /// How many slots are served here, of `table`.
    pub(crate) fn slots(&self, table: TableId) -> usize {
        let is_here = |slot: &&AtomicU16| slot.load(Ordering::Relaxed) != ELSEWHERE;
        let route = self.routes[self.classes.index_of(table)].get();
        route.map_or(0, |route| route.by_slot.iter().filter(is_here).count())
    }

    /// How many this node is the primary of. Takes one lock after the other, so the caller may hold none.
    pub(crate) fn led(&self) -> usize {
        self.hosts.iter().filter(|host| !host.hosted.lock().partition.is_following()).count()
    }

    /// Where the partitions are that this node serves for keys of `table`, by slot.
    pub(crate) fn served(&self, table: TableId) -> Arc<[u16]> {
        let route = self.routes[self.classes.index_of(table)].get();
        route.map_or_else(|| [].into(), |route| Arc::clone(&route.served.read()))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The partition at `position`, below [`len`](Self::len). The caller may hold no other.
    pub(crate) fn lock(&self, position: u16) -> MappedMutexGuard<'_, Partition> {
        MutexGuard::map(self.host(position), |hosted| &mut hosted.partition)
    }

    /// The same with what waits for it.
    pub(crate) fn host(&self, position: u16) -> MutexGuard<'_, Hosted> {
        self.hosts.get(position).hosted.lock()
    }

    /// What the tables hold in all partitions that this node serves, by number; nothing while there is one that it is to serve and does not yet. Takes one
    /// lock after the other, so the caller may hold none.
    pub(crate) fn table_uses(&self) -> Option<Vec<TableUse>> {
        let mut sums = BTreeMap::<TableId, TableUse>::new();
        // A node without partitions has the table that is always there, too.
        sums.insert(TableId::DEFAULT, TableUse::default());
        for (position, host) in self.positions().zip(self.hosts.iter()) {
            let partition = &host.hosted.lock().partition;
            // Whoever asks all nodes counts everything once.
            if partition.is_following() {
                if self.leads(position) {
                    return None;
                }
                continue;
            }
            for one in partition.table_uses() {
                let sum = sums.entry(one.table).or_default();
                sum.table = one.table;
                sum.objects += one.objects;
                sum.bytes += one.bytes;
            }
        }
        Some(sums.into_values().collect())
    }

    /// How much of the logs is live, over all partitions. Takes one lock after the other, so the caller may hold none.
    pub(crate) fn log_use(&self) -> LogUse {
        let mut sum = LogUse::default();
        for host in self.hosts.iter() {
            let one = host.hosted.lock().partition.log_use();
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
        for host in self.hosts.iter() {
            let partition = &host.hosted.lock().partition;
            let stats = partition.stats();
            // Whoever asks all nodes counts everything once. What is said of memory is of copies, too.
            if !partition.is_following() {
                sum.objects += stats.objects;
            }
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
    current: Option<(u16, MutexGuard<'n, Hosted>)>,
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
        let Some(position) = self.partitions.position_of(table, slot) else {
            return Err(ErrorReply::wrong_owner(self.partitions.map_epoch()));
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
        let (partition, _) = self.enter_at_to_read(table, position)?;
        Ok(partition)
    }

    /// The partition of `slot`, for keys of `table`, and how much of it may be told of.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    #[inline]
    pub(crate) fn enter_to_read(
        &mut self,
        table: TableId,
        slot: Slot,
    ) -> Result<(&mut Partition, Committed), ErrorReply<'static>> {
        let Some(position) = self.partitions.position_of(table, slot) else {
            return Err(ErrorReply::wrong_owner(self.partitions.map_epoch()));
        };
        self.enter_at_to_read(table, position)
    }

    /// The partition at `position`, for keys of `table`, and how much of it may be told of.
    ///
    /// # Errors
    /// As [`enter_at`](Self::enter_at).
    #[inline]
    pub(crate) fn enter_at_to_read(
        &mut self,
        table: TableId,
        position: u16,
    ) -> Result<(&mut Partition, Committed), ErrorReply<'static>> {
        let hosted = self.lock(position);
        if !hosted.partition.has_table(table) {
            return Err(ErrorReply::new(ErrorCode::TableUnknown));
        }
        let committed = Committed { position, terms: hosted.terms() };
        Ok((&mut hosted.partition, committed))
    }

    /// The same for a write, and what it may tell.
    ///
    /// # Errors
    /// What to answer if this node has no such table or partition, or if nothing may be written there now.
    #[inline]
    pub(crate) fn enter_to_write(
        &mut self,
        table: TableId,
        slot: Slot,
    ) -> Result<(&mut Hosted, Committed), ErrorReply<'static>> {
        let Some(position) = self.partitions.position_of(table, slot) else {
            return Err(ErrorReply::wrong_owner(self.partitions.map_epoch()));
        };
        let hosted = self.lock(position);
        if !hosted.partition.has_table(table) {
            return Err(ErrorReply::new(ErrorCode::TableUnknown));
        }
        hosted.may_write()?;
        let committed = Committed { position, terms: hosted.terms() };
        Ok((hosted, committed))
    }

    /// Has an answer wait for what is not committed yet of these entries. Returns it if all of that is, or an error in its place.
    pub(crate) fn withhold(&mut self, answer: Answer, awaited: &[Awaited]) -> Option<Answer> {
        Withheld::wait(answer, awaited, |awaited, waiting| {
            self.lock(awaited.position).withhold(awaited, waiting)
        })
    }

    /// The host at `position`.
    pub(crate) fn host(&mut self, position: u16) -> &mut Hosted {
        self.lock(position)
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
            let position = self.partitions.position_of(table, slot);
            let tag = position.map(|_| self.partitions.tags.of(table, &key));
            owned.extend(position.zip(tag));
            places.push(Place { slot, tag });
        }
        self.prefetch_tagged(owned);
        places
    }

    /// The same for what entries of other nodes will replace, up to [`BATCH_MAX`] of them.
    pub(crate) fn prefetch_entries<'e>(
        &mut self,
        appended: impl Iterator<Item = (PartitionId, Entries<'e>)>,
    ) {
        let partitions = self.partitions;
        let tagged = appended.filter_map(|(partition, entries)| {
            let position = partitions.position_of_id(partition)?;
            let keys = entries.iter().filter_map(|entry| key_of_entry(entry.bytes));
            Some(keys.map(move |(table, key)| (position, partitions.tags.of(table, key))))
        });
        self.prefetch_tagged(tagged.flatten().take(BATCH_MAX).collect());
    }

    fn prefetch_tagged(&mut self, mut tagged: ArrayVec<(u16, Tag), BATCH_MAX>) {
        for (position, tag) in &tagged {
            self.lock(*position).partition.prefetch_bucket(*tag);
        }
        tagged.retain(|(position, tag)| self.lock(*position).partition.prefetch_record(*tag));
        for (position, tag) in &tagged {
            self.lock(*position).partition.prefetch_overflowed(*tag);
        }
    }

    /// Lets go of the lock, if one is held.
    pub(crate) fn release(&mut self) {
        self.current = None;
    }

    #[inline]
    fn lock(&mut self, position: u16) -> &mut Hosted {
        if self.current.as_ref().is_none_or(|(held, _)| *held != position) {
            // The old one first: two are never held.
            self.current = None;
            self.current = Some((position, self.partitions.host(position)));
        }
        &mut self.current.as_mut().expect("it was locked just now").1
    }
}

#[cfg(test)]
impl Partitions {
    /// One partition with all slots, which nobody else holds.
    pub(crate) fn of_one(memory: &Memory, seed: u64) -> Partitions {
        Self::of_one_in(memory, seed).2
    }

    /// The same, with what holds it, and how it was placed.
    pub(crate) fn of_one_in(memory: &Memory, seed: u64) -> (Cluster, Placement, Partitions) {
        use weft_protocol::NodeEntry;
        use weft_transport::{NodeId, Time};

        use crate::clients::Clients;
        use crate::cluster::ClusterSettings;
        use crate::cluster::hosted::{Due, Now};
        use crate::coordinator::Timing;

        let me = Member { node: NodeId(1), incarnation: Incarnation(1) };
        let entry =
            NodeEntry { id: me.node, incarnation: me.incarnation, address: "here:1".to_owned() };
        let map = ClusterMap::even(vec![entry], 1, 1).unwrap();
        let timing = Timing::default();
        let settings = ClusterSettings {
            heartbeat: timing.heartbeat(),
            leases: timing.leases(),
            replicas: timing.replicas(),
            planted_in_store: None,
        };
        let clients = Arc::new(Clients::new(seed, me));
        let cluster = Cluster::new(me, settings, Time::ZERO, false, clients, memory);
        let partitions = Partitions::new(memory, seed).unwrap();
        let placement = Placement::of_nodes_alone(&map, me.incarnation).swap_remove(0);
        let position = partitions.host_of(&cluster, &placement, None).unwrap();
        let now = Now { time: Time::ZERO, unix_ms: 0 };
        let mut hosted = partitions.host(position);
        hosted.configure(&cluster, &placement, 1, now, &mut Due::default());
        drop(hosted);
        partitions.lead(&placement, Some(position));
        (cluster, placement, partitions)
    }
}
