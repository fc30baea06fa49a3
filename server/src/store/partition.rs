//! The objects of one partition: index, log and versions, which share no state with any other.
//!
//! Whoever calls has the partition to itself (the shell takes its lock once a batch) and says what
//! time it is. An expired object is absent from the moment of its expiry on, and is removed when it
//! is met.

use std::ops::{Bound, Range};

use weft_protocol::limits::{KEY_MAX, VALUE_MAX};
use weft_protocol::{KeyChange, TableId, TableUse, Version};
use weft_transport::{Memory, Shared};

use super::address::Address;
use super::completions::Completions;
use super::error::{Corruption, StoreError};
use super::header::{self, Head, Kind, LastUse, Record};
use super::index::{Index, Slot, Tag};
use super::learning::Learning;
use super::log::Log;
use super::ordered::Ordered;
use super::planted::Planted;
use super::recording::Recording;
use super::segment::Segment;
use super::tables::{Room, Tables};
use super::uploading::Uploads;
use super::watching::Watchers;

/// The longest value that a partition takes.
pub const VALUE_BYTES_MAX: usize = VALUE_MAX;

const _: () = assert!(VALUE_BYTES_MAX < header::VALUE_LEN_END);

/// What a partition starts from.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// Its number in the cluster's map.
    pub id: u16,
    /// It leads all versions. 20 bits. Versions grow through a partition's lives if it does; with a
    /// static map it is the same in all of them, and versions begin anew with the objects.
    pub epoch: u32,
    /// Keys are hashed with it: random, and secret, so that nobody can choose keys that collide.
    pub seed: u64,
    /// Where log and index find memory.
    pub memory: Memory,
}

/// A partition.
#[derive(Debug)]
pub struct Partition {
    id: u16,
    pub(super) memory: Memory,
    pub(super) index: Index,
    pub(super) log: Log,
    pub(super) tables: Tables,
    pub(super) uploads: Uploads,
    pub(super) version: Version,
    /// The last entry before the epoch began.
    pub(super) before_epoch: Version,
    /// The version of the last change that removed objects.
    pub(super) last_removal: Version,
    pub(super) expired_removed: u64,
    /// Where the index is swept next.
    pub(super) sweep_at: u32,
    /// Where objects are looked for next that may be evicted.
    pub(super) evict_at: u32,
    /// Who is told what happens, if anybody is.
    pub(super) watchers: Option<Box<Watchers>>,
    /// The entries of changes, if they are wanted.
    pub(super) recording: Option<Box<Recording>>,
    /// What is remembered of clients' requests.
    pub(super) completions: Completions,
    /// Whether changes come from a primary.
    pub(super) follows: bool,
    /// What is to be known until a snapshot has come whole.
    pub(super) learning: Option<Box<Learning>>,
    /// Up to this entry, changes of tables were there before their entries are: a snapshot has told of them.
    pub(super) tables_as_of: Version,
    pub(super) planted: Planted,
}

/// An object, where it lies.
#[derive(Clone, Copy)]
pub struct ObjectRef<'a> {
    /// Its version.
    pub version: Version,
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds of Unix time.
    pub expiry_ms: Option<u64>,
    pub(super) segment: &'a Segment,
    pub(super) address: Address,
}

/// An object that is about to be written.
pub(super) struct NewObject<'a> {
    pub(super) table: TableId,
    pub(super) key: &'a [u8],
    /// Its value is these, one after the other.
    pub(super) value: [&'a [u8]; 2],
    pub(super) expiry_ms: Option<u64>,
    pub(super) now_ms: u64,
}

/// What a delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The version of the removal; if there was nothing to remove, the newest that was given out.
    pub version: Version,
    /// Whether there was an object.
    pub existed: bool,
}

/// What a partition holds, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// Objects, expired ones that nobody met included.
    pub objects: u64,
    /// Bytes of their records in the log.
    pub live_bytes: u64,
    /// Bytes of all segments, and of those that uploads fill, as the memory's account counts them.
    pub log_bytes: u64,
    /// Bytes of those that uploads fill.
    pub upload_bytes: u64,
    /// How many segments there are.
    pub segments: u64,
    /// Bytes of those segments that somebody holds a view of.
    pub pinned_bytes: u64,
    /// Bytes of the index, and of what keeps keys in order, as the memory's account counts them.
    pub index_bytes: u64,
    /// Objects that were removed because they had expired.
    pub expired_removed: u64,
}

impl Partition {
    /// An empty partition. It takes no memory before the first object.
    ///
    /// # Errors
    /// [`StoreError::EpochsExhausted`] when the epoch has more than 20 bits.
    pub fn new(config: PartitionConfig) -> Result<Partition, StoreError> {
        if config.epoch > Version::EPOCH_MAX {
            return Err(StoreError::EpochsExhausted { epoch: config.epoch });
        }
        Ok(Partition {
            id: config.id,
            index: Index::new(config.seed, &config.memory),
            log: Log::new(config.memory.clone()),
            tables: Tables::new(config.memory.clone()),
            uploads: Uploads::default(),
            completions: Completions::new(&config.memory),
            memory: config.memory,
            version: Version::new(config.epoch, 0),
            before_epoch: Version::NONE,
            last_removal: Version::NONE,
            expired_removed: 0,
            sweep_at: 0,
            evict_at: 0,
            watchers: None,
            recording: None,
            follows: false,
            learning: None,
            tables_as_of: Version::NONE,
            planted: Planted::default(),
        })
    }

    /// Its number in the cluster's map.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Whether there is a table of this number.
    #[inline]
    pub fn has_table(&self, table: TableId) -> bool {
        self.tables.get(table).is_some()
    }

    /// What each table holds, by number.
    pub fn table_uses(&self) -> impl Iterator<Item = TableUse> {
        self.tables.iter().map(|table| TableUse {
            table: table.id(),
            objects: table.objects,
            bytes: table.bytes,
        })
    }

    /// The newest version that was given out, or the epoch's zeroth. It is the answer where there
    /// is no object: as of it, the key is absent.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The version of the last change that removed objects before they expired: who finds nothing has seen what it did, at most.
    pub fn last_removal(&self) -> Version {
        self.last_removal
    }

    /// The object of a key.
    pub fn get(&mut self, table: TableId, key: &[u8], now_ms: u64) -> Option<ObjectRef<'_>> {
        self.get_tagged(self.index.tag(table, key), table, key, now_ms)
    }

    /// The version of a key's object, if it has one.
    pub fn exists(&mut self, table: TableId, key: &[u8], now_ms: u64) -> Option<Version> {
        let (_, address) = self.find_current(self.index.tag(table, key), table, key, now_ms)?;
        Some(self.log.record(address).version())
    }

    /// Bytes of the record of a key's object; 0 if it has none.
    pub fn record_len(&mut self, table: TableId, key: &[u8], now_ms: u64) -> usize {
        let found = self.find_current(self.index.tag(table, key), table, key, now_ms);
        found.map_or(0, |(_, address)| self.log.record(address).len())
    }

    /// Makes `value` the object of a key, until `expiry_ms` (milliseconds of Unix time) if that is
    /// given. An expiry that has passed is stored like any other and absent at once.
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing has changed then: the old object is still there.
    pub fn put(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        expiry_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Version, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        self.write(tag, found, &NewObject { table, key, value: [value, &[]], expiry_ms, now_ms })
    }

    /// Removes the object of a key. Needs no memory.
    ///
    /// # Errors
    /// [`StoreError::VersionsExhausted`]; the object is still there then.
    pub fn delete(
        &mut self,
        table: TableId,
        key: &[u8],
        now_ms: u64,
    ) -> Result<Deleted, StoreError> {
        let tag = self.index.tag(table, key);
        let Some((slot, address)) = self.find_current(tag, table, key, now_ms) else {
            return Ok(Deleted { version: self.version, existed: false });
        };
        self.version = self.next_version()?;
        self.remove(slot, address, KeyChange::Deleted, self.version);
        Ok(Deleted { version: self.version, existed: true })
    }

    /// What the partition holds. Walks the list of segments.
    pub fn stats(&self) -> PartitionStats {
        let pinned = self.log.segments().filter(|(_, segment)| segment.is_pinned());
        PartitionStats {
            objects: self.index.len() as u64 - self.tables.buried,
            live_bytes: self.log.live_bytes() as u64,
            log_bytes: (self.log.footprint() + self.uploads.bytes()) as u64,
            upload_bytes: self.uploads.bytes() as u64,
            segments: self.log.segments().count() as u64,
            pinned_bytes: pinned.map(|(_, segment)| segment.footprint() as u64).sum(),
            index_bytes: (self.index.bytes() + self.ordered_bytes()) as u64,
            expired_removed: self.expired_removed,
        }
    }

    /// Checks every record's checksum and that index and log agree.
    ///
    /// Reads do not do this: a checksum costs as much as the read itself and would guard memory
    /// that the machine's own error correction guards already, while bytes that leave for a disk or
    /// another node carry the checksum with them and are checked where they arrive.
    ///
    /// # Errors
    /// The first [`Corruption`] that is found.
    pub fn verify(&self) -> Result<(), Corruption> {
        let mut objects = 0;
        for (number, segment) in self.log.segments() {
            let mut end = 0;
            for (offset, record) in segment.records() {
                end = offset + record.len();
                let version = record.version();
                if record.kind() != Some(Kind::Object) {
                    return Err(Corruption::Malformed { segment: number, offset });
                }
                if !record.is_intact() {
                    return Err(Corruption::Checksum { segment: number, offset, version });
                }
                if record.is_live() {
                    objects += 1;
                    if !self.leads_to(Address::new(number, offset), &record) {
                        return Err(Corruption::Unindexed { segment: number, offset, version });
                    }
                }
            }
            if end != segment.committed() {
                return Err(Corruption::Malformed { segment: number, offset: end });
            }
        }
        if objects != self.index.len() || objects != self.log.live_objects() {
            return Err(Corruption::Dangling { entries: self.index.len(), objects });
        }
        let of_tables: u64 = self.tables.iter().map(|table| table.objects).sum();
        if objects as u64 != of_tables + self.tables.buried {
            let counted = of_tables + self.tables.buried;
            return Err(Corruption::Miscounted { objects: objects as u64, counted });
        }
        for table in self.tables.iter() {
            let Some(ordered) = &table.ordered else { continue };
            if !self.is_in_order(table.id(), ordered, table.objects) {
                return Err(Corruption::Disordered { table: table.id() });
            }
        }
        Ok(())
    }

    /// Whether the keys of a table are all there, each with its live record, and each above the one before.
    fn is_in_order(&self, table: TableId, ordered: &Ordered, objects: u64) -> bool {
        let key_of = |address| self.log.record(address).key();
        let mut last: Option<&[u8]> = None;
        let mut count = 0;
        for address in ordered.range(Bound::Unbounded, Bound::Unbounded, key_of) {
            let record = self.log.record(address);
            let is_next = last.is_none_or(|last| last < record.key());
            if !record.is_live() || record.table() != table || !is_next {
                return false;
            }
            last = Some(record.key());
            count += 1;
        }
        count == objects
    }

    /// The key's slot and record, unless it is of no object any more; then it is removed.
    #[inline]
    pub(super) fn find_current(
        &mut self,
        tag: Tag,
        table: TableId,
        key: &[u8],
        now_ms: u64,
    ) -> Option<(Slot, Address)> {
        let is_key = |address| self.log.record(address).is_of(table, key);
        let (slot, address) = self.index.find(tag, is_key)?;
        if self.is_gone(&self.log.record(address), now_ms) {
            self.remove_gone(slot, address);
            return None;
        }
        if self.tables.evicts(table) {
            self.touch(address, LastUse::at(now_ms));
        }
        Some((slot, address))
    }

    /// Whether a record that the index leads to is of no object any more: it has expired, or its table was truncated or
    /// dropped.
    #[inline]
    pub(super) fn is_gone(&self, record: &Record<'_>, now_ms: u64) -> bool {
        record.is_expired(now_ms) || self.tables.is_buried(record)
    }

    /// Removes what [`is_gone`](Self::is_gone).
    #[cold]
    pub(super) fn remove_gone(&mut self, slot: Slot, address: Address) {
        let record = self.log.record(address);
        let version = record.version();
        self.expired_removed += u64::from(!self.tables.is_buried(&record));
        self.remove(slot, address, KeyChange::Expired, version);
    }

    /// Dead in the log before it is gone from the index, in the order of an overwrite. Who watches is told `change` as of `version`, unless
    /// the object went with its table before. What does not go by itself is an entry, if there are entries.
    pub(super) fn remove(
        &mut self,
        slot: Slot,
        address: Address,
        change: KeyChange,
        version: Version,
    ) {
        let record = self.log.record(address);
        self.tables.expiring -= u64::from(record.expiry_ms().is_some());
        if self.tables.is_buried(&record) {
            self.tables.exhumed();
        } else {
            let table =
                self.tables.get_mut(record.table()).expect("what is not buried has a table");
            table.removed(record.len());
            if let Some(ordered) = &mut table.ordered {
                let key_of = |address| self.log.record(address).key();
                let place = ordered.find(record.key(), key_of).expect("every key is in order");
                ordered.remove(place, key_of);
            }
            if let Some(watchers) = &self.watchers {
                watchers.tell(record.table(), record.key(), change, version);
            }
        }
        if change != KeyChange::Expired {
            // Evicted with none who follows, it goes by the version that it had.
            self.last_removal = self.last_removal.max(version);
            if let Some(recording) = &mut self.recording {
                recording.change(Kind::Tombstone, version, record.table(), record.key(), &[]);
            }
        }
        self.log.kill(address);
        self.index.remove(slot);
    }

    /// Writes an object in the place of what was `found` for its key. `tag` is the key's.
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing has changed then: the old object is still there.
    pub(super) fn write(
        &mut self,
        tag: Tag,
        found: Option<(Slot, Address)>,
        new: &NewObject<'_>,
    ) -> Result<Version, StoreError> {
        let &NewObject { table, key, value, expiry_ms, now_ms } = new;
        if key.len() > KEY_MAX {
            return Err(StoreError::KeyTooLong { len: key.len(), limit: KEY_MAX });
        }
        let value_len = value[0].len() + value[1].len();
        if value_len > VALUE_BYTES_MAX {
            return Err(StoreError::ValueTooLarge { len: value_len, limit: VALUE_BYTES_MAX });
        }
        let version = self.next_version()?;
        let last_use = LastUse::at(now_ms);
        let head = Head::object(version, table, key, value_len, expiry_ms, last_use);
        let len = header::record_bytes(&head, key, value_len);
        let parts = [head.bytes(), key, value[0], value[1]];
        let new = (len, version, expiry_ms.is_some());
        let address = self.place(tag, found, (table, key), new, Room::Quota, |log| {
            let address = log.append(&parts, len, version)?;
            log.seal(address);
            Ok(address)
        })?;
        self.written(address, version);
        Ok(version)
    }

    /// Notes that an object was written here, at `address`.
    #[inline]
    pub(super) fn written(&mut self, address: Address, version: Version) {
        self.version = version;
        if self.recording.is_some() {
            self.record_object(address);
        }
    }

    /// Enters a record of `len` bytes, which `append` adds to the log, in the place of what was `found` for its key, and counts it. Returns
    /// where it is.
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing has changed then; only if `append` was refused it was called.
    #[inline]
    pub(super) fn place(
        &mut self,
        tag: Tag,
        found: Option<(Slot, Address)>,
        (table, key): (TableId, &[u8]),
        (len, version, is_expiring): (usize, Version, bool),
        room: Room,
        append: impl FnOnce(&mut Log) -> Result<Address, StoreError>,
    ) -> Result<Address, StoreError> {
        let state = self.tables.get_mut(table).ok_or(StoreError::TableUnknown { table })?;
        let old = found.map(|(_, address)| self.log.record(address));
        let (old_len, had_expiry) = match &old {
            Some(old) => (Some(old.len()), old.expiry_ms().is_some()),
            None => (None, false),
        };
        state.reserve(old_len, len, room)?;
        let address = match self.put_record(tag, found, table, key, append) {
            Ok(address) => address,
            Err(error) => {
                self.tables.get(table).expect("it was there").unreserve(old_len, len);
                return Err(error);
            }
        };
        self.tables.get_mut(table).expect("it was there").written(old_len, len);
        self.tables.expiring -= u64::from(had_expiry);
        self.tables.expiring += u64::from(is_expiring);
        if let Some(watchers) = &self.watchers {
            watchers.tell(table, key, KeyChange::Written, version);
        }
        Ok(address)
    }

    /// Enters a record in log, index and order.
    #[inline]
    fn put_record(
        &mut self,
        tag: Tag,
        found: Option<(Slot, Address)>,
        table: TableId,
        key: &[u8],
        append: impl FnOnce(&mut Log) -> Result<Address, StoreError>,
    ) -> Result<Address, StoreError> {
        let ordered = self.tables.get_mut(table).and_then(|table| table.ordered.as_mut());
        match found {
            Some((slot, old)) => {
                let new = append(&mut self.log)?;
                if let Some(ordered) = ordered {
                    let key_of = |address| self.log.record(address).key();
                    let place = ordered.find(key, key_of).expect("every key is in order");
                    ordered.replace(place, new);
                }
                // The old record is dead before anybody can learn of the new one, so that a reader
                // of the log by address never takes the old value for current after it has seen, or
                // been told of, the new one.
                self.log.kill(old);
                self.index.replace(slot, new);
                Ok(new)
            }
            None => {
                // The slot first: of the two, only the append could not be undone.
                let slot = self.index.reserve(tag)?;
                let Some(ordered) = ordered else {
                    let new = append(&mut self.log)?;
                    self.index.fill(slot, tag, new);
                    return Ok(new);
                };
                let key_of = |address| self.log.record(address).key();
                let place = ordered.find(key, key_of).expect_err("the index has all keys");
                let place = ordered.prepare(place, key, key_of)?;
                let new = append(&mut self.log)?;
                let key_of = |address| self.log.record(address).key();
                ordered.insert(place, key, new, key_of);
                self.index.fill(slot, tag, new);
                Ok(new)
            }
        }
    }

    fn ordered_bytes(&self) -> usize {
        self.tables.iter().filter_map(|table| Some(table.ordered.as_ref()?.bytes())).sum()
    }

    pub(super) fn next_version(&self) -> Result<Version, StoreError> {
        self.version.next().ok_or(StoreError::VersionsExhausted { last: self.version })
    }

    fn leads_to(&self, address: Address, record: &Record<'_>) -> bool {
        let tag = self.index.tag(record.table(), record.key());
        self.index.find(tag, |found| found == address).is_some()
    }
}

impl ObjectRef<'_> {
    /// A counted view of the value, which stays where it is as long as the view lives, whatever
    /// happens to the object. It keeps the whole segment.
    pub fn pin(&self) -> Shared {
        self.pin_range(0..self.value.len())
    }

    /// The same of a part of the value.
    ///
    /// # Panics
    /// When `range` is not within the value.
    pub fn pin_range(&self, range: Range<usize>) -> Shared {
        assert!(range.start <= range.end && range.end <= self.value.len(), "{range:?}");
        let start = self.segment.record(self.address.offset()).value_start();
        self.segment.pin(self.address.offset() + start + range.start, range.len())
    }

    /// Checks the record's checksum.
    ///
    /// # Errors
    /// [`Corruption::Checksum`].
    pub fn verify(&self) -> Result<(), Corruption> {
        let (segment, offset) = (self.address.segment(), self.address.offset());
        if self.segment.record(offset).is_intact() {
            return Ok(());
        }
        Err(Corruption::Checksum { segment, offset, version: self.version })
    }
}

impl std::fmt::Debug for ObjectRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectRef")
            .field("version", &self.version)
            .field("value_len", &self.value.len())
            .field("expiry_ms", &self.expiry_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
