//! A partition's contents in a few lines: the last write of each key, and every entry that was applied.

use std::collections::BTreeMap;

use weft_protocol::Version;

/// A write of a key; no value removes it.
pub(super) type Record = (u8, Version, Option<u64>);

/// The bytes of an entry: key, whether there is a value, the value, and something to make entries differ in length.
pub(super) fn entry_bytes(key: u8, value: Option<u64>) -> Vec<u8> {
    let mut bytes = vec![key, u8::from(value.is_some())];
    bytes.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    bytes.resize(10 + (value.unwrap_or_default() % 37) as usize, 0);
    bytes
}

pub(super) fn read_entry(bytes: &[u8]) -> (u8, Option<u64>) {
    let value = u64::from_le_bytes(bytes[2..10].try_into().unwrap());
    (bytes[0], (bytes[1] == 1).then_some(value))
}

#[derive(Clone, Default)]
pub(super) struct Store {
    keys: BTreeMap<u8, (Version, Option<u64>)>,
    /// The version before the first entry of `log`.
    pub(super) base: Version,
    pub(super) log: Vec<(Version, Vec<u8>)>,
    /// What came as a snapshot: it is on disk as soon as it was taken.
    snapshot: BTreeMap<u8, (Version, Option<u64>)>,
    pub(super) last_removal: u64,
}

impl Store {
    /// Empty, and the next entry is the one behind `base`.
    pub(super) fn behind(base: Version) -> Self {
        Self { base, ..Self::default() }
    }

    pub(super) fn apply(&mut self, version: Version, bytes: &[u8]) {
        let (key, value) = read_entry(bytes);
        let known = self.keys.get(&key).map_or(Version::NONE, |(version, _)| *version);
        if version >= known {
            self.keys.insert(key, (version, value));
        }
        if value.is_none() {
            self.last_removal = version.sequence();
        }
        self.log.push((version, bytes.to_vec()));
    }

    pub(super) fn get(&self, key: u8) -> (Version, Option<u64>) {
        self.keys.get(&key).copied().unwrap_or((Version::NONE, None))
    }

    /// Takes a record of a snapshot; returns whether something newer was here.
    pub(super) fn take(&mut self, (key, version, value): Record, overwrites: bool) -> bool {
        let known = self.keys.get(&key).map_or(Version::NONE, |(version, _)| *version);
        if known < version || overwrites {
            self.keys.insert(key, (version, value));
            self.snapshot.insert(key, (version, value));
        }
        known > version
    }

    /// A few records from `from` on, as a walk finds them, and where to go on. Keys that were removed are not found.
    pub(super) fn walk(&self, from: u8, count: usize) -> (Vec<Record>, Option<u8>) {
        let mut records = Vec::new();
        for (key, (version, value)) in self.keys.range(from..) {
            if value.is_some() {
                if records.len() == count {
                    return (records, Some(*key));
                }
                records.push((*key, *version, *value));
            }
        }
        (records, None)
    }

    /// What is there after a crash, of which entries up to `synced` were on disk.
    pub(super) fn recovered(&self, synced: u64) -> Self {
        let mut store =
            Self { base: self.base, snapshot: self.snapshot.clone(), ..Self::default() };
        store.keys.clone_from(&store.snapshot);
        for (version, bytes) in self.log.iter().filter(|(version, _)| version.sequence() <= synced)
        {
            store.apply(*version, bytes);
        }
        store
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (u8, Version, u64)> {
        self.keys.iter().filter_map(|(key, (version, value))| Some((*key, *version, (*value)?)))
    }

    /// The version of an entry in the log, if it goes back that far.
    pub(super) fn version_at(&self, sequence: u64) -> Option<Version> {
        let index = sequence.checked_sub(self.base.sequence() + 1)?;
        self.log.get(index as usize).map(|(version, _)| *version)
    }
}

/// Records as a piece of a snapshot.
pub(super) fn piece(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, version, value) in records {
        bytes.extend_from_slice(&[*key, u8::from(value.is_some())]);
        bytes.extend_from_slice(&version.0.to_le_bytes());
        bytes.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    }
    bytes
}

pub(super) fn read_piece(bytes: &[u8]) -> impl Iterator<Item = Record> {
    bytes.chunks_exact(18).map(|bytes| {
        let word =
            |range: std::ops::Range<usize>| u64::from_le_bytes(bytes[range].try_into().unwrap());
        (bytes[0], Version(word(2..10)), (bytes[1] == 1).then(|| word(10..18)))
    })
}
