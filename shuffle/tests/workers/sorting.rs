//! Records in the order of their keys, whether memory has room for them or not.

use std::path::PathBuf;

use weft_object::Pair;
use weft_shuffle::{Dataset, JobError, WorkerConfig, records};

use crate::threads::{run, run_with, share};

/// Numbers in no order: each of those below `end` comes once, if that is a power of two.
fn mixed(number: u64, end: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % end
}

/// Sorts what `key` says of the numbers below `end` that are a worker's, and looks at what comes out. Returns how many records each worker has.
fn check(
    workers: usize,
    end: u64,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    key: impl Fn(u64) -> u64 + Sync,
) -> (Vec<usize>, u64) {
    let parts = run_with(workers, change, |worker, _| {
        let unsorted =
            records(share(worker, end)).map(|number| Pair { key: key(number), value: number });
        let sorted = unsorted.sort_by_key().to_vec(worker).unwrap();
        (sorted, worker.bytes_spilled())
    });
    let found: Vec<Pair<u64, u64>> = parts.iter().flat_map(|(part, _)| part).copied().collect();
    assert!(found.is_sorted_by_key(|pair| pair.key), "worker by worker, all are in order");
    let mut found: Vec<(u64, u64)> = found.into_iter().map(|pair| (pair.key, pair.value)).collect();
    found.sort_unstable();
    let mut expected: Vec<(u64, u64)> = (0..end).map(|number| (key(number), number)).collect();
    expected.sort_unstable();
    assert!(found == expected, "the same records come out");
    (parts.iter().map(|(part, _)| part.len()).collect(), parts.iter().map(|(_, bytes)| bytes).sum())
}

fn assert_even(counts: &[usize], of: u64) {
    let most = counts.iter().max().unwrap() * counts.len();
    assert!(most as u64 <= of * 11 / 10, "{counts:?}");
}

/// What is sent and received has room in so much, and this process has more than that already: so what waits has none.
fn with_little_memory(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { memory_bytes: 8 << 20, ..config }
}

#[test]
fn all_records_come_in_order_and_every_worker_has_its_part() {
    let end = 1 << 17;
    for workers in [1, 2, 3, 5] {
        let (counts, spilled) = check(workers, end, |config| config, |number| mixed(number, end));
        assert_even(&counts, end);
        assert_eq!(spilled, 0);
    }
}

#[test]
fn what_is_sorted_already_goes_to_its_worker_all_the_same() {
    let end = 50_000;
    for key in [|number| number, |number| u64::MAX - number] {
        let (counts, _) = check(3, end, |config| config, key);
        assert_even(&counts, end);
    }
}

#[test]
fn a_key_that_most_records_have_is_spread_over_workers() {
    let end = 100_000;
    let (counts, _) =
        check(3, end, |config| config, |number| if number % 10 < 8 { 7 } else { number });
    assert_even(&counts, end);
    let (counts, _) = check(2, end, |config| config, |_| 7);
    assert_even(&counts, end);
}

#[test]
fn few_records_and_none_are_sorted_too() {
    for end in [0, 1, 2, 5] {
        check(3, end, |config| config, |number| 10 - number);
    }
}

#[test]
fn what_memory_has_no_room_for_is_sorted_by_way_of_files() {
    let end = 1 << 19;
    for workers in [1, 2] {
        let (counts, spilled) =
            check(workers, end, with_little_memory, |number| mixed(number, end));
        assert_even(&counts, end);
        assert!(spilled > end * 16 / 2, "{spilled} bytes of {}", end * 16);
    }
}

#[test]
fn a_folder_that_nothing_can_be_kept_in_is_named() {
    let nowhere = |config| WorkerConfig {
        spill_folder: PathBuf::from("/no/such/folder"),
        ..with_little_memory(config)
    };
    let end = 1 << 19;
    let errors = run_with(1, nowhere, |worker, _| {
        let unsorted =
            records(share(worker, end)).map(|number| Pair { key: number, value: number });
        unsorted.sort_by_key().to_vec(worker).unwrap_err()
    });
    let [JobError::Spill { folder, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(folder.as_path(), "/no/such/folder");
    assert!(errors[0].to_string().contains("--spill-dir"), "{}", errors[0]);
}

/// Those that send wait for one that takes nothing, and go on when it does.
#[test]
fn who_is_slow_is_waited_for() {
    let end = 1 << 18;
    let parts = run(3, |worker| {
        let unsorted = records(share(worker, end)).map(|number| {
            if worker.id().0 == 0 && number % 30_000 == 0 {
                std::hint::black_box((0..5_000_000_u64).map(std::hint::black_box).sum::<u64>());
            }
            Pair { key: mixed(number, end), value: number }
        });
        let sorted = unsorted.sort_by_key();
        let mut seen = 0_u64;
        sorted
            .run(worker, |_| {
                seen += 1;
                Ok(())
            })
            .unwrap();
        seen
    });
    assert_eq!(parts.iter().sum::<u64>(), end);
}
