//! Joins that memory has no room for, and records that all workers get.

use weft_object::Pair;
use weft_shuffle::{Dataset, WorkerConfig, records};

use crate::threads::{run, run_with, share};

/// Of which one side has a pair each, more than its workers have memory for.
const KEYS: u64 = 2_400_000;

#[test]
fn both_sides_may_be_larger_than_memory() {
    let with_little_memory = |config| WorkerConfig { memory_bytes: 16 << 20, ..config };
    let parts = run_with(2, with_little_memory, |worker, _| {
        let left = records(share(worker, KEYS)).map(|key| Pair { key, value: key + 1 });
        let right = records(share(worker, KEYS)).flat_map(|key| {
            let key = KEYS - 1 - key;
            [Pair { key, value: 0_u64 }, Pair { key, value: 1 }]
        });
        let (mut count, mut sum) = (0_u64, 0_u64);
        let joined =
            left.join(right.filter(|pair| pair.key % 3 == 0)).run(worker, |(key, value, other)| {
                assert_eq!((value, key % 3), (key + 1, 0));
                (count, sum) = (count + 1, sum + key * 2 + other);
                Ok(())
            });
        joined.unwrap();
        (count, sum, worker.bytes_spilled())
    });
    let keys = KEYS / 3;
    assert_eq!(parts.iter().map(|part| part.0).sum::<u64>(), 2 * keys);
    let of_keys: u64 = (0..keys).map(|key| 2 * (2 * 3 * key) + 1).sum();
    assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), of_keys);
    assert!(parts.iter().all(|part| part.2 > 0), "{parts:?}");
}

#[test]
fn all_workers_get_all_records_in_the_order_of_the_workers() {
    for workers in [1, 3] {
        let parts = run(workers, |worker| {
            let own = worker.id().0 as u64 * 10;
            records(own..own + worker.id().0 as u64 + 1).broadcast().to_vec(worker).unwrap()
        });
        let expected: Vec<u64> =
            [0, 10, 11, 20, 21, 22].into_iter().take(if workers == 1 { 1 } else { 6 }).collect();
        assert!(parts.iter().all(|part| *part == expected), "{parts:?}");
    }
}
