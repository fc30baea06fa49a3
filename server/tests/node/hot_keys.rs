//! Hot keys: which keys a node says that it is asked for the most.

use weft_protocol::limits::{HOT_KEY_BYTES_MAX, KEY_MAX};
use weft_protocol::{
    Catalog, Exists, HotKeys, HotKeysReply, Increment, Key, List, MultiDelete, MultiGet, MultiPut,
    Pair, TableId, TableOptions, Truncate, Value,
};

use crate::support::{Client, EPOCH, TABLE, delete, get, put, settings, start, target};

/// What is told of a key.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    table: TableId,
    key: Vec<u8>,
    is_whole_key: bool,
    reads: u64,
    writes: u64,
    error: u64,
}

/// What a node says, and of how many requests.
fn hottest(client: &Client, keys_max: u32) -> (Vec<Told>, u64) {
    let message = client.call(HotKeys { keys_max });
    let reply = HotKeysReply::decode(&message).unwrap();
    let told = reply.keys.iter().map(|key| Told {
        table: key.table,
        key: key.kept.to_vec(),
        is_whole_key: key.is_whole_key(),
        reads: key.reads,
        writes: key.writes,
        error: key.error,
    });
    (told.collect(), reply.requests)
}

fn names(told: &[Told]) -> Vec<(TableId, &[u8])> {
    told.iter().map(|told| (told.table, &told.key[..])).collect()
}

/// Reads `keys` of `table`, as many at a time as fit a request.
fn read_all(client: &Client, table: TableId, keys: &[Vec<u8>]) {
    for keys in keys.chunks(1_000) {
        let keys: Vec<_> = keys.iter().map(|key| Key::new(key).unwrap()).collect();
        let mut rest = &keys[..];
        while !rest.is_empty() {
            let (keys, after) = List::fitting(rest);
            client.call_streamed(MultiGet { table, map_epoch: EPOCH, keys });
            rest = after;
        }
    }
}

/// A fifth, a tenth and a twentieth of 200,000 requests are for a key each, the others for any of 10,000.
#[test]
fn hot_keys_are_found_in_order_within_their_errors() {
    const REQUESTS: usize = 200_000;
    let key_of = |request: usize| match request % 20 {
        0 | 5 | 10 | 15 => b"first".to_vec(),
        1 | 11 => b"second".to_vec(),
        2 => b"third".to_vec(),
        _ => format!("key-{}", request * 7_919 % 10_000).into_bytes(),
    };
    let node = start(settings());
    let client = Client::to(&node);
    let keys: Vec<_> = (0..REQUESTS).map(key_of).collect();
    let (by_one, by_many) = keys.split_at(REQUESTS / 10);
    for keys in by_one.chunks(1_000) {
        client.call_all(keys.iter().map(|key| get(key)));
    }
    read_all(&client, TABLE, by_many);
    // However often counts were halved, so was the number of all requests.
    let (told, requests) = hottest(&client, 10);
    assert_eq!(told.len(), 10);
    let expected = [(&b"first"[..], 0.2), (b"second", 0.1), (b"third", 0.05)];
    for (told, (key, share)) in told.iter().zip(expected) {
        assert_eq!((told.table, &told.key[..], told.is_whole_key), (TABLE, key, true));
        assert_eq!(told.writes, 0);
        let (truth, seen) = (share * requests as f64, told.reads as f64);
        // Six standard deviations: the root of a number of samples is off by a half mostly.
        let least = (seen.sqrt() - 3.0 * 64_f64.sqrt()).max(0.0).powi(2);
        let most = ((seen + told.error as f64).sqrt() + 3.0 * 64_f64.sqrt()).powi(2);
        assert!((least..=most).contains(&truth), "{told:?} of {truth}");
        assert!(told.error as f64 <= requests as f64 / 128.0 + 64.0, "{told:?} of {requests}");
    }
}

#[test]
fn whatever_names_a_key_counts_and_reads_apart_from_writes() {
    let node = start(settings());
    let client = Client::to(&node);
    let key = Key::new(b"written").unwrap();
    let times = 0..1_000;
    client.call_all(times.clone().map(|_| put(b"written", b"1")));
    client.call_all(times.clone().map(|_| Increment {
        target: target(b"written"),
        expires_at_ms: None,
        delta: 1,
    }));
    client.call_all(times.clone().map(|_| delete(b"written")));
    let pair = Pair { key, value: Value::new(b"2").unwrap(), expires_at_ms: None };
    let (pairs, keys) = ([pair; 1_000], [key; 1_000]);
    let (pairs, keys) = (List::fitting(&pairs).0, List::fitting(&keys).0);
    let (table, map_epoch, completion) = (TABLE, EPOCH, None);
    client.call_streamed(MultiPut { table, map_epoch, completion, pairs });
    client.call_streamed(MultiDelete { table, map_epoch, completion, keys });
    let asked = Key::new(b"asked for").unwrap();
    client.call_all(times.clone().map(|_| Exists { table, map_epoch, key: asked }));
    client.call_all(times.map(|_| get(b"asked for")));
    // Not about a key.
    client.stats();
    let (told, _) = hottest(&client, 10);
    assert_eq!(names(&told), [(TABLE, &b"written"[..]), (TABLE, b"asked for")]);
    let kinds: Vec<_> = told.iter().map(|told| (told.reads > 0, told.writes > 0)).collect();
    assert_eq!(kinds, [(false, true), (true, false)]);
    // 5,000 and 2,000; six standard deviations.
    assert!((1_900..9_600).contains(&told[0].writes), "{told:?}");
    assert!((350..5_000).contains(&told[1].reads), "{told:?}");
}

#[test]
fn keys_of_a_dropped_table_leave_and_those_of_a_truncated_one_stay() {
    let node = start(settings());
    let client = Client::to(&node);
    let (dropped, truncated) = (TableId(1), TableId(2));
    assert_eq!(client.create_table("dropped", TableOptions::default()), dropped);
    assert_eq!(client.create_table("truncated", TableOptions::default()), truncated);
    let keys = |count: usize| vec![b"key".to_vec(); count];
    read_all(&client, dropped, &keys(20_000));
    read_all(&client, truncated, &keys(10_000));
    read_all(&client, TABLE, &keys(5_000));
    let key = &b"key"[..];
    let (told, _) = hottest(&client, 10);
    assert_eq!(names(&told), [(dropped, key), (truncated, key), (TABLE, key)]);

    // It is still asked for, though there is nothing in it any more.
    client.call(Truncate { table: truncated, map_epoch: EPOCH });
    client.drop_table("dropped");
    // Who has not heard of it is refused, and counts no less.
    read_all(&client, dropped, &keys(20_000));
    let (told, _) = hottest(&client, 10);
    assert_eq!(names(&told), [(truncated, key), (TABLE, key)]);

    // Nothing of it is said of another table of the same number, which is given out again only after all others.
    let mut again = Catalog::default().with("new", TableOptions::default()).unwrap();
    for _ in 0..2 {
        let passing = again.with("passing", TableOptions::default()).unwrap();
        again = passing.without("passing").unwrap();
    }
    assert_eq!(again.id_of("new"), Ok(dropped));
    node.handler().learn_catalog(&again).unwrap();
    let (told, _) = hottest(&client, 10);
    assert_eq!(names(&told), [(TABLE, key)]);
}

#[test]
fn the_longest_keys_take_no_more_memory_than_the_shortest() {
    let node = start(settings());
    let client = Client::to(&node);
    let session = weft_protocol::stat_name::MEMORY_PURPOSE.to_owned() + "session";
    let before = client.stat(&session);
    let long = |number: usize| vec![b'a' + (number % 26) as u8; KEY_MAX - number % 500];
    let keys: Vec<_> = (0..5_000).map(long).collect();
    read_all(&client, TABLE, &keys);
    // More than there can be is what there is.
    let (told, _) = hottest(&client, u32::MAX);
    assert!((20..=128).contains(&told.len()), "{}", told.len());
    for told in &told {
        assert_eq!((told.is_whole_key, told.key.len()), (false, HOT_KEY_BYTES_MAX));
    }
    assert_eq!(client.stat(&session), before);
    assert_eq!(hottest(&client, 0).0, []);
}
