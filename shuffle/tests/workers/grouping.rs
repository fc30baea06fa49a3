//! All values of a key together.

use weft_object::Pair;
use weft_shuffle::{Dataset, KeyAlone, Worker, WorkerConfig, records};

use crate::threads::{run, run_with, share};

fn pairs(worker: &Worker, count: u64, keys: u64) -> impl Dataset<Item = Pair<u64, u64>> {
    records(share(worker, count)).map(move |value| Pair { key: value % keys, value })
}

#[test]
fn a_group_has_all_values_of_its_key_and_keys_come_in_order() {
    for workers in [1, 2, 3, 5] {
        let parts = run(workers, |worker| {
            let groups = pairs(worker, 10_000, 37).group_by_key(|key, values| {
                let mut values: Vec<u64> = values.collect();
                values.sort_unstable();
                (key, values)
            });
            groups.to_vec(worker).unwrap()
        });
        assert!(parts.iter().all(|part| part.is_sorted_by_key(|(key, _)| *key)));
        let mut all: Vec<_> = parts.into_iter().flatten().collect();
        all.sort_unstable();
        let of_key = |key: u64| (key, (key..10_000).step_by(37).collect::<Vec<_>>());
        assert!(all == (0..37).map(of_key).collect::<Vec<_>>(), "{workers}");
    }
}

#[test]
fn values_that_nobody_asks_for_are_passed_over() {
    let parts = run(2, |worker| {
        let firsts = pairs(worker, 10_000, 37)
            .group_by_key(|key, values| values.next().map_or(u64::MAX, |value| value % 37 - key));
        firsts.to_vec(worker).unwrap()
    });
    assert_eq!(parts.concat(), [0; 37]);
}

#[test]
fn a_group_may_be_larger_than_memory() {
    const COUNT: u64 = 3_000_000;
    let with_little_memory = |config| WorkerConfig { memory_bytes: 16 << 20, ..config };
    let parts = run_with(2, with_little_memory, |worker, _| {
        let sums = pairs(worker, COUNT, 1).group_by_key(|key, values| (key, values.sum::<u64>()));
        (sums.to_vec(worker).unwrap(), worker.bytes_spilled())
    });
    let sums: Vec<_> = parts.iter().flat_map(|(sums, _)| sums).collect();
    assert_eq!(sums, [&(0, COUNT * (COUNT - 1) / 2)]);
    assert!(parts.iter().any(|(_, spilled)| *spilled > 16 << 20), "{parts:?}");
}

#[test]
fn a_cogroup_has_keys_of_either_side() {
    for workers in [1, 2, 3] {
        let parts = run(workers, |worker| {
            let right = pairs(worker, 3_000, 40).filter(|pair| pair.key >= 20);
            let left = pairs(worker, 2_000, 30);
            let counts = left.cogroup(right, |key, values, others| {
                (key, values.count(), others.filter(|value| value % 40 == key).count())
            });
            counts.to_vec(worker).unwrap()
        });
        assert!(parts.iter().all(|part| part.is_sorted()));
        let mut all = parts.concat();
        all.sort_unstable();
        let of_key = |key: u64| {
            let left = if key < 30 { (key..2_000).step_by(30).count() } else { 0 };
            let right = if key >= 20 { (key..3_000).step_by(40).count() } else { 0 };
            (key, left, right)
        };
        assert_eq!(all, (0..40).map(of_key).collect::<Vec<_>>(), "{workers}");
    }
}

/// A side that is asked for nothing is passed over, too.
#[test]
fn a_cogroup_tells_what_one_side_lacks() {
    let parts = run(2, |worker| {
        let lacking = pairs(worker, 2_000, 30)
            .cogroup(pairs(worker, 3_000, 25), |key, _, others| {
                others.next().is_none().then_some(key)
            })
            .flat_map(|key| key);
        lacking.to_vec(worker).unwrap()
    });
    let mut all = parts.concat();
    all.sort_unstable();
    assert_eq!(all, [25, 26, 27, 28, 29]);
}

#[test]
fn records_are_distinct_over_all_workers() {
    for workers in [1, 2, 5] {
        let with_type = |config: WorkerConfig| {
            let types = config.types.clone().with::<KeyAlone<u64>>();
            WorkerConfig { types, ..config }
        };
        let parts = run_with(workers, with_type, |worker, _| {
            let numbers = records(share(worker, 10_000)).map(|number| number * 7 % 101);
            numbers.distinct().to_vec(worker).unwrap()
        });
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..101).collect::<Vec<_>>(), "{workers}");
    }
}

/// Also by what has an exchange upstream, which is made once.
#[test]
fn what_is_cached_can_be_gone_through_again_whether_memory_has_room_or_not() {
    const COUNT: u64 = 3_000_000;
    for (memory_bytes, is_spilled) in [(1 << 30, false), (16 << 20, true)] {
        let change = |config| WorkerConfig { memory_bytes, ..config };
        let parts = run_with(2, change, |worker, _| {
            let cached = pairs(worker, COUNT, 10).map(|pair| pair.value).cache(worker).unwrap();
            let expected: Vec<u64> = share(worker, COUNT).collect();
            for _ in 0..2 {
                assert!(cached.to_vec(worker).unwrap() == expected);
            }
            let spilled = worker.bytes_spilled();
            let sorted = pairs(worker, 1_000, 10).sort_by_key().cache(worker).unwrap();
            let stages = worker.stages().stages.len();
            let twice = [sorted.to_vec(worker).unwrap(), sorted.to_vec(worker).unwrap()];
            assert_eq!(twice[0], twice[1]);
            assert_eq!(worker.stages().stages.len(), stages);
            (twice[0].len(), spilled)
        });
        assert_eq!(parts.iter().map(|(count, _)| count).sum::<usize>(), 1_000);
        assert!(parts.iter().all(|(_, spilled)| (*spilled > 0) == is_spilled), "{parts:?}");
    }
}
