//! A partition against an ordered map: random operations, few keys, little memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "store_model/steps.rs"]
mod steps;
#[path = "store_model/uploads.rs"]
mod uploads;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use proptest::prelude::*;
use weft_protocol::{Eviction, FieldChange, List, Record, TableId, UploadEffect, Value, Version};
use weft_server::store::{
    Appended, Cleaned, Compared, Completed, Incremented, NotOrdered, Partition, PartitionConfig,
    Quota, StoreError, TableConfig, Victim,
};
use weft_transport::{Memory, MemoryConfig, Purpose, Shared};

use self::steps::{Effect, Expected, Revision, Step, step};
use self::uploads::Manner;

/// Beside the table that is always there: one that is ordered, and one that is, and has a quota.
const ORDERED: TableId = TableId(1);
const SMALL: TableId = TableId(2);
const QUOTA_BYTES: u64 = 60_000;

/// What is longer is not copied in one step.
const STEP_MAX: usize = 100_000;

type Key = (TableId, Vec<u8>);

#[derive(Clone, Debug, PartialEq)]
struct Object {
    value: Vec<u8>,
    version: Version,
    expiry_ms: Option<u64>,
}

/// A partition, what it should hold, and what it should still show to those who pinned it.
struct Checked {
    memory: Memory,
    partition: Partition,
    model: BTreeMap<Key, Object>,
    pins: Vec<(Shared, Vec<u8>)>,
    victim: Option<Victim>,
    scan: Option<Scan>,
    quota: Arc<Quota>,
    /// How many values have come in pieces.
    uploads: u64,
    now_ms: u64,
}

/// A scan that is under way, of the table 0.
struct Scan {
    position: u32,
    /// What was there at its beginning, and has been ever since.
    there_throughout: BTreeSet<Key>,
    met: BTreeMap<Key, usize>,
}

impl Checked {
    fn new(limit_bytes: u64, seed: u64) -> Checked {
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        memory.keep_back(64 << 10);
        let config = PartitionConfig { id: 1, epoch: 1, seed, memory: memory.clone() };
        let (quota, mut partition) =
            (Arc::new(Quota::new(QUOTA_BYTES)), Partition::new(config).unwrap());
        for table in [ORDERED, SMALL] {
            create(&mut partition, table, &quota);
        }
        Checked {
            memory,
            partition,
            quota,
            model: BTreeMap::new(),
            pins: Vec::new(),
            victim: None,
            scan: None,
            uploads: 0,
            now_ms: 1_000,
        }
    }

    fn expected(&self, key: &Key) -> Option<Object> {
        let current = |object: &&Object| object.expiry_ms.is_none_or(|at| at > self.now_ms);
        self.model.get(key).filter(current).cloned()
    }

    fn found(&mut self, (table, key): &Key) -> Option<Object> {
        let object = self.partition.get(*table, key, self.now_ms)?;
        object.verify().unwrap();
        Some(Object {
            value: object.value.to_vec(),
            version: object.version,
            expiry_ms: object.expiry_ms,
        })
    }

    fn take(&mut self, step: Step) {
        let before = self.partition.version();
        match step {
            Step::Put { key, len, fill, ttl_ms } => {
                let value = vec![fill; len];
                let expiry_ms = ttl_ms.map(|ttl_ms| self.now_ms + ttl_ms);
                match self.partition.put(key.0, &key.1, &value, expiry_ms, self.now_ms) {
                    Ok(version) => {
                        assert!(version > before);
                        self.model.insert(key, Object { value, version, expiry_ms });
                    }
                    Err(error) => {
                        let is_full = key.0 == SMALL && error == QUOTA_REACHED;
                        assert!(is_full || matches!(error, StoreError::MemoryLimit(_)), "{error}");
                        assert_eq!(self.partition.version(), before);
                        assert_eq!(self.found(&key), self.expected(&key), "lost by a failed put");
                    }
                }
            }
            Step::Delete(key) => {
                let expected = self.expected(&key);
                let deleted = self.partition.delete(key.0, &key.1, self.now_ms).unwrap();
                assert_eq!(deleted.existed, expected.is_some());
                assert_eq!(deleted.version > before, deleted.existed);
                self.model.remove(&key);
            }
            Step::Revise(key, revision) => {
                let (expected, before) = (self.expected(&key), self.partition.version());
                match self.revise(&key, &revision, expected.clone()) {
                    Ok(Some(object)) => {
                        let is_same = expected.as_ref() == Some(&object);
                        assert!(is_same || object.version == self.partition.version());
                        assert!(is_same || object.version > before);
                        self.model.insert(key.clone(), object);
                    }
                    Ok(None) => drop(self.model.remove(&key)),
                    Err(error) => {
                        let may_be = matches!(
                            error,
                            StoreError::MemoryLimit(_)
                                | StoreError::NotANumber
                                | StoreError::NumberOverflow
                                | StoreError::NotARecord
                                | StoreError::OnlyByUpload { .. }
                        );
                        let is_full = key.0 == SMALL && error == QUOTA_REACHED;
                        assert!(may_be || is_full, "{error}");
                        assert_eq!(self.partition.version(), before);
                    }
                }
                assert_eq!(self.found(&key), self.expected(&key), "after {revision:?}");
            }
            Step::Get(key) => {
                let expected = self.expected(&key);
                assert_eq!(self.found(&key), expected);
                let version = self.partition.exists(key.0, &key.1, self.now_ms);
                assert_eq!(version, expected.map(|object| object.version));
            }
            Step::Scan { objects } => self.scan(objects),
            Step::Pin((table, key)) => {
                if let Some(object) = self.partition.get(table, &key, self.now_ms) {
                    self.pins.push((object.pin(), object.value.to_vec()));
                }
            }
            Step::Unpin(index) if !self.pins.is_empty() => {
                self.pins.swap_remove(index.index(self.pins.len()));
            }
            Step::Unpin(_) => {}
            Step::Wait { ms } => self.now_ms += ms,
            Step::Choose { percent, index } => {
                let victims: Vec<_> = self.partition.victims(f64::from(percent) / 100.0).collect();
                if !victims.is_empty() {
                    self.victim = Some(*index.get(&victims));
                }
            }
            Step::Clean { budget } => {
                // It may be gone by now, or its number another segment's.
                let Some(victim) = &mut self.victim else { return };
                let cleaned = self.partition.clean(victim, budget, self.now_ms);
                assert_eq!(self.partition.version(), before);
                assert!(cleaned.is_done || cleaned.freed_bytes == 0);
                if cleaned.is_done {
                    let again = self.partition.clean(victim, budget, self.now_ms);
                    assert_eq!(again, Cleaned { is_done: true, ..Cleaned::default() });
                }
                if let Some(refused) = cleaned.refused {
                    assert!(matches!(refused, StoreError::MemoryLimit(_)), "{refused}");
                    assert!(!cleaned.is_done);
                }
            }
            Step::Range { lower, upper, descending, objects } => {
                let bounds =
                    (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
                for table in [ORDERED, SMALL] {
                    self.range(table, bounds, descending, objects);
                }
                let range = self.partition.range(TableId(0), bounds, false, 0, |_| true);
                assert_eq!(range, Err(NotOrdered));
            }
            Step::Truncate(table) => {
                let there = self.count(table);
                assert!(self.partition.truncate(table).unwrap() >= there);
                self.model.retain(|key, _| key.0 != table);
            }
            Step::Recreate(table) => {
                let there = self.count(table);
                assert!(self.partition.drop_table(table).unwrap() >= there);
                assert!(!self.partition.has_table(table));
                assert_eq!(self.partition.truncate(table), None);
                create(&mut self.partition, table, &self.quota);
                self.model.retain(|key, _| key.0 != table);
            }
            Step::Evict { of, buckets } => self.evict(of, buckets),
            Step::Sweep { buckets } => {
                let before = self.partition.stats().objects + self.partition.sweepable().buried;
                let swept = self.partition.sweep(buckets, self.now_ms);
                let after = self.partition.stats().objects + self.partition.sweepable().buried;
                assert_eq!(before - swept.removed, after);
            }
            Step::Verify => self.partition.verify().unwrap(),
        }
        let small = self.partition.table_uses().find(|table| table.table == SMALL).unwrap();
        assert_eq!(small.bytes, self.quota.used_bytes());
        assert!(small.bytes <= QUOTA_BYTES);
        let account = self.memory.account();
        assert!(account.allocated_bytes <= account.limit_bytes);
        // What is gone, even if it comes back, is nothing that a scan has to meet.
        if let Some(mut scan) = self.scan.take() {
            scan.there_throughout.retain(|key| self.expected(key).is_some());
            self.scan = Some(scan);
        }
    }

    /// How many objects of a table are there by now.
    fn count(&self, table: TableId) -> u64 {
        let of_table = self.model.keys().filter(|key| key.0 == table);
        of_table.filter(|key| self.expected(key).is_some()).count() as u64
    }

    fn range(
        &self,
        table: TableId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        descending: bool,
        objects: usize,
    ) {
        let mut found = Vec::new();
        let shown = self.partition.range(table, bounds, descending, self.now_ms, |object| {
            let (value, version) = (object.value.to_vec(), object.version);
            let object_found = Object { value, version, expiry_ms: object.expiry_ms };
            found.push((object.key.to_vec(), object_found));
            found.len() < objects
        });
        assert_eq!(shown, Ok(()));
        let mut expected: Vec<_> = self
            .model
            .keys()
            .filter(|key| key.0 == table && RangeBounds::<[u8]>::contains(&bounds, &key.1[..]))
            .filter_map(|key| Some((key.1.clone(), self.expected(key)?)))
            .collect();
        if descending {
            expected.reverse();
        }
        // At least one is shown.
        expected.truncate(objects.max(1));
        assert_eq!(found, expected);
    }

    fn scan(&mut self, objects: usize) {
        let table = TableId(0);
        let mut scan = self.scan.take().unwrap_or_else(|| Scan {
            position: 0,
            there_throughout: self
                .model
                .keys()
                .filter(|key| key.0 == table && self.expected(key).is_some())
                .cloned()
                .collect(),
            met: BTreeMap::new(),
        });
        let (mut met, mut group) = (Vec::new(), (0, 0));
        let next = self.partition.scan(table, scan.position, 16, self.now_ms, |object| {
            assert!(object.position >= scan.position);
            if group.0 != object.position {
                group = (object.position, met.len());
                if met.len() > objects {
                    return false;
                }
            }
            let key = (table, object.key.to_vec());
            let (value, version) = (object.value.to_vec(), object.version);
            met.push((key, Object { value, version, expiry_ms: object.expiry_ms }));
            true
        });
        for (key, object) in met {
            assert_eq!(self.expected(&key), Some(object));
            *scan.met.entry(key).or_default() += 1;
        }
        match next {
            Some(position) => {
                assert!(position > scan.position, "a scan goes on");
                scan.position = position;
                self.scan = Some(scan);
            }
            None => {
                for key in &scan.there_throughout {
                    assert_eq!(scan.met.get(key), Some(&1), "{key:?} was there throughout");
                }
            }
        }
    }

    /// Has it done, and says what should be there afterwards.
    fn revise(
        &mut self,
        (table, key): &Key,
        revision: &Revision,
        old: Option<Object>,
    ) -> Result<Option<Object>, StoreError> {
        let (table, now_ms) = (*table, self.now_ms);
        let expiry = |ttl_ms: &Option<u64>| ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
        let kept_expiry = |ttl_ms| match &old {
            Some(old) => old.expiry_ms,
            None => expiry(ttl_ms),
        };
        let partition = &mut self.partition;
        let check_previous = |previous: Option<(Version, Shared)>| {
            let previous = previous.map(|(version, value)| (version, value.to_vec()));
            assert_eq!(previous, old.clone().map(|old| (old.version, old.value)));
        };
        let current = old.as_ref().map_or(Version::NONE, |old| old.version);
        let version_of = |expected: &Expected| match expected {
            Expected::Current => current,
            Expected::None => Version::NONE,
            Expected::Other => Version(current.0 + 1),
        };
        Ok(match revision {
            Revision::CompareAndSet { expected, len, ttl_ms } => {
                let expected = version_of(expected);
                let (value, expiry_ms) = (vec![b'5'; *len], expiry(ttl_ms));
                let before = partition.version();
                let compared =
                    partition.compare_and_set(table, key, expected, &value, expiry_ms, now_ms)?;
                match (compared, &old) {
                    (Compared::Written(version), _) => {
                        assert_eq!(expected, current);
                        Some(Object { value, version, expiry_ms })
                    }
                    (Compared::Conflict(version), Some(found)) => {
                        assert!(version == found.version && expected != current);
                        old
                    }
                    (Compared::Absent(version), None) => {
                        assert!(version == before && expected != Version::NONE);
                        None
                    }
                    (Compared::Conflict(_), None) | (Compared::Absent(_), Some(_)) => {
                        panic!("{compared:?} of {old:?}")
                    }
                }
            }
            Revision::Upload { len, kept, effect, ttl_ms, manner } => {
                self.uploads += 1;
                let effect = match effect {
                    Effect::Put => UploadEffect::Put,
                    Effect::CompareAndSet(expected) => {
                        UploadEffect::CompareAndSet(version_of(expected))
                    }
                    Effect::GetAndPut => UploadEffect::GetAndPut,
                };
                let keeps_expiry = manner.keeps_expiry && old.is_some();
                let manner = Manner { keeps_expiry, ..*manner };
                let value = uploads::value(old.as_ref(), *len, *kept);
                let given_ms = expiry(ttl_ms);
                let expiry_ms = if keeps_expiry { kept_expiry(ttl_ms) } else { given_ms };
                let completed = uploads::upload(
                    partition,
                    (self.uploads, effect),
                    uploads::target(table, key),
                    old.as_ref(),
                    (&value, given_ms),
                    manner,
                    now_ms,
                )?;
                match (completed, effect) {
                    (Completed::Put(version), UploadEffect::Put)
                    | (
                        Completed::Compared(Compared::Written(version)),
                        UploadEffect::CompareAndSet(_),
                    ) => Some(Object { value, version, expiry_ms }),
                    (Completed::Replaced(replaced), UploadEffect::GetAndPut) => {
                        check_previous(replaced.previous);
                        Some(Object { value, version: replaced.version, expiry_ms })
                    }
                    (Completed::Compared(_), UploadEffect::CompareAndSet(expected)) => {
                        assert_ne!(expected, current);
                        old
                    }
                    (completed, effect) => panic!("{completed:?} of {effect:?}"),
                }
            }
            Revision::Increment { delta, ttl_ms } => {
                let number = old.as_ref().map_or(Some(0), |old| {
                    let text = std::str::from_utf8(&old.value).ok()?;
                    let number = text.parse::<i64>().ok()?;
                    (number.to_string() == text).then_some(number)
                });
                let expiry_ms = kept_expiry(ttl_ms);
                let incremented = partition.increment(table, key, *delta, expiry(ttl_ms), now_ms);
                match number.map(|number| number.checked_add(*delta)) {
                    None => assert_eq!(incremented, Err(StoreError::NotANumber)),
                    Some(None) => assert_eq!(incremented, Err(StoreError::NumberOverflow)),
                    Some(Some(sum)) => {
                        assert!(incremented.is_err() || incremented.unwrap().number == sum);
                    }
                }
                let Incremented { version, number } = incremented?;
                Some(Object { value: number.to_string().into_bytes(), version, expiry_ms })
            }
            Revision::Append { tail, ttl_ms } => {
                let expiry_ms = kept_expiry(ttl_ms);
                let old = old.as_ref().map_or(&[][..], |old| &old.value);
                let value = [old, tail].concat();
                let appended = partition.append(table, key, tail, expiry(ttl_ms), STEP_MAX, now_ms);
                let refused = StoreError::OnlyByUpload { len: value.len() };
                assert_eq!(appended == Err(refused), value.len() > STEP_MAX);
                let Appended { version, value_len } = appended?;
                assert_eq!(value_len, value.len());
                Some(Object { value, version, expiry_ms })
            }
            Revision::PutFields { changes, ttl_ms } => {
                let expiry_ms = kept_expiry(ttl_ms);
                let fields = old.as_ref().map_or(Some(Vec::new()), |old| fields(&old.value));
                let borrowed: Vec<_> = changes
                    .iter()
                    .map(|(name, value)| FieldChange {
                        name: weft_protocol::Key::new(name).unwrap(),
                        value: value.as_deref().map(|value| Value::new(value).unwrap()),
                    })
                    .collect();
                let (list, _) = List::fitting(&borrowed);
                let mut scratch = Vec::new();
                let written =
                    partition.put_fields(table, key, list, expiry(ttl_ms), &mut scratch, now_ms);
                let Some(mut fields) = fields else {
                    assert_eq!(written, Err(StoreError::NotARecord));
                    return Err(StoreError::NotARecord);
                };
                for (name, value) in changes {
                    let place = fields.iter().position(|(found, _)| found == name);
                    match (place, value) {
                        (Some(place), Some(value)) => fields[place].1.clone_from(value),
                        (Some(place), None) => drop(fields.remove(place)),
                        (None, Some(value)) => fields.push((name.clone(), value.clone())),
                        (None, None) => {}
                    }
                }
                let version = written?;
                let object = partition.get(table, key, now_ms);
                let value = match object {
                    Some(object) => object.value.to_vec(),
                    // It has expired at once.
                    None => scratch,
                };
                let mut found = self::fields(&value).unwrap();
                found.sort();
                fields.sort();
                assert_eq!(found, fields);
                Some(Object { value, version, expiry_ms })
            }
            Revision::GetAndPut { len, ttl_ms } => {
                let (value, expiry_ms) = (vec![b'9'; *len], expiry(ttl_ms));
                let replaced = partition.get_and_put(table, key, &value, expiry_ms, now_ms)?;
                check_previous(replaced.previous);
                Some(Object { value, version: replaced.version, expiry_ms })
            }
            Revision::GetAndDelete => {
                let before = partition.version();
                let replaced = partition.get_and_delete(table, key, now_ms).unwrap();
                assert_eq!(replaced.version > before, old.is_some());
                check_previous(replaced.previous);
                None
            }
            Revision::Expire { ttl_ms } => {
                let expiry_ms = expiry(ttl_ms);
                let expired = partition.expire(table, key, expiry_ms, STEP_MAX, now_ms);
                let is_same = old.as_ref().is_some_and(|old| old.expiry_ms == expiry_ms);
                let is_long = old.as_ref().is_some_and(|old| old.value.len() > STEP_MAX);
                let refused = matches!(expired, Err(StoreError::OnlyByUpload { .. }));
                assert_eq!(refused, is_long && !is_same);
                let version = expired?;
                assert_eq!(version.is_some(), old.is_some());
                assert_eq!(
                    is_same,
                    old.is_some() && version == old.as_ref().map(|old| old.version)
                );
                old.zip(version).map(|(old, version)| Object { version, expiry_ms, ..old })
            }
        })
    }

    /// What was evicted is of the table that allows it, and is counted; all else stays as it was.
    fn evict(&mut self, of: Option<TableId>, buckets: usize) {
        let may_go = |key: &Key| key.0 == SMALL && of.is_none_or(|of| of == SMALL);
        let evicted = self.partition.evict(of, buckets, self.now_ms);
        let there = self.model.keys().filter(|key| self.expected(key).is_some());
        let there: Vec<Key> = there.cloned().collect();
        let (mut gone, mut left) = (0, 0);
        for key in &there {
            if self.found(key).is_none() && may_go(key) {
                self.model.remove(key);
                gone += 1;
            }
            assert_eq!(self.found(key), self.expected(key), "changed, or gone without leave");
            left += u64::from(may_go(key) && self.expected(key).is_some());
        }
        assert_eq!(evicted.objects, gone);
        assert!(!evicted.is_exhausted || left == 0 && gone == 0);
        assert!(evicted.bytes >= 24 * evicted.objects);
    }

    fn finish(mut self) {
        // To the end of the pass that is under way, and through another.
        for _ in 0..2 {
            while !self.partition.sweep(64, self.now_ms).is_end {}
        }
        assert_eq!(self.partition.sweepable().buried, 0);
        let keys: Vec<Key> = self.model.keys().cloned().collect();
        for key in &keys {
            assert_eq!(self.found(key), self.expected(key));
        }
        let current = keys.iter().filter(|key| self.expected(key).is_some()).count();
        let stats = self.partition.stats();
        assert_eq!(stats.objects, current as u64, "what has expired was met, and is gone");
        self.partition.verify().unwrap();
        for (pin, expected) in &self.pins {
            assert!(**pin == **expected, "a pinned value changed");
        }

        for (table, key) in &keys {
            self.partition.delete(*table, key, self.now_ms).unwrap();
        }
        assert_eq!(self.partition.stats().log_bytes, 0);
        self.pins.clear();
        assert_eq!(self.memory.account().allocated_for(Purpose::Log), 0);
    }
}

const QUOTA_REACHED: StoreError = StoreError::QuotaReached { limit: QUOTA_BYTES };

fn create(partition: &mut Partition, table: TableId, quota: &Arc<Quota>) {
    let quota = (table == SMALL).then(|| Arc::clone(quota));
    let eviction = if table == SMALL { Eviction::LeastRecentlyUsed } else { Eviction::None };
    partition.create_table(TableConfig { id: table, ordered: true, quota, eviction });
}

/// Names and values of the fields, if the value is a record.
fn fields(value: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let fields = Record::parse(value).ok()?.fields();
    Some(fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
}

proptest! {
    #[test]
    fn behaves_as_a_map_does(
        limit_kib in prop_oneof![Just(300_u64), Just(1_500), Just(20_000)],
        seed: u64,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut checked = Checked::new(limit_kib << 10, seed);
        for step in steps {
            checked.take(step);
        }
        checked.finish();
    }
}
