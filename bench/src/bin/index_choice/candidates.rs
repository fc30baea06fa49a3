//! The indexes: Weft's own, and what could be in its place.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use anyhow::Result;
use clap::ValueEnum;
use dashmap::DashMap;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use weft_protocol::TableId;
use weft_server::store::{Partition, PartitionConfig, Tags};
use weft_transport::{Memory, MemoryConfig};

use crate::log::{KEY_BYTES, Log, VALUE_BYTES};

/// Which index.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Candidate {
    /// Linear hashing in cache lines, 8 B an entry, by way of a partition of Weft
    Weft,
    /// hashbrown with 8 B an entry, which reads every key again when it grows
    Hashbrown,
    /// hashbrown with 16 B an entry: the hash beside the address
    HashbrownHashes,
    /// The same in 64 tables, which grow one by one
    HashbrownTables,
    /// dashmap from the hash to the address
    Dashmap,
    /// The standard library's B-tree from the hash to the address
    Btree,
}

/// Objects behind an index.
pub(crate) trait Store {
    /// Stores an object whose key is new.
    fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]);
    /// Whether there is an object with the key, which is compared.
    fn get(&mut self, key: &[u8; KEY_BYTES]) -> bool;
    /// These are about to be looked up.
    fn prepare(&self, _keys: &[[u8; KEY_BYTES]]) {}
    /// What the objects take without an index.
    fn object_bytes(&self) -> u64;
    /// What the index takes by its own account, if it keeps one.
    fn account_bytes(&self) -> Option<u64> {
        None
    }
}

impl Candidate {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// An empty store, which is to take `keys` objects.
    pub(crate) fn store(self, keys: u64) -> Result<Box<dyn Store>> {
        let log = Log::default();
        Ok(match self {
            Self::Weft => {
                // A quarter of a gibibyte, and what a million objects take for every million.
                let memory = Memory::new(MemoryConfig { limit_bytes: (256 << 20) + 200 * keys })?;
                let seed = 0x5eed;
                let config = PartitionConfig { id: 0, epoch: 1, seed, memory };
                Box::new(Weft { partition: Partition::new(config)?, tags: Tags::new(seed) })
            }
            Self::Hashbrown => Box::new(Plain { log, table: HashTable::new() }),
            Self::HashbrownHashes => Box::new(Tables { log, tables: vec![HashTable::new()] }),
            Self::HashbrownTables => Box::new(Tables { log, tables: vec![HashTable::new(); 64] }),
            Self::Dashmap => Box::new(Mapped { log, map: DashMap::with_hasher(Taken) }),
            Self::Btree => Box::new(Mapped { log, map: BTreeMap::new() }),
        })
    }
}

fn hash(key: &[u8; KEY_BYTES]) -> u64 {
    FixedState::with_seed(0x5eed).hash_one(key)
}

struct Weft {
    partition: Partition,
    tags: Tags,
}

impl Store for Weft {
    fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) {
        self.partition.put(TableId::DEFAULT, key, value, None, 0).expect("there is room for all");
    }

    fn get(&mut self, key: &[u8; KEY_BYTES]) -> bool {
        self.partition.get(TableId::DEFAULT, key, 0).is_some()
    }

    fn prepare(&self, keys: &[[u8; KEY_BYTES]]) {
        let mut tags: Vec<_> = keys.iter().map(|key| self.tags.of(TableId::DEFAULT, key)).collect();
        tags.iter().for_each(|tag| self.partition.prefetch_bucket(*tag));
        tags.retain(|tag| self.partition.prefetch_record(*tag));
        tags.iter().for_each(|tag| self.partition.prefetch_overflowed(*tag));
    }

    fn object_bytes(&self) -> u64 {
        self.partition.stats().live_bytes
    }

    fn account_bytes(&self) -> Option<u64> {
        Some(self.partition.stats().index_bytes)
    }
}

struct Plain {
    log: Log,
    table: HashTable<u64>,
}

impl Store for Plain {
    fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) {
        let Self { log, table } = self;
        let address = log.append(key, value);
        table.insert_unique(hash(key), address, |address| hash(log.key(*address)));
    }

    fn get(&mut self, key: &[u8; KEY_BYTES]) -> bool {
        self.table.find(hash(key), |address| self.log.key(*address) == key).is_some()
    }

    fn object_bytes(&self) -> u64 {
        self.log.bytes()
    }
}

struct Tables {
    log: Log,
    tables: Vec<HashTable<(u64, u64)>>,
}

impl Tables {
    /// By other bits than a table itself looks at first.
    fn table_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize % self.tables.len()
    }
}

impl Store for Tables {
    fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) {
        let address = self.log.append(key, value);
        let hash = hash(key);
        let table = self.table_of(hash);
        self.tables[table].insert_unique(hash, (hash, address), |(hash, _)| *hash);
    }

    fn get(&mut self, key: &[u8; KEY_BYTES]) -> bool {
        let hash = hash(key);
        let is_it = |(other, address): &(u64, u64)| *other == hash && self.log.key(*address) == key;
        self.tables[self.table_of(hash)].find(hash, is_it).is_some()
    }

    fn object_bytes(&self) -> u64 {
        self.log.bytes()
    }
}

/// What is hashed is a hash.
#[derive(Clone, Default)]
struct Taken;

#[derive(Default)]
struct TakenHasher(u64);

impl BuildHasher for Taken {
    type Hasher = TakenHasher;

    fn build_hasher(&self) -> TakenHasher {
        TakenHasher::default()
    }
}

impl std::hash::Hasher for TakenHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map from hashes to addresses.
trait Addresses {
    fn insert(&mut self, hash: u64, address: u64);
    fn address(&self, hash: u64) -> Option<u64>;
}

impl Addresses for DashMap<u64, u64, Taken> {
    fn insert(&mut self, hash: u64, address: u64) {
        DashMap::insert(self, hash, address);
    }

    fn address(&self, hash: u64) -> Option<u64> {
        self.get(&hash).map(|address| *address)
    }
}

impl Addresses for BTreeMap<u64, u64> {
    fn insert(&mut self, hash: u64, address: u64) {
        BTreeMap::insert(self, hash, address);
    }

    fn address(&self, hash: u64) -> Option<u64> {
        self.get(&hash).copied()
    }
}

struct Mapped<M> {
    log: Log,
    map: M,
}

impl<M: Addresses> Store for Mapped<M> {
    fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) {
        let address = self.log.append(key, value);
        self.map.insert(hash(key), address);
    }

    fn get(&mut self, key: &[u8; KEY_BYTES]) -> bool {
        self.map.address(hash(key)).is_some_and(|address| self.log.key(address) == key)
    }

    fn object_bytes(&self) -> u64 {
        self.log.bytes()
    }
}
