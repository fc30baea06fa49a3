//! Which objects go when a table makes room, one promise a test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use weft_protocol::{Eviction, TableId};
use weft_server::store::{Evicted, Partition, PartitionConfig, Quota, StoreError, TableConfig};
use weft_transport::{Memory, MemoryConfig};

const CACHE: TableId = TableId(1);
const OTHER: TableId = TableId(2);
/// More than a step looks at.
const BUCKETS_MAX: usize = 512;

/// A partition with a table that evicts so, and another one.
fn partition(eviction: Eviction, other: Eviction, ordered: bool) -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let config = PartitionConfig { id: 3, epoch: 1, seed: 7, memory };
    let mut partition = Partition::new(config).unwrap();
    for (id, eviction) in [(CACHE, eviction), (OTHER, other)] {
        partition.create_table(TableConfig { id, ordered, quota: None, eviction });
    }
    partition
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn put(partition: &mut Partition, table: TableId, number: u64, expiry: Option<u64>, now_ms: u64) {
    partition.put(table, &key(number), b"a value", expiry, now_ms).unwrap();
}

/// Which of the keys up to `count` are left. A scan uses nothing; it looks at a time at which nothing has expired.
fn left(partition: &Partition, table: TableId, count: u64) -> Vec<u64> {
    let (mut left, mut next) = (Vec::new(), Some(0));
    while let Some(position) = next {
        next = partition.scan(table, position, BUCKETS_MAX, 0, |scanned| {
            left.push(u64::from_le_bytes(scanned.key.try_into().unwrap()));
            true
        });
    }
    left.retain(|number| *number < count);
    left
}

/// Evicts `objects`, or some more, and returns how many.
fn evict(partition: &mut Partition, of: Option<TableId>, objects: u64, now_ms: u64) -> u64 {
    let mut evicted = 0;
    while evicted < objects {
        let step = partition.evict(of, BUCKETS_MAX, now_ms);
        assert!(!step.is_exhausted && step.objects > 0 && step.bytes >= 40 * step.objects);
        evicted += step.objects;
    }
    partition.verify().unwrap();
    evicted
}

#[test]
fn what_was_used_lately_stays() {
    const COUNT: u64 = 20_000;
    for ordered in [false, true] {
        let mut partition =
            partition(Eviction::LeastRecentlyUsed, Eviction::LeastRecentlyUsed, ordered);
        // One after the other, a unit of time apart.
        for number in 0..COUNT {
            put(&mut partition, CACHE, number, None, number * 16);
        }
        // Every tenth is read again, all at the end.
        for number in (0..COUNT).step_by(10) {
            assert!(partition.get(CACHE, &key(number), COUNT * 16).is_some());
        }
        let evicted = evict(&mut partition, None, COUNT / 2, (COUNT + 1) * 16);
        let left = left(&partition, CACHE, COUNT);
        assert_eq!(left.len() as u64, COUNT - evicted);
        let read = left.iter().filter(|number| **number % 10 == 0).count();
        assert_eq!(read as u64, COUNT / 10, "none of what was read went");
        // Of what was written last, nothing; of what was written first, nearly all.
        let of = |from: u64, to: u64| {
            let within = left.iter().filter(|at| (from..to).contains(at) && **at % 10 != 0);
            within.count() as f64 / ((to - from) as f64 * 0.9)
        };
        assert!(of(COUNT * 3 / 4, COUNT) > 0.97, "{}", of(COUNT * 3 / 4, COUNT));
        assert!(of(0, COUNT / 4) < 0.1, "{}", of(0, COUNT / 4));
    }
}

#[test]
fn what_expires_soonest_goes_first_and_the_rest_by_its_use() {
    const COUNT: u64 = 8_000;
    let mut partition = partition(Eviction::SoonestExpiry, Eviction::None, false);
    for number in 0..COUNT {
        // Half of it expires: what was written first is there for longest.
        let expiry = (number % 2 == 1).then_some(1 << 30 | (COUNT - number) << 10);
        put(&mut partition, CACHE, number, expiry, number * 16);
    }
    evict(&mut partition, Some(CACHE), COUNT / 4, COUNT * 16);
    let rest = left(&partition, CACHE, COUNT);
    let (kept, expiring): (Vec<u64>, Vec<u64>) = rest.iter().partition(|number| *number % 2 == 0);
    assert_eq!(kept.len() as u64, COUNT / 2, "what does not expire stays");
    let soon = |number: &&u64| **number > COUNT * 3 / 4;
    assert!(expiring.iter().filter(soon).count() < expiring.len() / 20);
    evict(&mut partition, Some(CACHE), COUNT / 2, COUNT * 16);
    let rest = left(&partition, CACHE, COUNT);
    let old = rest.iter().filter(|number| *number % 2 == 0 && **number < COUNT / 4);
    assert!(old.count() < rest.len() / 10, "those that were used least, when nothing expires");
}

#[test]
fn what_has_expired_makes_room_before_anything_else() {
    let mut partition = partition(Eviction::LeastRecentlyUsed, Eviction::None, false);
    for number in 0..1_000 {
        put(&mut partition, CACHE, number, (number % 2 == 0).then_some(5_000), 0);
        put(&mut partition, OTHER, number, (number % 2 == 0).then_some(5_000), 0);
    }
    let mut bytes = 0;
    while partition.stats().expired_removed < 1_000 {
        let step = partition.evict(None, BUCKETS_MAX, 5_000);
        assert_eq!(step.objects, 0, "of what has not");
        bytes += step.bytes;
    }
    assert_eq!(bytes, 1_000 * 48);
    assert!(partition.evict(None, BUCKETS_MAX, 5_000).objects > 0);
}

#[test]
fn tables_that_do_not_allow_it_lose_nothing() {
    for other in [Eviction::None, Eviction::LeastRecentlyUsed] {
        let mut partition = partition(Eviction::LeastRecentlyUsed, other, false);
        let exhausted = Evicted { is_exhausted: true, ..Evicted::default() };
        assert_eq!(partition.evict(None, BUCKETS_MAX, 0), exhausted);
        // One object among many.
        for number in 0..5_000 {
            put(&mut partition, OTHER, number, None, 0);
            put(&mut partition, TableId::DEFAULT, number, None, 0);
        }
        put(&mut partition, CACHE, 1, None, 0);
        let mut steps = 0;
        while partition.evict(Some(CACHE), BUCKETS_MAX, 9_000).objects == 0 {
            steps += 1;
            assert!(steps < 20, "all buckets were looked at");
        }
        assert_eq!(partition.evict(Some(CACHE), BUCKETS_MAX, 9_000), exhausted);
        assert_eq!(left(&partition, OTHER, 5_000).len(), 5_000);
        assert_eq!(left(&partition, TableId::DEFAULT, 5_000).len(), 5_000);
        if other == Eviction::None {
            assert_eq!(partition.evict(None, BUCKETS_MAX, 9_000), exhausted);
        } else {
            assert!(partition.evict(None, BUCKETS_MAX, 9_000).objects > 0);
        }
        // A table that is dropped evicts no more.
        partition.drop_table(OTHER).unwrap();
        assert_eq!(partition.evict(None, BUCKETS_MAX, 9_000).objects, 0);
    }
}

#[test]
fn a_moved_object_keeps_the_time_of_its_use() {
    let mut partition = partition(Eviction::LeastRecentlyUsed, Eviction::None, false);
    let now_ms = 1 << 20;
    for number in 0..20_000 {
        put(&mut partition, CACHE, number, None, 0);
    }
    for number in 0..4_000 {
        assert!(partition.get(CACHE, &key(number), now_ms).is_some());
        partition.delete(CACHE, &key(number + 10_000), now_ms).unwrap();
    }
    let mut moved_bytes = 0;
    let victims: Vec<_> = partition.victims(1.0).collect();
    for mut victim in victims {
        moved_bytes += partition.clean(&mut victim, 1 << 20, now_ms + 4_096).moved_bytes;
    }
    assert!(moved_bytes > 300_000, "{moved_bytes}");
    evict(&mut partition, None, 8_000, now_ms + 8_192);
    let left = left(&partition, CACHE, 4_000);
    assert!(left.len() > 3_990, "{}", left.len());
}

#[test]
fn what_a_table_is_like_is_changed_while_it_is_used() {
    let mut partition = partition(Eviction::None, Eviction::None, true);
    let default = TableId::DEFAULT;
    for number in 0..1_000 {
        put(&mut partition, CACHE, number, None, 1_000);
        put(&mut partition, default, number, None, 1_000);
    }
    let nothing = partition.evict(None, BUCKETS_MAX, 1_000);
    assert_eq!((nothing.objects, nothing.is_exhausted), (0, true));

    let quota = Arc::new(Quota::new(1 << 20));
    let config = |id, quota, eviction| TableConfig { id, ordered: false, quota, eviction };
    let eviction = Eviction::LeastRecentlyUsed;
    partition.alter_table(config(default, Some(Arc::clone(&quota)), eviction));
    let bytes = |partition: &Partition| {
        partition.table_uses().find(|table| table.table == default).unwrap().bytes
    };
    assert_eq!(quota.used_bytes(), bytes(&partition));
    let evicted = evict(&mut partition, None, 100, 2_000);
    assert_eq!(left(&partition, CACHE, 1_000).len(), 1_000, "it was not asked to evict");
    assert_eq!(left(&partition, default, 1_000).len() as u64, 1_000 - evicted);
    assert_eq!(quota.used_bytes(), bytes(&partition));

    // Less than there is: nothing goes by itself, and nothing more is taken.
    quota.set_limit(1);
    let full = partition.put(default, &key(5_000), b"a value", None, 2_000);
    assert_eq!(full, Err(StoreError::QuotaReached { limit: 1 }));
    partition.alter_table(config(default, None, Eviction::None));
    assert_eq!(quota.used_bytes(), 0);
    put(&mut partition, default, 5_000, None, 2_000);
    assert!(partition.evict(None, BUCKETS_MAX, 2_000).is_exhausted);

    // It is ordered still.
    partition.alter_table(config(CACHE, None, eviction));
    evict(&mut partition, Some(CACHE), 100, 2_000);
    partition.drop_table(CACHE).unwrap();
    assert!(partition.evict(None, BUCKETS_MAX, 2_000).is_exhausted);
    partition.verify().unwrap();
}

/// Who evicts may have looked at the clock before others who use objects meanwhile: what was used since is not what was not used for the longest.
#[test]
fn what_is_used_after_the_evictor_has_looked_at_the_clock_stays() {
    let mut partition = partition(Eviction::LeastRecentlyUsed, Eviction::None, false);
    const LOOKED_MS: u64 = 1_000_000;
    for number in 0..2_000 {
        put(&mut partition, CACHE, number, None, LOOKED_MS - 500_000);
    }
    for number in 0..200 {
        assert!(partition.get(CACHE, &key(number), LOOKED_MS + 100).is_some());
    }
    evict(&mut partition, None, 1_000, LOOKED_MS);
    let hot = left(&partition, CACHE, 200).len();
    assert_eq!(hot, 200, "those used since");
}
