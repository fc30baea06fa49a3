//! Sorts, groups and joins of texts, whether memory has room for them or not, beside what a plain program makes of them.

use std::collections::BTreeMap;

use weft_object::{Pair, Text, TextKey};
use weft_shuffle::{Dataset, JobError, KeyAlone, Worker, WorkerConfig, records};

use crate::threads::{run_with, share};

/// A pair of a text and a number.
type Counted = Pair<TextKey, u64>;

type Change = fn(WorkerConfig) -> WorkerConfig;

const PLENTY: Change = with_texts;
const LITTLE: Change = with_little_memory;

/// With the types that pairs with texts need.
fn with_texts(config: WorkerConfig) -> WorkerConfig {
    let types = config.types.clone().with::<Pair<Text, u64>>().with::<KeyAlone<Text>>();
    WorkerConfig { types, ..config }
}

/// What this process has is more than that, so there is room for the least.
fn with_little_memory(config: WorkerConfig) -> WorkerConfig {
    WorkerConfig { memory_bytes: 16 << 20, ..with_texts(config) }
}

/// A text for each number, in no order: none, short ones, some that lie beside the value of a key, few that take pages, and some that are not ASCII.
fn word(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    match number % 7 {
        0 => (mixed % 1_000).to_string(),
        1 => format!(
            "größe-{mixed}, with which comes as much as makes a text of some length, and more than that"
        ),
        2 => format!("{mixed}, which does not lie in the value of a key but beside it"),
        3 if number % 5_000 == 3 => format!("{mixed}").repeat(700),
        4 if number % 100 == 4 => String::new(),
        5 => format!("{:\0<3}", mixed % 100_000),
        _ => format!("word{mixed}"),
    }
}

fn pairs(worker: &Worker, end: u64, key: impl Fn(u64) -> String) -> impl Dataset<Item = Counted> {
    let keyed = move |value| Pair { key: TextKey::from(&*key(value)), value };
    records(share(worker, end)).map(keyed)
}

fn plain(pair: Counted) -> (String, u64) {
    (pair.key.to_string(), pair.value)
}

/// Sorts as many pairs, and looks at what comes out. Returns how many each worker has, and how much was spilled.
fn check_sorted(
    workers: usize,
    end: u64,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    key: impl Fn(u64) -> String + Sync,
) -> (Vec<usize>, u64) {
    let parts = run_with(workers, change, |worker, _| {
        let sorted = pairs(worker, end, &key).sort_by_key().to_vec(worker).unwrap();
        (sorted, worker.bytes_spilled())
    });
    let spilled = parts.iter().map(|(_, spilled)| spilled).sum();
    let counts = parts.iter().map(|(part, _)| part.len()).collect();
    let mut found: Vec<(String, u64)> =
        parts.into_iter().flat_map(|(part, _)| part.into_iter().map(plain)).collect();
    assert!(found.is_sorted_by_key(|(text, _)| text), "worker by worker, by their bytes");
    found.sort_unstable();
    let mut expected: Vec<(String, u64)> = (0..end).map(|number| (key(number), number)).collect();
    expected.sort_unstable();
    assert!(found == expected, "{workers}: the same pairs come out");
    (counts, spilled)
}

fn assert_even(counts: &[usize], of: u64) {
    let most = counts.iter().max().unwrap() * counts.len();
    assert!(most as u64 <= of * 11 / 10, "{counts:?}");
}

#[test]
fn texts_come_in_the_order_of_their_bytes_and_every_worker_has_its_part() {
    let end = 100_000;
    for workers in [1, 2, 3, 5] {
        let (counts, spilled) = check_sorted(workers, end, with_texts, word);
        assert_even(&counts, end);
        assert_eq!(spilled, 0);
    }
}

#[test]
fn texts_that_memory_has_no_room_for_are_sorted_by_way_of_files() {
    for (workers, end) in [(1, 1 << 17), (2, 1 << 18), (3, 1 << 18), (5, 1 << 19)] {
        let (counts, spilled) = check_sorted(workers, end, with_little_memory, word);
        assert_even(&counts, end);
        assert!(spilled > end * 16, "{workers}: {spilled} bytes");
    }
}

#[test]
fn a_text_that_most_pairs_have_is_spread_over_workers() {
    let end = 60_000;
    let often = "a text that lies beside the value of a key";
    let key = |number| if number % 10 < 8 { often.to_owned() } else { word(number) };
    assert_even(&check_sorted(3, end, with_texts, key).0, end);
}

/// Which are not told apart when the workers agree on who gets which.
#[test]
fn texts_that_begin_with_the_same_hundreds_of_bytes_are_sorted_all_the_same() {
    let begin = "ä".repeat(200);
    check_sorted(3, 5_000, with_texts, |number| format!("{begin}{}", word(number)));
    check_sorted(2, 3, with_texts, word);
    check_sorted(2, 0, with_texts, word);
}

#[test]
fn a_group_has_all_values_of_its_text() {
    for (change, workers, end, is_spilled) in [
        (PLENTY, 1, 20_000, false),
        (PLENTY, 3, 20_000, false),
        (PLENTY, 5, 20_000, false),
        (LITTLE, 1, 1 << 17, true),
        (LITTLE, 2, 1 << 18, true),
    ] {
        let parts = run_with(workers, change, |worker, _| {
            let groups = pairs(worker, end, |number| word(number / 2)).group_by_key(
                |key: TextKey, values| {
                    let mut values: Vec<u64> = values.collect();
                    values.sort_unstable();
                    (key.to_string(), values)
                },
            );
            let groups = groups.to_vec(worker).unwrap();
            assert!(groups.is_sorted_by_key(|(text, _)| text.clone()));
            (groups, worker.bytes_spilled())
        });
        let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        (0..end).for_each(|number| expected.entry(word(number / 2)).or_default().push(number));
        let spilled = parts.iter().map(|(_, spilled)| spilled).sum::<u64>();
        assert_eq!(spilled > 0, is_spilled, "{workers}: {spilled} bytes");
        let mut found: Vec<_> = parts.into_iter().flat_map(|(part, _)| part).collect();
        found.sort_unstable();
        assert!(found.into_iter().eq(expected), "{workers}");
    }
}

#[test]
fn a_cogroup_has_texts_of_either_side() {
    for (change, workers, end) in [(PLENTY, 1, 10_000), (PLENTY, 3, 10_000), (LITTLE, 2, 1 << 17)] {
        let parts = run_with(workers, change, |worker, _| {
            let left = pairs(worker, end, word);
            let right = pairs(worker, 2 * end, |number| word(number / 2 + end / 2));
            let counts = left.cogroup(right, |key: TextKey, values, others| {
                (key.to_string(), values.sum::<u64>(), others.count())
            });
            (counts.to_vec(worker).unwrap(), worker.bytes_spilled())
        });
        let mut expected: BTreeMap<String, (u64, usize)> = BTreeMap::new();
        (0..end).for_each(|number| expected.entry(word(number)).or_default().0 += number);
        let right = (0..2 * end).map(|number| word(number / 2 + end / 2));
        right.for_each(|text| expected.entry(text).or_default().1 += 1);
        let spilled = parts.iter().map(|(_, spilled)| spilled).sum::<u64>();
        assert_eq!(spilled > 0, end > 10_000, "{workers}: {spilled} bytes");
        let mut found: Vec<_> = parts.into_iter().flat_map(|(part, _)| part).collect();
        found.sort_unstable();
        let expected = expected.into_iter().map(|(text, (sum, count))| (text, sum, count));
        assert!(found.into_iter().eq(expected), "{workers}");
    }
}

/// How many pairs of pairs there are, and a sum of all that is in them.
fn sums(joined: impl Iterator<Item = (String, u64, u64)>) -> (u64, u64) {
    let (mut count, mut sum) = (0_u64, 0_u64);
    for (text, value, other) in joined {
        count += 1;
        let text = text.bytes().fold(7_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(31));
        sum = sum.wrapping_add((text ^ (value << 20) ^ (other << 40)).wrapping_mul(0x9e37_79b9));
    }
    (count, sum)
}

/// As [`word`], but for one that so many of a hundred pairs have.
fn skewed(number: u64, of_hundred: u64) -> String {
    match number * 7_919 % 100 < of_hundred {
        true => "a text that many pairs have, and that lies beside the value of a key".to_owned(),
        false => word(number),
    }
}

#[test]
fn texts_are_joined_whichever_side_has_many_of_one_and_whatever_memory_has_room_for() {
    let end = 100_000;
    for (change, workers, of_left, of_right, is_small) in [
        (PLENTY, 1, 0, 0, false),
        (PLENTY, 2, 20, 0, false),
        (PLENTY, 3, 0, 20, false),
        (PLENTY, 5, 0, 0, false),
        (PLENTY, 1, 20, 0, true),
        (PLENTY, 3, 0, 0, true),
        (LITTLE, 1, 0, 0, false),
        (LITTLE, 2, 0, 20, false),
    ] {
        let left_key = |number| skewed(number, of_left);
        // Some that the left side does not have, and the frequent one a few times.
        let right_key = |number| match number {
            ..5 => skewed(number, 100),
            _ => skewed(number + end / 2, of_right),
        };
        let parts = run_with(workers, change, |worker, _| {
            let left = pairs(worker, end, left_key);
            let right = pairs(worker, end, right_key);
            let mut joined = Vec::new();
            let mut take = |(key, value, other): (TextKey, u64, u64)| {
                joined.push((key.to_string(), value, other));
                Ok(())
            };
            let ran = match is_small {
                true => left.join_small(right).run(worker, &mut take),
                false => left.join(right).run(worker, &mut take),
            };
            ran.unwrap();
            (sums(joined.into_iter()), worker.bytes_spilled())
        });
        let mut right: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        (0..end).for_each(|number| right.entry(right_key(number)).or_default().push(number));
        let of_key = |number: u64| right.get(&left_key(number)).into_iter().flatten();
        let expected = (0..end)
            .flat_map(|number| of_key(number).map(move |other| (left_key(number), number, *other)));
        let found = parts.iter().fold((0, 0_u64), |(count, sum), ((of_count, of_sum), _)| {
            (count + of_count, sum.wrapping_add(*of_sum))
        });
        assert_eq!(found, sums(expected), "{workers} {of_left} {of_right} {is_small}");
        let has_spilled = parts.iter().any(|(_, spilled)| *spilled > 0);
        let config = change(crate::threads::config(0, 1));
        assert_eq!(has_spilled, config.memory_bytes < 1 << 30, "{workers} {of_left} {of_right}");
    }
}

#[test]
fn texts_are_given_to_all_and_cached() {
    for change in [PLENTY, LITTLE] {
        let end = 200_000;
        let parts = run_with(2, change, |worker, _| {
            let all = pairs(worker, end, word).broadcast().cache(worker).unwrap();
            let once = all.to_vec(worker).unwrap();
            assert!(all.to_vec(worker).unwrap() == once);
            (once.into_iter().map(plain).collect::<Vec<_>>(), worker.bytes_spilled())
        });
        let expected = (0..2).flat_map(|from| (from..end).step_by(2));
        let expected: Vec<_> = expected.map(|number| (word(number), number)).collect();
        let is_little = change(crate::threads::config(0, 1)).memory_bytes < 1 << 30;
        for (found, spilled) in parts {
            assert!(found == expected);
            assert_eq!(spilled > 0, is_little);
        }
    }
}

#[test]
fn a_text_that_no_message_has_room_for_is_an_error_of_sorts_too() {
    let errors = run_with(1, with_little_memory, |worker, _| {
        let text = |number| if number == 5_000 { "x".repeat(1 << 20) } else { "y".repeat(2_000) };
        pairs(worker, 10_000, text).sort_by_key().to_vec(worker).unwrap_err()
    });
    assert!(matches!(&errors[..], [JobError::TooLong { .. }]), "{errors:?}");
}
