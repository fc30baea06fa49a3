//! Values of a key, combined whether memory has room for all keys or not.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Barrier;

use weft_object::{Pair, Record, Text, TextKey};
use weft_shuffle::{Dataset, JobError, WorkerConfig, records, worker_of};

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

#[test]
fn texts_are_keys_as_numbers_are() {
    for workers in [1, 2, 3, 5] {
        let spilled =
            check(workers, 20_000, |config| config, |number| TextKey::from(&*word(number)));
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
