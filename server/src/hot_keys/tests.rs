use std::time::Duration;

use weft_protocol::limits::{HOT_KEY_BYTES_MAX, KEY_MAX};
use weft_transport::MemoryConfig;

use super::*;

const TABLE: TableId = TableId::DEFAULT;

fn hot_keys() -> HotKeys {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
    HotKeys::new(&memory, 7, Time::ZERO).unwrap()
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

/// Has `count` samples of `key` counted.
fn count(hot_keys: &HotKeys, key: &[u8], count: usize, now: Time) {
    for _ in 0..count {
        hot_keys.count(TABLE, key, Access::Read, now);
    }
}

fn told(hot_keys: &HotKeys, now: Time) -> Hottest {
    hot_keys.hottest(usize::MAX, |_| true, now)
}

fn number_of(key: &KeyHeat<'_>) -> usize {
    str::from_utf8(key.kept).unwrap().parse().unwrap()
}

/// Keys that are asked for as words are used in texts, in an order that is no order: what is found is what is hot, as often as it was
/// asked for within what sampling and counters leave open.
#[test]
fn the_hottest_of_many_keys_are_found_in_order() {
    const REQUESTS: usize = 200_000;
    const KEYS: usize = 20_000;
    let harmonic: f64 = (1..=KEYS).map(|rank| 1.0 / rank as f64).sum();
    let ends: Vec<f64> = (1..=KEYS)
        .scan(0.0, |end, rank| {
            *end += 1.0 / rank as f64 / harmonic;
            Some(*end)
        })
        .collect();
    let hot_keys = hot_keys();
    let (mut sampler, mut exact) = (hot_keys.sampler(), vec![0_u64; KEYS]);
    for request in 0..REQUESTS {
        let place = (request as f64 * 0.618_033_988_749_895).fract();
        let rank = ends.partition_point(|end| *end <= place).min(KEYS - 1);
        exact[rank] += 1;
        if sampler.is_due() {
            let access = if request % 10 == 0 { Access::Write } else { Access::Read };
            hot_keys.count(TABLE, rank.to_string().as_bytes(), access, Time::ZERO);
        }
    }
    let hottest = told(&hot_keys, at(1.0));
    let reply = hottest.reply();
    let one_in = f64::from(HOT_KEYS_SAMPLED_ONE_IN);
    assert_eq!((reply.covered_ms, reply.sampled_one_in), (1_000, HOT_KEYS_SAMPLED_ONE_IN));
    let off = (reply.requests as f64 - REQUESTS as f64).abs();
    assert!(off < 3.0 * (REQUESTS as f64 * one_in).sqrt(), "{} requests", reply.requests);
    assert_eq!(reply.keys[..4].iter().map(number_of).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(reply.keys.len(), HOT_KEYS_COUNTED);
    for key in &reply.keys[..10] {
        let truth = exact[number_of(key)] as f64;
        let (seen, all) = (key.requests() as f64, (key.requests() + key.error) as f64);
        // Three standard deviations, in terms of the root of the count, which have about the same size everywhere.
        let least = (seen.sqrt() - 1.5 * one_in.sqrt()).max(0.0).powi(2);
        let most = (all.sqrt() + 1.5 * one_in.sqrt()).powi(2);
        assert!((least..=most).contains(&truth), "{key:?} was asked for {truth} times");
        assert!(key.error as f64 <= reply.requests as f64 / HOT_KEYS_COUNTED as f64 + one_in);
    }
    let (reads, writes) = (reply.keys[0].reads as f64, reply.keys[0].writes as f64);
    assert!((0.05..0.15).contains(&(writes / (reads + writes))), "{:?}", reply.keys[0]);
    let few = hot_keys.hottest(2, |_| true, at(1.0));
    assert_eq!(few.reply().keys[..], reply.keys[..2]);
}

#[test]
fn counts_and_the_time_that_they_stand_for_are_halved_together() {
    let hot_keys = hot_keys();
    let every = HOT_KEYS_HALVED_EVERY.as_secs_f64();
    // As much in each second.
    for second in 0..60 {
        count(&hot_keys, b"steady", 8, at(f64::from(second)));
        let hottest = told(&hot_keys, at(f64::from(second) + 0.999));
        let reply = hottest.reply();
        let rate = reply.keys[0].requests() as f64 / (reply.covered_ms as f64 / 1e3);
        let expected = 8.0 * f64::from(HOT_KEYS_SAMPLED_ONE_IN);
        assert!((rate / expected - 1.0).abs() < 0.01, "{rate} for {expected} in second {second}");
        assert!(reply.covered_ms as f64 <= 2e3 * every);
    }
    // A key that is hotter now than another one was is above it, though the sum over all time is less.
    count(&hot_keys, b"new", 100, at(60.0));
    assert_eq!(told(&hot_keys, at(60.0)).reply().keys[0].kept, b"new");
    // Nobody asks for anything any more.
    let reply_at = |seconds| {
        let hottest = told(&hot_keys, at(seconds));
        let reply = hottest.reply();
        (reply.keys.len(), reply.requests, reply.covered_ms)
    };
    let (keys, requests, _) = reply_at(60.0 + 2.0 * every);
    assert!(keys == 2 && requests > 0);
    assert_eq!(reply_at(60.0 + 20.0 * every), (0, 0, 9_999));
    let (keys, requests, covered_ms) = reply_at(60.0 + 1e9);
    assert!(keys == 0 && requests == 0 && covered_ms <= 20_000, "{covered_ms}");
    count(&hot_keys, b"again", 4, at(60.0 + 1e9));
    assert_eq!(told(&hot_keys, at(60.0 + 1e9)).reply().keys[0].requests(), 256);
}

#[test]
fn a_thread_that_comes_late_sets_no_clock_back() {
    let hot_keys = hot_keys();
    count(&hot_keys, b"key", 2, at(12.0));
    count(&hot_keys, b"key", 2, at(9.0));
    let hottest = told(&hot_keys, at(12.0));
    assert_eq!(hottest.reply().keys[0].requests(), 256);
    assert_eq!(hottest.reply().covered_ms, 7_000, "half of ten seconds, and two");
}

#[test]
fn a_sample_waits_for_nobody_and_what_is_missed_raises_the_counts() {
    let hot_keys = hot_keys();
    count(&hot_keys, b"hot", 30, Time::ZERO);
    count(&hot_keys, b"warm", 10, Time::ZERO);
    let taken = hot_keys.counts.lock();
    count(&hot_keys, b"whatever", 40, Time::ZERO);
    drop(taken);
    let hottest = told(&hot_keys, Time::ZERO);
    let reply = hottest.reply();
    assert_eq!((reply.requests, reply.sampled_one_in), (80 * 64, 128));
    let requests: Vec<_> = reply.keys.iter().map(|key| (key.kept, key.requests())).collect();
    assert_eq!(requests, [(&b"hot"[..], 60 * 64), (b"warm", 20 * 64)]);
    // They fade like the others.
    assert_eq!(told(&hot_keys, at(10.0)).reply().requests, 40 * 64);
}

#[test]
fn what_is_kept_is_charged_once_and_for_all() {
    let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
    let hot_keys = HotKeys::new(&memory, 7, Time::ZERO).unwrap();
    let charged = memory.account().allocated_for(Purpose::Session);
    let kept_bytes = (HOT_KEYS_COUNTED * HOT_KEY_BYTES_MAX) as u64;
    assert!((kept_bytes..2 * kept_bytes).contains(&charged), "{charged}");
    for number in 0..1_000 {
        count(&hot_keys, &vec![number as u8; KEY_MAX - number], 1, Time::ZERO);
    }
    assert_eq!(memory.account().allocated_for(Purpose::Session), charged);
    let hottest = told(&hot_keys, Time::ZERO);
    assert!(hottest.reply().keys.iter().all(|key| !key.is_whole_key() && key.kept.len() == 256));
    drop(hot_keys);
    assert_eq!(memory.account().allocated_bytes, 0);
    let too_small = Memory::new(MemoryConfig { limit_bytes: 1 << 14 }).unwrap();
    assert!(HotKeys::new(&too_small, 7, Time::ZERO).is_err());
}

#[test]
fn keys_of_tables_that_are_gone_are_not_told() {
    let hot_keys = hot_keys();
    count(&hot_keys, b"key", 1, Time::ZERO);
    hot_keys.count(TableId(3), b"key", Access::Write, Time::ZERO);
    let tables = |is_there: fn(TableId) -> bool| -> Vec<_> {
        let hottest = hot_keys.hottest(9, is_there, Time::ZERO);
        hottest.reply().keys.iter().map(|key| key.table).collect()
    };
    assert_eq!(tables(|_| true), [TABLE, TableId(3)]);
    assert_eq!(tables(|table| table == TABLE), [TABLE]);
    hot_keys.keep_tables(|table| table == TABLE);
    assert_eq!(tables(|_| true), [TABLE]);
}
