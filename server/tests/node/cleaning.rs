//! A node that is nearly full of live objects takes writes for as long as anybody likes.

use weft_protocol::{PutReply, ReplyError, stat_name};

use crate::support::{Client, Process, put};

const LIMIT: u64 = 64 << 20;
/// What a process takes on top of its account.
const ALLOWANCE: u64 = 3 << 20;
/// What is under way together.
const TOGETHER: usize = 64;

fn value(number: usize, round: usize) -> Vec<u8> {
    vec![(number * 31 + round) as u8; 700 + number % 600]
}

/// Overwrites objects `numbers`; panics with the first refusal.
fn write(client: &Client, numbers: &[usize], round: usize) {
    for numbers in numbers.chunks(TOGETHER) {
        let pairs: Vec<_> =
            numbers.iter().map(|&number| (format!("key-{number}"), value(number, round))).collect();
        let puts = pairs.iter().map(|(key, value)| put(key.as_bytes(), value));
        for reply in client.call_all(puts) {
            if let Err(ReplyError::Refused(error)) = PutReply::decode(&reply) {
                panic!("round {round}: {error:?}");
            }
        }
    }
}

/// The whole data set, twenty times, in an order that is another one each time, with nine tenths of the log's memory
/// live.
#[test]
fn twenty_overwrites_of_a_log_at_nine_tenths_find_memory() {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    let mut numbers = Vec::new();
    // What is there for log and index together.
    let store_bytes = LIMIT - (16 << 20);
    loop {
        let first = numbers.len();
        let added: Vec<_> = (first..first + TOGETHER).collect();
        write(&client, &added, 0);
        numbers.extend(added);
        let live_bytes = client.stat(stat_name::LIVE_BYTES);
        let index_bytes = client.stat("store.index_bytes");
        if live_bytes >= (store_bytes - index_bytes) * 9 / 10 {
            break;
        }
    }
    let mut random = 1_u64;
    for round in 1..=20 {
        for last in (1..numbers.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            numbers.swap(last, ((random >> 33) % (last as u64 + 1)) as usize);
        }
        write(&client, &numbers, round as usize);
        let grown = node.resident_bytes().saturating_sub(before);
        assert!(grown <= LIMIT + ALLOWANCE, "round {round}: {grown} bytes more than before");
        let counted = client.stat(stat_name::MEMORY_RESIDENT_BYTES);
        assert!(counted <= LIMIT, "round {round}: {counted} bytes counted");
    }
    for &number in &numbers {
        let found = client.get(format!("key-{number}").as_bytes());
        assert_eq!(found, Some(value(number, 20)), "of key-{number}");
    }
    assert!(client.stat("cleaner.freed_bytes") > 10 * LIMIT);
    node.end();
}
