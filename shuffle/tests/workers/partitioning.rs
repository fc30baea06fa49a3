//! Records that go to a worker that is named, whether memory has room for them or not.

use std::path::PathBuf;

use weft_object::{Pair, Record, Text, TextKey};
use weft_shuffle::{Dataset, JobError, Worker, WorkerConfig, WorkerId, records};

use crate::threads::{run_with, share};

/// More than a chunk of each worker for each worker.
const COUNT: u64 = 3_200_000;

/// In no step with how the numbers are shared.
fn place(number: u64, workers: usize) -> WorkerId {
    WorkerId((number / 7 % 11) as usize % workers)
}

/// What this process has is more than that, so there is room for the least.
fn with_little_memory(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { memory_bytes: 16 << 20, ..config }
}

/// Goes through what comes of the numbers below `count`, each made a record, and returns how much was spilled on each worker.
fn check<R: Record + PartialEq>(
    workers: usize,
    count: u64,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    record: impl Fn(u64) -> R + Sync,
    number: impl Fn(&R) -> u64 + Sync,
) -> Vec<u64> {
    let change = |config: WorkerConfig| {
        let types = config.types.clone().with::<Pair<Text, u64>>();
        change(WorkerConfig { types, ..config })
    };
    run_with(workers, change, |worker, _| {
        let numbers = records(share(worker, count)).map(&record);
        let placed = numbers.partition_by(|record| place(number(record), workers));
        // Those of worker 0 first, and of each in its order.
        let shares = (0..workers as u64).flat_map(|from| (from..count).step_by(workers));
        let mut expected = shares.filter(|number| place(*number, workers) == worker.id());
        let outcome = placed.run(worker, |found| {
            assert!(expected.next().is_some_and(|number| found == record(number)));
            Ok(())
        });
        outcome.unwrap();
        assert_eq!(expected.next(), None);
        worker.bytes_spilled()
    })
}

#[test]
fn all_come_in_order_and_nothing_is_spilled_where_there_is_room() {
    for workers in [1, 2, 3, 5] {
        let spilled = check(workers, 200_000, |config| config, |number| number, |number| *number);
        assert!(spilled.iter().all(|bytes| *bytes == 0), "{spilled:?}");
    }
}

#[test]
fn what_memory_has_no_room_for_comes_in_order_by_way_of_files() {
    for workers in [1, 2, 3, 5] {
        let spilled = check(workers, COUNT, with_little_memory, |number| number, |number| *number);
        assert!(spilled.iter().all(|bytes| *bytes > 1 << 20), "{workers}: {spilled:?}");
    }
}

#[test]
fn texts_are_kept_in_files_too_and_what_they_have_beside_them_counts() {
    let text = |number: u64| match number % 3 {
        0 => number.to_string(),
        1 => format!("{number}, which lies beside the record, and takes more than that does"),
        _ => String::new(),
    };
    let pair = |number| Pair { key: TextKey::from(&*text(number)), value: number };
    let count = 500_000;
    for workers in [1, 3] {
        let spilled = check(workers, count, with_little_memory, pair, |pair| pair.value);
        assert!(spilled.iter().all(|bytes| *bytes > 1 << 20), "{workers}: {spilled:?}");
    }
}

#[test]
fn worker_0_collects_what_it_has_no_room_for_and_the_others_keep_nothing() {
    let parts = run_with(3, with_little_memory, |worker, _| {
        let all = records(share(worker, COUNT)).collect(worker).unwrap();
        let is_all = all.iter().copied().eq((0..3).flat_map(|from| (from..COUNT).step_by(3)));
        (if worker.id() == WorkerId(0) { is_all } else { all.is_empty() }, worker.bytes_spilled())
    });
    assert!(parts.iter().all(|(is_right, _)| *is_right));
    assert!(parts[0].1 > 1 << 20 && parts[1..].iter().all(|(_, spilled)| *spilled == 0));
}

#[test]
fn a_folder_that_nothing_can_be_kept_in_is_named() {
    let nowhere = |config| WorkerConfig {
        spill_folder: PathBuf::from("/no/such/folder"),
        ..with_little_memory(config)
    };
    let all = |worker: &Worker| {
        records(share(worker, COUNT)).partition_by(|_| WorkerId(0)).run(worker, |_| Ok(()))
    };
    let errors = run_with(1, nowhere, |worker, _| all(worker).unwrap_err());
    assert!(matches!(&errors[..], [JobError::Spill { .. }]), "{errors:?}");
}
