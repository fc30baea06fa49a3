//! A partition against an ordered map: random operations, few keys, little memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_protocol::{TableId, Version};
use weft_server::store::{Cleaned, Partition, PartitionConfig, StoreError, Victim};
use weft_transport::{Memory, MemoryConfig, Purpose, Shared};

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: Key,
        len: usize,
        fill: u8,
        ttl_ms: Option<u64>,
    },
    Delete(Key),
    Get(Key),
    Pin(Key),
    Unpin(prop::sample::Index),
    Wait {
        ms: u64,
    },
    /// Looks which segments of at most so many hundredths of live bytes there are, and takes one of them.
    Choose {
        percent: u8,
        index: prop::sample::Index,
    },
    /// Empties it further.
    Clean {
        budget: usize,
    },
    Verify,
}

type Key = (TableId, Vec<u8>);

#[derive(Clone, Debug, PartialEq)]
struct Object {
    value: Vec<u8>,
    version: Version,
    expiry_ms: Option<u64>,
}

fn key() -> impl Strategy<Value = Key> {
    (0_u16..2, 0_usize..60)
        .prop_map(|(table, number)| (TableId(table), vec![number as u8; number * number / 8]))
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        8 => 0_usize..200,
        3 => 200_usize..40_000,
        1 => 240_000_usize..600_000,
    ];
    prop_oneof![
        12 => (key(), len, any::<u8>(), prop::option::weighted(0.3, 0_u64..50))
            .prop_map(|(key, len, fill, ttl_ms)| Step::Put { key, len, fill, ttl_ms }),
        4 => key().prop_map(Step::Delete),
        4 => key().prop_map(Step::Get),
        2 => key().prop_map(Step::Pin),
        2 => any::<prop::sample::Index>().prop_map(Step::Unpin),
        2 => (0_u64..20).prop_map(|ms| Step::Wait { ms }),
        3 => (30_u8..=100, any::<prop::sample::Index>())
            .prop_map(|(percent, index)| Step::Choose { percent, index }),
        6 => (1_usize..100_000).prop_map(|budget| Step::Clean { budget }),
        1 => Just(Step::Verify),
    ]
}

/// A partition, what it should hold, and what it should still show to those who pinned it.
struct Checked {
    memory: Memory,
    partition: Partition,
    model: BTreeMap<Key, Object>,
    pins: Vec<(Shared, Vec<u8>)>,
    victim: Option<Victim>,
    now_ms: u64,
}

impl Checked {
    fn new(limit_bytes: u64, seed: u64) -> Checked {
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        memory.keep_back(64 << 10);
        let config = PartitionConfig { id: 1, epoch: 1, seed, memory: memory.clone() };
        Checked {
            memory,
            partition: Partition::new(config).unwrap(),
            model: BTreeMap::new(),
            pins: Vec::new(),
            victim: None,
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
                        assert!(matches!(error, StoreError::MemoryLimit(_)), "{error}");
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
            Step::Get(key) => {
                let expected = self.expected(&key);
                assert_eq!(self.found(&key), expected);
                let version = self.partition.exists(key.0, &key.1, self.now_ms);
                assert_eq!(version, expected.map(|object| object.version));
            }
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
            Step::Verify => self.partition.verify().unwrap(),
        }
        let account = self.memory.account();
        assert!(account.allocated_bytes <= account.limit_bytes);
    }

    fn finish(mut self) {
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
