//! Joins that memory has no room for, and records that all workers get.

use weft_object::Pair;
use weft_shuffle::{Dataset, JobError, Worker, WorkerConfig, records};

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

/// A pair a key.
fn plain(worker: &Worker, count: u64) -> impl Dataset<Item = Pair<u64, u64>> + use<> {
    records(share(worker, count)).map(|key| Pair { key, value: key + 1 })
}

/// Pairs whose key is `often` in so many of a hundred, and else one that no other has.
fn skewed(
    worker: &Worker,
    count: u64,
    often: u64,
    of_hundred: u64,
) -> impl Dataset<Item = Pair<u64, u64>> + use<> {
    records(share(worker, count)).map(move |value| {
        // In no step with how the numbers are shared.
        let is_often = value * 7_919 % 100 < of_hundred;
        Pair { key: if is_often { often } else { value }, value }
    })
}

/// How many pairs of pairs there are, and a sum of all that is in them, by worker.
fn joined(
    worker: &Worker,
    left: impl Dataset<Item = Pair<u64, u64>>,
    right: impl Dataset<Item = Pair<u64, u64>>,
) -> (u64, u64) {
    let (mut count, mut sum) = (0_u64, 0_u64);
    let ran = left.join(right).run(worker, |(key, value, other)| {
        count += 1;
        sum = sum.wrapping_add((key ^ (value << 20) ^ (other << 40)).wrapping_mul(0x9e37_79b9));
        Ok(())
    });
    ran.unwrap();
    (count, sum)
}

/// Left and right are what `sides` makes; they are joined by one worker, whose result is taken for right, and by `workers`.
fn is_spread<D, E>(workers: usize, memory_bytes: u64, sides: impl Fn(&Worker) -> (D, E) + Sync)
where
    D: Dataset<Item = Pair<u64, u64>>,
    E: Dataset<Item = Pair<u64, u64>>,
{
    let with = |workers| {
        let change = |config| WorkerConfig { memory_bytes, ..config };
        run_with(workers, change, |worker, _| {
            let (left, right) = sides(worker);
            (joined(worker, left, right), worker.bytes_spilled())
        })
    };
    let sums = |parts: &[((u64, u64), u64)]| {
        let counts = parts.iter().map(|((count, _), _)| count).sum::<u64>();
        (counts, parts.iter().fold(0_u64, |sum, ((_, part), _)| sum.wrapping_add(*part)))
    };
    let (alone, parts) = (with(1), with(workers));
    assert_eq!(sums(&alone), sums(&parts));
    let mean = sums(&parts).0 as f64 / workers as f64;
    let most = parts.iter().map(|((count, _), _)| *count).max().unwrap() as f64;
    assert!(most < 1.15 * mean, "{parts:?}");
    let has_room = memory_bytes > 100 << 20;
    assert!(parts.iter().all(|(_, spilled)| (*spilled == 0) == has_room), "{parts:?}");
}

#[test]
fn a_key_that_two_fifths_of_one_side_have_keeps_all_workers_busy() {
    for workers in [2, 3, 5] {
        is_spread(workers, 1 << 30, |worker| {
            (skewed(worker, 300_000, 7, 40), plain(worker, 400_000))
        });
        is_spread(workers, 1 << 30, |worker| {
            (plain(worker, 400_000), skewed(worker, 300_000, 7, 40))
        });
    }
}

#[test]
fn frequent_keys_are_spread_though_memory_has_no_room_for_a_side() {
    is_spread(2, 16 << 20, |worker| (plain(worker, 2_400_000), skewed(worker, 1_200_000, 7, 40)));
    is_spread(2, 16 << 20, |worker| (skewed(worker, 2_400_000, 7, 40), plain(worker, 1_200_000)));
}

#[test]
fn a_key_may_be_frequent_on_both_sides() {
    is_spread(2, 1 << 30, |worker| (skewed(worker, 60_000, 7, 10), skewed(worker, 60_000, 7, 10)));
    // Of which each side has another one, too.
    is_spread(2, 1 << 30, |worker| {
        let other = |pair: Pair<u64, u64>| Pair { key: pair.key / 2, ..pair };
        (skewed(worker, 60_000, 7, 10), skewed(worker, 60_000, 14, 10).map(other))
    });
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

#[test]
fn what_goes_to_all_is_kept_in_files_where_memory_has_no_room_for_it() {
    let with_little_memory = |config| WorkerConfig { memory_bytes: 16 << 20, ..config };
    for workers in [1, 2, 3, 5] {
        let end = 1_300_000;
        let parts = run_with(workers, with_little_memory, |worker, _| {
            let shares = (0..workers as u64).flat_map(|from| (from..end).step_by(workers));
            let mut expected = shares;
            let all = records(share(worker, end)).broadcast();
            let outcome = all.run(worker, |number| {
                assert_eq!(Some(number), expected.next());
                Ok(())
            });
            outcome.unwrap();
            assert_eq!(expected.next(), None);
            worker.bytes_spilled()
        });
        assert!(parts.iter().all(|spilled| *spilled > 1 << 20), "{workers}: {parts:?}");
    }
}

#[test]
fn a_small_side_is_joined_within_the_memory_that_there_is_or_not_at_all() {
    for (memory_bytes, count, has_room) in
        [(1 << 30, 1_000_000, true), (16 << 20, 500, true), (96 << 20, 3_000_000, false)]
    {
        let change = |config| WorkerConfig { memory_bytes, ..config };
        let outcomes = run_with(2, change, |worker, _| {
            worker.gather(0_u64).unwrap();
            let large = records(share(worker, 1_000)).map(|key| Pair { key, value: key + 1 });
            let small = records(share(worker, count)).map(|key| Pair { key, value: key + 2 });
            let joined = large.join_small(small).to_vec(worker);
            if let Err(error) = &joined {
                worker.stop(error);
            }
            joined
        });
        let mut joined = Vec::new();
        let mut errors = Vec::new();
        for outcome in outcomes {
            match outcome {
                Ok(part) => joined.extend(part),
                Err(error) => errors.push(error),
            }
        }
        let is_no_room = |error: &JobError| match error {
            JobError::SmallSide { limit_bytes } => *limit_bytes == memory_bytes,
            _ => false,
        };
        assert_eq!(errors.iter().any(is_no_room), !has_room, "{errors:?}");
        joined.sort_unstable();
        let expected = (0..1_000.min(count)).map(|key| (key, key + 1, key + 2));
        assert!(!has_room || joined.into_iter().eq(expected));
    }
}
