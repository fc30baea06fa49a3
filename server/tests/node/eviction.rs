//! A node whose tables make room for what is written.

use weft_protocol::{
    Delete, ErrorCode, Eviction, Get, GetReply, Key, Put, PutReply, ReplyError, TableId,
    TableOptions, Target, Value, stat_name,
};

use crate::support::{Client, Process, put, settings, start, target};

const CACHE: TableId = TableId(1);
/// What a process takes on top of its account.
const ALLOWANCE: u64 = 3 << 20;
const LIMIT: u64 = 64 << 20;
/// What is under way together.
const TOGETHER: usize = 64;

/// Makes a table of these options, number 1.
fn create(client: &Client, options: TableOptions) {
    assert_eq!(client.create_table("cache", options), CACHE);
}

fn of_cache(key: &[u8]) -> Target<'_> {
    Target { table: CACHE, ..target(key) }
}

fn put_in_cache<'a>(key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { target: of_cache(key), expires_at_ms: None, value: Value::new(value).unwrap() }
}

fn is_in_cache(client: &Client, key: &str) -> bool {
    let message =
        client.call(Get { table: CACHE, map_epoch: 1, key: Key::new(key.as_bytes()).unwrap() });
    matches!(GetReply::decode(&message), Ok(GetReply::Found { .. }))
}

/// Many times the memory, through a cache; beside it are objects that nobody may lose.
#[test]
fn a_cache_takes_writes_for_ever_and_nothing_else_is_lost() {
    const KEPT: usize = 8_000;
    const WRITTEN: usize = 250_000;
    const HOT: usize = 1_000;
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    create(&client, TableOptions { eviction: Eviction::LeastRecentlyUsed, ..Default::default() });
    let kept = |number: usize| (format!("kept-{number}"), vec![number as u8; 1_000]);
    for first in (0..KEPT).step_by(TOGETHER) {
        let pairs: Vec<_> = (first..first + TOGETHER).map(kept).collect();
        client.call_all(pairs.iter().map(|(key, value)| put(key.as_bytes(), value)));
    }
    let value = vec![7; 1_000];
    let hot: Vec<_> = (0..HOT).map(|number| format!("hot-{number}")).collect();
    for key in &hot {
        client.call(put_in_cache(key.as_bytes(), &value));
    }
    for first in (0..WRITTEN).step_by(TOGETHER) {
        let keys: Vec<_> =
            (first..first + TOGETHER).map(|number| format!("key-{number}")).collect();
        for reply in client.call_all(keys.iter().map(|key| put_in_cache(key.as_bytes(), &value))) {
            if let Err(ReplyError::Refused(error)) = PutReply::decode(&reply) {
                panic!("{error:?}");
            }
        }
        // All of the hot ones, about three times for each time that the cache's content is another one.
        let hot = hot.iter().cycle().skip(first / TOGETHER * 6 % HOT).take(6);
        client.call_all(hot.map(|key| Get {
            table: CACHE,
            map_epoch: 1,
            key: Key::new(key.as_bytes()).unwrap(),
        }));
    }
    assert!(node.resident_bytes().saturating_sub(before) <= LIMIT + ALLOWANCE);
    assert!(client.stat(stat_name::MEMORY_RESIDENT_BYTES) <= LIMIT);
    for number in 0..KEPT {
        let (key, value) = kept(number);
        assert_eq!(client.get(key.as_bytes()), Some(value), "{key}");
    }
    let still_hot = hot.iter().filter(|key| is_in_cache(&client, key)).count();
    assert!(still_hot > HOT * 95 / 100, "{still_hot}");
    let evicted = client.stat("store.evicted");
    assert!(evicted > (WRITTEN / 2) as u64, "{evicted}");
    assert_eq!(client.stat("store.objects") + evicted, (KEPT + HOT + WRITTEN) as u64 + 48);
    // The store has 48 MiB.
    let live_bytes = client.stat(stat_name::LIVE_BYTES);
    assert!(live_bytes > 44 << 20, "what need not go stays: {live_bytes}");
    node.end();
}

#[test]
fn a_table_that_has_reached_its_quota_makes_room_by_itself() {
    const QUOTA: u64 = 200_000;
    let node = start(settings());
    let client = Client::to(&node);
    let eviction = Eviction::SoonestExpiry;
    create(&client, TableOptions { quota_bytes: Some(QUOTA), eviction, ..Default::default() });
    let value = vec![7; 1_000];
    let write = |key: &str| client.call(put_in_cache(key.as_bytes(), &value));
    for number in 0..5_000 {
        client.put(format!("other-{number}").as_bytes(), b"other");
        PutReply::decode(&write(&format!("key-{number}"))).unwrap();
    }
    let objects = client.stat("store.objects") - 5_000;
    // Each takes 1,032 B of the quota.
    assert!((150..=QUOTA / 1_032).contains(&objects), "{objects}");
    assert_eq!(client.stat("store.evicted"), 5_000 - objects);
    assert_eq!(client.stat("store.evicted_bytes"), (5_000 - objects) * 1_032);
    assert!(is_in_cache(&client, "key-4999"));
    // What no room can be made for is refused, and nothing goes for it.
    let large = vec![7; 200_000];
    let refused = client.refused(put_in_cache(b"large", &large));
    assert_eq!((refused.code, refused.argument), (ErrorCode::QuotaReached, QUOTA));
    assert_eq!(client.stat("store.objects") - 5_000, objects);
    // And the other way: nearly all of it goes for one object.
    PutReply::decode(&client.call(put_in_cache(b"large", &large[..199_000]))).unwrap();
    assert_eq!(client.stat("store.objects"), 5_001);
    client.call(Delete { target: of_cache(b"large") });
    PutReply::decode(&write("again")).unwrap();
}
