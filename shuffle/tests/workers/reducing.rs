//! Values of a key, combined whether memory has room for all keys or not.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Barrier;

use weft_object::{Pair, Record, Text, TextKey};
use weft_shuffle::{Dataset, JobError, Ranges, WorkerConfig, WorkerId, records, worker_of};

use crate::threads::{run_with, share};

/// A word for each number: none, short ones, some that lie in the value of a key and some beside it, and few that take pages; also such that are not ASCII.
fn word(number: u64) -> String {
    match number % 7 {
        0 => (number % 700).to_string(),
        1 => format!("größe-{number}"),
        2 => format!("{number}, which does not lie in the value of a key"),
        3 if number % 1_000 == 3 => format!("{number}").repeat(1_000),
        4 if number % 100 == 4 => String::new(),
        _ => format!("word{number}"),
    }
}

/// Sums up, by `key`, the numbers below `end` and what they are beyond that, and looks at what comes out. Returns how many bytes were spilled.
fn check<K: Ord + Hash + Send>(
    workers: usize,
    end: u64,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    key: impl Fn(u64) -> K + Sync,
) -> u64
where
    Pair<K, u64>: Record,
{
    let change = |config: WorkerConfig| {
        let types = config.types.clone().with::<Pair<Text, u64>>();
        change(WorkerConfig { types, ..config })
    };
    let parts = run_with(workers, change, |worker, _| {
        let numbers = records(share(worker, end)).flat_map(|number| [number, number / 2]);
        let summed = numbers.map(|number| Pair { key: key(number), value: number + 1 });
        let summed = summed.reduce_by_key(|one, other| one + other).to_vec(worker).unwrap();
        let is_here = |pair: &Pair<K, u64>| worker_of(&pair.key, workers) == worker.id();
        assert!(summed.iter().all(is_here), "a key is reduced where its hash says");
        (summed, worker.bytes_spilled())
    });
    let mut expected = BTreeMap::new();
    for number in (0..end).flat_map(|number| [number, number / 2]) {
        *expected.entry(key(number)).or_insert(0) += number + 1;
    }
    let spilled = parts.iter().map(|(_, spilled)| spilled).sum();
    let found = parts.into_iter().flat_map(|(part, _)| part);
    let mut found: Vec<(K, u64)> = found.map(|pair| (pair.key, pair.value)).collect();
    found.sort_unstable();
    assert!(found.into_iter().eq(expected), "{workers} workers: each key once, with its sum");
    spilled
}

/// What is sent and received has room in so much, and this process has more than that already: so tables have none but for the least.
fn with_little_memory(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { memory_bytes: 16 << 20, ..config }
}

fn with_much_memory(config: WorkerConfig) -> WorkerConfig {
    config
}

#[test]
fn texts_are_keys_as_numbers_are() {
    for workers in [1, 2, 3, 5] {
        let spilled =
            check(workers, 20_000, with_much_memory, |number| TextKey::from(&*word(number)));
        assert_eq!(spilled, 0);
    }
}

#[test]
fn keys_that_memory_has_no_room_for_are_combined_by_way_of_files() {
    let end = 1 << 18;
    for workers in [1, 2] {
        let spilled = check(workers, end, with_little_memory, |number| number);
        assert!(spilled > end * 16, "{spilled} bytes: more than once, as parts are divided again");
        let spilled =
            check(workers, end, with_little_memory, |number| TextKey::from(&*word(number)));
        assert!(spilled > end * 16, "{spilled} bytes of texts");
    }
}

#[test]
fn few_keys_need_no_files_however_many_values_they_have() {
    assert_eq!(check(2, 1 << 18, with_little_memory, |number| number % 1_000), 0);
}

#[test]
fn a_text_that_no_message_has_room_for_is_an_error() {
    let types = |config: WorkerConfig| {
        let types = config.types.clone().with::<Pair<Text, u64>>();
        WorkerConfig { types, ..config }
    };
    for (bytes, is_too_long) in [(1_000_000, false), (1 << 20, true)] {
        let met = Barrier::new(2);
        let outcomes = run_with(2, types, |worker, _| {
            // Nobody fails before all have met, and have seen that they have.
            worker.gather(0_u64).unwrap();
            met.wait();
            let text = "x".repeat(bytes);
            let home = worker_of(&TextKey::from(&*text), 2);
            // Only the worker that the text does not belong to has it.
            let texts = (home != worker.id()).then(|| TextKey::from(&*text));
            let pairs = records(texts).map(|key| Pair { key, value: 1_u64 });
            let counted = pairs.reduce_by_key(|one, other| one + other).to_vec(worker);
            if let Err(error) = &counted {
                worker.stop(error);
            }
            counted
        });
        let has_found = |outcome: &Result<Vec<Pair<TextKey, u64>>, JobError>| {
            matches!(outcome, Err(JobError::TooLong { .. }))
        };
        assert_eq!(outcomes.iter().any(has_found), is_too_long, "{bytes}");
        assert_eq!(outcomes.iter().all(Result::is_ok), !is_too_long, "{bytes}");
    }
}

/// What is reduced by index of so many pairs, where worker *w* has as many numbers as `counts` says. Returns how much each worker spilled.
fn check_indices(
    counts: &[u64],
    pairs: u64,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
) -> Vec<u64> {
    let ranges = Ranges::of_counts(counts);
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ranges.total();
    let parts = run_with(counts.len(), change, |worker, _| {
        let numbers = records(share(worker, pairs));
        let summed = numbers.map(|number| Pair { key: key(number), value: number + 1 });
        let summed = summed.reduce_by_index(&ranges, |one, other| one + other);
        (summed.to_vec(worker).unwrap(), worker.bytes_spilled())
    });
    let mut expected = vec![0; ranges.total() as usize];
    (0..pairs).for_each(|number| expected[key(number) as usize] += number + 1);
    for (id, (part, _)) in parts.iter().enumerate() {
        let own = ranges.of(WorkerId(id)).filter(|key| expected[*key as usize] > 0);
        let own = own.map(|key| Pair { key, value: expected[key as usize] });
        assert!(part.iter().copied().eq(own), "worker {id} of {counts:?}: its numbers, in order");
    }
    parts.into_iter().map(|(_, spilled)| spilled).collect()
}

fn even_counts(workers: u64, total: u64) -> Vec<u64> {
    (0..workers).map(|worker| total / workers + worker).collect()
}

#[test]
fn ranges_that_memory_has_no_room_for_are_gone_through_in_windows() {
    for workers in [1, 2, 3, 5] {
        let counts = even_counts(workers, 1 << 22);
        let spilled = check_indices(&counts, 1 << 22, with_little_memory);
        assert!(spilled.iter().all(|bytes| *bytes > 1 << 20), "{spilled:?}");
        let spilled = check_indices(&counts, 1 << 18, with_much_memory);
        assert!(spilled.iter().all(|bytes| *bytes == 0), "{spilled:?}");
    }
}

#[test]
fn ranges_may_be_empty_or_of_very_different_lengths() {
    for change in [with_much_memory, with_little_memory] {
        check_indices(&[0, 600_000, 1, 0, 70], 100_000, change);
        check_indices(&[1], 10, change);
    }
}

#[test]
fn few_numbers_need_no_files_however_many_values_they_have() {
    let spilled = check_indices(&[700, 300], 1 << 20, with_little_memory);
    assert_eq!(spilled, [0, 0]);
}

#[test]
fn a_number_that_no_range_has_is_an_error_whether_memory_has_room_or_not() {
    for change in [with_much_memory, with_little_memory] {
        let errors = run_with(1, change, |worker, _| {
            let ranges = Ranges::of_counts(&[1 << 20]);
            let pairs = records([5_u64, 1 << 20]).map(|key| Pair { key, value: 1_u64 });
            pairs.reduce_by_index(&ranges, |one, other| one + other).to_vec(worker).unwrap_err()
        });
        assert_eq!(errors[0].to_string(), "key 1048576 is outside the 1048576 known ones");
    }
}

/// One of two takes all numbers but a few for the other's; the other has none to send.
#[test]
fn a_worker_that_sends_another_ones_numbers_is_named() {
    for change in [with_much_memory, with_little_memory] {
        let met = Barrier::new(2);
        let outcomes = run_with(2, change, |worker, _| {
            worker.gather(0_u64).unwrap();
            met.wait();
            let counts = if worker.id() == WorkerId(0) { [10, 1 << 20] } else { [1 << 20, 10] };
            let end = if worker.id() == WorkerId(0) { 0 } else { 1 << 18 };
            let pairs = records(share(worker, end)).map(|key| Pair { key, value: 1_u64 });
            let ranges = Ranges::of_counts(&counts);
            let summed = pairs.reduce_by_index(&ranges, |one, other| one + other).to_vec(worker);
            if let Err(error) = &summed {
                worker.stop(error);
            }
            summed.map(drop)
        });
        let Err(JobError::Protocol { worker, stage: 1, what }) = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert_eq!((*worker, *what), (WorkerId(1), "a key that belongs to another worker"));
    }
}
