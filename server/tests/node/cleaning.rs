//! A node that is nearly full of live objects takes writes for as long as anybody likes.

use std::ops::Range;

use weft_protocol::{PutReply, ReplyError, stat_name};

use crate::support::{Client, Process, put};

const LIMIT: u64 = 64 << 20;
/// What a process takes on top of its account.
const ALLOWANCE: u64 = 3 << 20;
/// What is under way together.
const TOGETHER: usize = 64;
const TOGETHER_BYTES: usize = 128 << 10;
/// What is written between two looks at how full the node is.
const STEP_BYTES: usize = 64 << 10;
/// Longer records lie alone in their segments, which nobody has to empty.
const ALONE: usize = 64 << 10;

/// Of `lens` bytes, another length from object to object.
fn value(lens: &Range<usize>, number: usize, round: usize) -> Vec<u8> {
    let len = lens.start + number * 7_919 % lens.len();
    vec![(number * 31 + round) as u8; len]
}

/// Overwrites objects `numbers`; panics with the first refusal.
fn write(client: &Client, lens: &Range<usize>, numbers: &[usize], round: usize) {
    for numbers in numbers.chunks((TOGETHER_BYTES / lens.end).clamp(1, TOGETHER)) {
        let pairs: Vec<_> = numbers
            .iter()
            .map(|&number| (format!("key-{number}"), value(lens, number, round)))
            .collect();
        let puts = pairs.iter().map(|(key, value)| put(key.as_bytes(), value));
        for reply in client.call_all(puts) {
            if let Err(ReplyError::Refused(error)) = PutReply::decode(&reply) {
                panic!("round {round}, of {lens:?} bytes: {error:?}");
            }
        }
    }
}

/// The whole data set, twenty times, in an order that is another one each time, with nine tenths of the log's memory
/// live.
#[test]
fn twenty_overwrites_of_a_log_at_nine_tenths_find_memory() {
    overwrite_with_live(90, &(700..1_300));
}

/// The same of a few thousand objects, of which what no record fits into at the ends of segments would be much, unless shorter ones
/// come later.
#[test]
fn so_they_do_where_values_are_long() {
    for lens in [4_000..4_001, 16_384..16_385, 33_000..33_001, 70_000..130_000] {
        overwrite_with_live(90, &lens);
    }
}

/// With a little more live, where no two lengths are the same and a segment holds a few records: what they leave unused at the ends is
/// gathered before a write is refused.
#[test]
fn so_they_do_where_few_values_of_all_lengths_share_segments() {
    overwrite_with_live(92, &(1_000..64_000));
}

/// With lengths of which much is left unused, a write that finds no room at all is refused, and what is there is served and can be removed.
#[test]
fn a_write_of_any_length_is_refused_in_the_end() {
    for lens in [1_000..64_000, 20_000..40_000] {
        let node = Process::small();
        let client = Client::at(node.address);
        let put_one = |number: usize| {
            let key = format!("key-{number}");
            let reply = client.call(put(key.as_bytes(), &value(&lens, number, 0)));
            PutReply::decode(&reply).is_ok()
        };
        let full = (0..10_000).find(|&number| !put_one(number)).expect("memory is finite");
        assert!(!put_one(full), "nothing has gone meanwhile");
        assert_eq!(client.get(b"key-7"), Some(value(&lens, 7, 0)));
        for number in (0..full).step_by(2) {
            client.delete(format!("key-{number}").as_bytes());
        }
        assert!(put_one(full));
        node.end();
    }
}

/// Fills `percent` of the log's memory, and overwrites all of it twenty times.
fn overwrite_with_live(percent: u64, lens: &Range<usize>) {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    let mut numbers = Vec::new();
    // What is there for log and index together.
    let store_bytes = LIMIT - (16 << 20);
    loop {
        let first = numbers.len();
        let added: Vec<_> = (first..first + (STEP_BYTES / lens.end).max(1)).collect();
        write(&client, lens, &added, 0);
        numbers.extend(added);
        let live_bytes = client.stat(stat_name::LIVE_BYTES);
        let index_bytes = client.stat("store.index_bytes");
        if live_bytes >= (store_bytes - index_bytes) * percent / 100 {
            break;
        }
    }
    let mut random = 1_u64;
    for round in 1..=20 {
        for last in (1..numbers.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            numbers.swap(last, ((random >> 33) % (last as u64 + 1)) as usize);
        }
        write(&client, lens, &numbers, round as usize);
        let grown = node.resident_bytes().saturating_sub(before);
        assert!(grown <= LIMIT + ALLOWANCE, "round {round}: {grown} bytes more than before");
        let counted = client.stat(stat_name::MEMORY_RESIDENT_BYTES);
        assert!(counted <= LIMIT, "round {round}: {counted} bytes counted");
    }
    for &number in &numbers {
        let found = client.get(format!("key-{number}").as_bytes());
        assert_eq!(found, Some(value(lens, number, 20)), "of key-{number}");
    }
    assert!(client.stat("cleaner.freed_bytes") > 10 * LIMIT || lens.start > ALONE);
    node.end();
}

/// Most of what is written takes the place of something, and memory is left: pages that the log has had are used again
/// instead of fresh ones. A tenth is never written again, so that hardly a segment dies as a whole.
#[test]
fn a_log_that_is_half_dead_stays_small_though_memory_is_left() {
    const OBJECTS: usize = 24_000;
    const LENS: Range<usize> = 700..1_300;
    let node = Process::start(&["--memory", "512MiB", "--poll", "park"], &[]);
    let client = Client::at(node.address);
    let all: Vec<_> = (0..OBJECTS).collect();
    write(&client, &LENS, &all, 0);
    let live_bytes = client.stat(stat_name::LIVE_BYTES);
    let mut random = 1_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % OBJECTS
    };
    let mut last_round = vec![0; OBJECTS];
    for round in 1..=12 {
        let drawn = (0..OBJECTS).map(|_| draw()).filter(|number| number % 10 != 0);
        let mut numbers: Vec<_> = drawn.collect();
        numbers.sort_unstable_by_key(|number| number.wrapping_mul(0x9E37_79B9) % 65_537);
        numbers.dedup();
        write(&client, &LENS, &numbers, round);
        numbers.iter().for_each(|&number| last_round[number] = round);
        if round == 1 {
            assert_eq!(client.stat("cleaner.moved_bytes"), 0, "most of it is live");
        }
        let log_bytes = client.stat("store.log_bytes");
        assert!(log_bytes < live_bytes * 5 / 2, "round {round}: {log_bytes} for {live_bytes}");
    }
    assert_eq!(client.stat(stat_name::LIVE_BYTES), live_bytes);
    assert!(client.stat("cleaner.freed_bytes") > live_bytes);
    for number in all {
        let found = client.get(format!("key-{number}").as_bytes());
        assert_eq!(found, Some(value(&LENS, number, last_round[number])), "of key-{number}");
    }
    node.end();
}
