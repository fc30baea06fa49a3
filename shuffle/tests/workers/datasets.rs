//! Datasets over several workers.

use std::collections::BTreeMap;

use weft_object::Pair;
use weft_shuffle::{Dataset, Ranges, WorkerId, records, worker_of};

use crate::threads::{run, share};

#[test]
fn values_of_a_key_are_combined_wherever_they_come_from() {
    for workers in [1, 2, 3] {
        let parts = run(workers, |worker| {
            let counts = records(share(worker, 100_000))
                .filter(|number| number % 2 == 0)
                .flat_map(|number| [number % 1000, number % 7])
                .map(|key| Pair { key, value: 1_u64 })
                .reduce_by_key(|one, other| one + other)
                .to_vec(worker)
                .unwrap();
            let is_here = |pair: &Pair<u64, u64>| worker_of(&pair.key, workers) == worker.id();
            assert!(counts.iter().all(is_here), "a key is reduced where its hash says");
            counts
        });
        let mut expected = BTreeMap::new();
        for number in (0..100_000_u64).filter(|number| number % 2 == 0) {
            *expected.entry(number % 1000).or_insert(0) += 1;
            *expected.entry(number % 7).or_insert(0) += 1;
        }
        let found: BTreeMap<u64, u64> =
            parts.iter().flatten().map(|pair| (pair.key, pair.value)).collect();
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), found.len(), "a key is in one place");
        assert_eq!(found, expected, "{workers} workers");
    }
}

#[test]
fn numbers_are_reduced_in_ranges_and_come_in_order() {
    for workers in [1, 2, 3] {
        let counts: Vec<u64> = (0..workers as u64).map(|worker| 5_000 + worker).collect();
        let ranges = Ranges::of_counts(&counts);
        let total = ranges.total();
        let parts = run(workers, |worker| {
            records(share(worker, 10 * total))
                .map(|number| Pair { key: number % total / 2 * 2, value: number as f64 })
                .reduce_by_index(&ranges, |one, other| one + other)
                .to_vec(worker)
                .unwrap()
        });
        let found: Vec<(u64, f64)> =
            parts.iter().flatten().map(|pair| (pair.key, pair.value)).collect();
        let mut expected = BTreeMap::new();
        for number in 0..10 * total {
            *expected.entry(number % total / 2 * 2).or_insert(0.0) += number as f64;
        }
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{workers} workers");
    }
}

#[test]
fn records_go_where_they_are_sent_and_keep_their_order() {
    let parts = run(3, |worker| {
        let here = worker.id();
        let own = (0..50_000_u64).map(move |number| number << 8 | here.0 as u64);
        let moved = records(own)
            .partition_by(|record| WorkerId((record >> 8) as usize % 3))
            .to_vec(worker)
            .unwrap();
        assert!(moved.iter().all(|record| (record >> 8) as usize % 3 == here.0));
        for from in 0..3 {
            let of_one = moved.iter().filter(|record| **record & 0xff == from);
            assert!(of_one.is_sorted(), "what one worker sends stays in order");
        }
        moved.len()
    });
    assert_eq!(parts.iter().sum::<usize>(), 150_000);
}

#[test]
fn worker_0_collects_and_everybody_gathers() {
    let parts = run(3, |worker| {
        let id = worker.id().0 as u64;
        assert_eq!(worker.gather(id * 10).unwrap(), [0, 10, 20]);
        assert_eq!(worker.sum(id as f64).unwrap(), 3.0);
        records([id, id + 100]).collect(worker).unwrap()
    });
    assert_eq!(parts, [vec![0, 100, 1, 101, 2, 102], vec![], vec![]]);
}

#[test]
fn rounds_build_on_one_another() {
    let parts = run(2, |worker| {
        let mut rounds = Vec::new();
        let end = records(share(worker, 1000))
            .iterate(5, |worker, round, numbers| {
                rounds.push(round);
                let all = worker.gather(numbers.len() as u64)?.iter().sum::<u64>();
                assert_eq!(all, 1000, "nothing is lost on the way round");
                // Everything moves to the other worker.
                let other = WorkerId(1 - worker.id().0);
                Ok(records(numbers).map(|number| number + 1).partition_by(move |_| other))
            })
            .to_vec(worker)
            .unwrap();
        assert_eq!(rounds, [0, 1, 2, 3, 4]);
        end
    });
    // After five rounds each has what the other began with.
    assert!(parts[0].iter().all(|number| (number - 5) % 2 == 1));
    assert!(parts[1].iter().all(|number| (number - 5) % 2 == 0));
    assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 1000);
}

#[test]
fn a_plan_does_nothing_until_its_end_is_asked_for() {
    run(2, |worker| {
        let _plan =
            records(0..10_u64).map(|_| -> u64 { panic!("ran") }).partition_by(|_| WorkerId(0));
        worker.gather(1_u64).unwrap();
    });
}

#[test]
fn a_plan_may_have_several_exchanges_one_over_the_other() {
    for workers in [1, 2, 3] {
        let parts = run(workers, |worker| {
            let counted = records(share(worker, 100_000))
                .map(|number| Pair { key: number % 1_000, value: 1_u64 })
                .reduce_by_key(|one, other| one + other);
            let by_count = counted
                .map(|pair| Pair { key: pair.value + pair.key % 10, value: pair.key })
                .reduce_by_key(u64::max)
                .sort_by_key();
            by_count.collect(worker).unwrap()
        });
        // Each of the 1,000 numbers is there 100 times: of those with the same last digit, the largest stays.
        let expected = (0..10).map(|digit| Pair { key: 100 + digit, value: 990 + digit });
        assert_eq!(parts[0], expected.collect::<Vec<_>>(), "{workers} workers");
        assert!(parts[1..].iter().all(Vec::is_empty));
    }
}
