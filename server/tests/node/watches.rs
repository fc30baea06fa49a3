//! Watches: what a node tells of what happens, when, and to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use weft_protocol::{
    ErrorCode, Eviction, Expire, Key, KeyChange, List, MultiDelete, MultiPut, Pair, Put,
    ReplyError, Slot, TableId, TableOptions, TableRemoval, Target, Truncate, Value, Version, Watch,
    WatchEnd, WatchEndReply, WatchEvent, WatchNext, WatchNextReply, WatchReply, Watched, stat_name,
};
use weft_server::limits::{WATCH_LEASE, WATCH_QUEUE_DEFAULT, WATCH_QUEUE_MIN, WATCHES_MAX};

use crate::support::{Client, EPOCH, TABLE, delete, put, settings, start, target};

/// Longer than a test takes.
const LONG_MS: u32 = u32::MAX;
const SENT: &str = "memory.purpose.send";

/// An event.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Key(KeyChange, Vec<u8>, Version),
    Table(TableRemoval, (Slot, Slot), Version),
}

/// The sequence of the first event, and the events; or the code and the argument of the refusal.
type Answer = Result<(u64, Vec<Told>), (ErrorCode, u64)>;

fn key(bytes: &[u8]) -> Watched<'_> {
    Watched::Key(Key::new(bytes).unwrap())
}

fn prefix(bytes: &[u8]) -> Watched<'_> {
    Watched::Prefix(Key::new(bytes).unwrap())
}

fn request(table: TableId, watched: Watched<'_>, queue_bytes: usize) -> Watch<'_> {
    Watch { table, map_epoch: EPOCH, watched, queue_bytes: queue_bytes as u32 }
}

fn open(client: &Client, table: TableId, watched: Watched<'_>) -> WatchReply {
    let request = Watch { map_epoch: client.map_epoch(), ..request(table, watched, 0) };
    WatchReply::decode(&client.call(request)).unwrap()
}

fn next(id: u64, received: u64, wait_ms: u32) -> WatchNext {
    WatchNext { id, received, wait_ms }
}

fn told(message: &[u8]) -> Answer {
    let reply = WatchNextReply::decode(message).map_err(|error| match error {
        ReplyError::Refused(error) => (error.code, error.argument),
        ReplyError::Malformed(error) => panic!("{error}"),
    })?;
    let owned = |event: WatchEvent<'_>| match event {
        WatchEvent::Key { key, change, version } => Told::Key(change, key.to_vec(), version),
        WatchEvent::Table { first_slot, last_slot, change, version } => {
            Told::Table(change, (first_slot, last_slot), version)
        }
    };
    Ok((reply.first, reply.events.iter().map(owned).collect()))
}

fn ask(client: &Client, next: WatchNext) -> Answer {
    told(&client.call(next))
}

/// So many events behind `received`, however many calls that takes.
fn take(client: &Client, id: u64, mut received: u64, count: usize) -> Vec<Told> {
    let mut all = Vec::new();
    while all.len() < count {
        let (first, told) = ask(client, next(id, received, LONG_MS)).unwrap();
        assert_eq!(first, received + 1, "events follow one another");
        received += told.len() as u64;
        all.extend(told);
    }
    all
}

fn written(key: &[u8], version: Version) -> Told {
    Told::Key(KeyChange::Written, key.to_vec(), version)
}

/// A call that waits at the node: another thread makes it, and it has come when this returns to `meanwhile`.
fn while_waiting<T>(
    waits: &Client,
    watches: &Client,
    call: WatchNext,
    meanwhile: impl FnOnce() -> T,
) -> (Answer, T) {
    let before = watches.stat("operations.watch_next");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(waits, call));
        watches.wait_for("operations.watch_next", |count| count > before);
        let done = meanwhile();
        (waiting.join().unwrap(), done)
    })
}

#[test]
fn a_key_is_watched_from_the_version_that_is_told() {
    let node = start(settings());
    let client = Client::to(&node);
    let first = client.put(b"loom", b"oak");
    client.put(b"other", b"ash");
    let there = open(&client, TABLE, key(b"loom"));
    assert_eq!((there.version, there.exists), (first, true));
    // A sixteenth of an eighth of 16 MiB.
    assert_eq!(there.queue_bytes, 128 << 10);
    assert_eq!(u128::from(there.lease_ms), WATCH_LEASE.as_millis());
    let absent = open(&client, TABLE, key(b"warp"));
    assert!(!absent.exists && absent.id != there.id && absent.id != 0);

    let second = client.put(b"loom", b"elm");
    client.put(b"looms", b"two");
    let gone = client.delete(b"loom").version;
    let warp = client.put(b"warp", b"wool");
    assert!(warp > absent.version);
    let expected =
        vec![written(b"loom", second), Told::Key(KeyChange::Deleted, b"loom".to_vec(), gone)];
    assert_eq!(ask(&client, next(there.id, 0, LONG_MS)), Ok((1, expected)));
    assert_eq!(ask(&client, next(absent.id, 0, LONG_MS)), Ok((1, vec![written(b"warp", warp)])));
    // Nothing is deleted, and nothing is told.
    client.delete(b"loom");
    assert_eq!(ask(&client, next(there.id, 2, 0)), Ok((3, vec![])));
}

#[test]
fn who_waits_is_answered_by_the_event_or_at_the_end() {
    let node = start(settings());
    let (waits, client) = (Client::to(&node), Client::to(&node));
    let id = open(&client, TABLE, key(b"loom")).id;
    let call = next(id, 0, LONG_MS);
    let (answer, version) = while_waiting(&waits, &client, call, || client.put(b"loom", b"oak"));
    assert_eq!(answer, Ok((1, vec![written(b"loom", version)])));
    // After the one before, and though nothing happens.
    assert_eq!(ask(&waits, next(id, 1, 50)), Ok((2, vec![])));
    // Others are served meanwhile, on the same connection too.
    let replies = waits.call_all([
        weft_protocol::Request::WatchNext(next(id, 1, LONG_MS)),
        weft_protocol::Request::Put(put(b"loom", b"elm")),
    ]);
    assert_eq!(told(&replies[0]).unwrap().1.len(), 1);
}

#[test]
fn events_stay_until_they_were_received_over_whatever_connection() {
    let node = start(settings());
    let client = Client::to(&node);
    let id = open(&client, TABLE, key(b"loom")).id;
    let versions: Vec<_> = (0..4).map(|_| client.put(b"loom", b"oak")).collect();
    let events: Vec<_> = versions.iter().map(|version| written(b"loom", *version)).collect();
    for _ in 0..2 {
        let other = Client::to(&node);
        assert_eq!(ask(&other, next(id, 0, LONG_MS)), Ok((1, events.clone())));
    }
    assert_eq!(ask(&Client::to(&node), next(id, 2, LONG_MS)), Ok((3, events[2..].to_vec())));
    let malformed = Err((ErrorCode::MalformedRequest, 0));
    assert_eq!(ask(&client, next(id, 1, LONG_MS)), malformed, "it was received");
    assert_eq!(ask(&client, next(id, 5, LONG_MS)), malformed, "it was not told");
    // The connection of one who waits goes, and what happens then is not lost.
    let gone = Client::to(&node);
    let (answer, version) = while_waiting(&gone, &client, next(id, 4, 100), || {
        let other = Client::to(&node);
        let (answer, version) =
            while_waiting(&other, &client, next(id, 4, LONG_MS), || client.put(b"loom", b"elm"));
        assert_eq!(answer, Ok((5, vec![written(b"loom", version)])));
        version
    });
    assert_eq!(answer, Ok((5, vec![])), "another one asks in its place");
    let again = ask(&client, next(id, 4, LONG_MS));
    assert_eq!(again, Ok((5, vec![written(b"loom", version)])));
}

#[test]
fn a_prefix_is_watched_in_all_partitions() {
    let node = start(settings());
    let client = Client::to(&node);
    let id = open(&client, TABLE, prefix(b"yarn:")).id;
    let all = open(&client, TABLE, prefix(b"")).id;
    let names: Vec<_> = (0..300).map(|number| format!("yarn:{number}").into_bytes()).collect();
    let value = Value::new(b"wool").unwrap();
    let pair = |name| Pair { key: Key::new(name).unwrap(), value, expires_at_ms: None };
    let pairs: Vec<_> = names.iter().map(|name| pair(name)).collect();
    let keys: Vec<_> = pairs.iter().map(|pair| pair.key).collect();
    let (pairs, keys) = (List::fitting(&pairs).0, List::fitting(&keys).0);
    let (table, map_epoch, completion) = (TABLE, EPOCH, None);
    client.call_streamed(MultiPut { table, map_epoch, completion, pairs });
    client.put(b"yarn", b"none of them");
    client.call_streamed(MultiDelete { table, map_epoch, completion, keys });
    let mut by_key = BTreeMap::<Vec<u8>, Vec<(KeyChange, Version)>>::new();
    for told in take(&client, id, 0, 600) {
        let Told::Key(change, key, version) = told else { panic!("{told:?}") };
        by_key.entry(key).or_default().push((change, version));
    }
    assert_eq!(by_key.len(), names.len());
    for (key, events) in by_key {
        assert!(names.contains(&key));
        let [(KeyChange::Written, one), (KeyChange::Deleted, other)] = events[..] else {
            panic!("{events:?}")
        };
        assert!(one < other);
    }
    assert_eq!(take(&client, all, 0, 601).len(), 601);
    assert_eq!(ask(&client, next(id, 600, 0)), Ok((601, vec![])));
}

#[test]
fn a_table_that_is_emptied_or_dropped_is_told_by_partition() {
    let node = start(settings());
    let client = Client::to(&node);
    let table = client.create_table("yarns", TableOptions::default());
    let of_table = |name: &[u8]| {
        let target = Target { table, ..target(b"") };
        let target = Target { key: Key::new(name).unwrap(), ..target };
        let value = Value::new(b"wool").unwrap();
        client.call(Put { target, expires_at_ms: None, value });
    };
    let (id, one) = (open(&client, table, prefix(b"")).id, open(&client, table, key(b"k")).id);
    let other = open(&client, TABLE, prefix(b"")).id;
    for number in 0..1_000 {
        of_table(format!("key-{number}").as_bytes());
    }
    of_table(b"k");
    client.call(Truncate { table, map_epoch: EPOCH });
    client.call(Truncate { table, map_epoch: EPOCH });
    let partitions = client.stat(stat_name::PARTITIONS) as usize;
    let events = take(&client, id, 0, 1_001 + partitions);
    let (written, truncated) = events.split_at(1_001);
    let mut newest = BTreeMap::<Slot, Version>::new();
    let mut slots = BTreeSet::new();
    for told in truncated {
        let Told::Table(TableRemoval::Truncated, (first, last), version) = told else {
            panic!("{told:?}")
        };
        assert!((first.number()..=last.number()).all(|slot| slots.insert(slot)), "{told:?}");
        (first.number()..=last.number()).for_each(|slot| {
            newest.insert(Slot::from_number(slot).unwrap(), *version);
        });
    }
    assert_eq!(slots.len(), usize::from(Slot::COUNT), "each partition was emptied once");
    for told in written {
        let Told::Key(KeyChange::Written, key, version) = told else { panic!("{told:?}") };
        assert!(*version <= newest[&Slot::of(key)], "{told:?} is gone");
    }
    // What is written afterwards is newer.
    of_table(b"k");
    let events = take(&client, one, 0, 3);
    let Told::Key(_, _, version) = &events[2] else { panic!("{events:?}") };
    assert!(matches!(events[1], Told::Table(TableRemoval::Truncated, _, at) if at < *version));

    client.drop_table("yarns");
    let received = 1_001 + partitions as u64;
    let events = take(&client, id, received, 1 + partitions);
    let dropped = |told: &&Told| matches!(told, Told::Table(TableRemoval::Dropped, ..));
    assert_eq!(events.iter().filter(dropped).count(), partitions, "{events:?}");
    let received = received + 1 + partitions as u64;
    let over = Err((ErrorCode::TableUnknown, 0));
    assert_eq!(ask(&client, next(id, received, LONG_MS)), over);
    assert_eq!(take(&client, one, 3, 1).iter().filter(dropped).count(), 1);
    assert_eq!(ask(&client, next(one, 4, LONG_MS)), over);
    let gone = Watch { map_epoch: client.map_epoch(), ..request(table, key(b"k"), 0) };
    assert_eq!(client.refused(gone).code, ErrorCode::TableUnknown);
    // Nothing of it is told of other tables.
    assert_eq!(ask(&client, next(other, 0, 0)), Ok((1, vec![])));
}

#[test]
fn a_drop_is_told_to_who_waits() {
    let node = start(settings());
    let (waits, client) = (Client::to(&node), Client::to(&node));
    let table = client.create_table("yarns", TableOptions::default());
    let id = open(&client, table, key(b"k")).id;
    let (answer, ()) = while_waiting(&waits, &client, next(id, 0, LONG_MS), || {
        client.drop_table("yarns");
    });
    let (_, events) = answer.unwrap();
    assert!(matches!(events[..], [Told::Table(TableRemoval::Dropped, ..)]), "{events:?}");
}

#[test]
fn what_expires_or_makes_room_is_told_though_nobody_asks_for_it() {
    let node = start(settings());
    let client = Client::to(&node);
    let lru = TableOptions {
        quota_bytes: Some(64 << 10),
        eviction: Eviction::LeastRecentlyUsed,
        ..TableOptions::default()
    };
    let cache = client.create_table("cache", lru);
    let id = open(&client, cache, prefix(b"")).id;
    let value = [7; 1_000];
    for number in 0..200 {
        let name = format!("key-{number}");
        let target =
            Target { table: cache, key: Key::new(name.as_bytes()).unwrap(), ..target(b"") };
        let value = Value::new(&value).unwrap();
        client.call(Put { target, expires_at_ms: None, value });
    }
    let mut there = BTreeMap::new();
    for told in take(&client, id, 0, 200 + 200 - 64) {
        match told {
            Told::Key(KeyChange::Written, key, version) => drop(there.insert(key, version)),
            Told::Key(KeyChange::Evicted, key, version) => {
                assert_eq!(there.remove(&key), Some(version), "once, and what was there");
            }
            _ => panic!("{told:?}"),
        }
    }
    assert!(there.len() <= 64, "{} do not fit", there.len());

    let id = open(&client, TABLE, key(b"brief")).id;
    let version = client.put(b"brief", b"value");
    client.call(Expire { target: target(b"brief"), expires_at_ms: Some(1) });
    let events = take(&client, id, 0, 3);
    let Told::Key(KeyChange::Written, _, last) = events[1] else { panic!("{events:?}") };
    assert!(last > version);
    assert_eq!(events[2], Told::Key(KeyChange::Expired, b"brief".to_vec(), last));
}

#[test]
fn a_queue_that_was_full_is_told_and_nothing_in_its_place() {
    let node = start(settings());
    let (waits, client) = (Client::to(&node), Client::to(&node));
    let short = request(TABLE, key(b"loom"), 1);
    let reply = WatchReply::decode(&client.call(short)).unwrap();
    assert_eq!(reply.queue_bytes as usize, WATCH_QUEUE_MIN, "no less is of use");
    let fit = WATCH_QUEUE_MIN / 20;
    client.call_all((0..fit).map(|_| put(b"loom", b"oak")));
    let (_, events) = ask(&client, next(reply.id, 0, LONG_MS)).unwrap();
    assert_eq!(events.len(), fit, "it is full and no more");
    assert_eq!(client.stat("watches.fell_behind"), 0);
    client.put(b"loom", b"elm");
    let behind = Err((ErrorCode::FellBehind, fit as u64 + 1));
    for received in [0, fit as u64] {
        assert_eq!(ask(&client, next(reply.id, received, LONG_MS)), behind);
    }
    assert_eq!(client.stat("watches.fell_behind"), 1);

    // One who waits is told as well: no key of this length fits.
    let id = WatchReply::decode(&client.call(request(TABLE, prefix(b""), 1))).unwrap().id;
    let long = [b'k'; WATCH_QUEUE_MIN];
    let (answer, _) =
        while_waiting(&waits, &client, next(id, 0, LONG_MS), || client.put(&long, b"value"));
    assert_eq!(answer, Err((ErrorCode::FellBehind, 1)));
}

#[test]
fn a_watch_that_is_ended_is_unknown() {
    let node = start(settings());
    let (waits, client) = (Client::to(&node), Client::to(&node));
    let (one, all) = (open(&client, TABLE, key(b"loom")).id, open(&client, TABLE, prefix(b"")).id);
    let unknown = Err((ErrorCode::WatchUnknown, 0));
    for id in [one, all] {
        let (answer, ended) =
            while_waiting(&waits, &client, next(id, 0, LONG_MS), || client.call(WatchEnd { id }));
        assert_eq!(WatchEndReply::decode(&ended), Ok(WatchEndReply));
        assert_eq!(answer, unknown);
        assert_eq!(ask(&client, next(id, 0, LONG_MS)), unknown);
        assert_eq!(client.refused(WatchEnd { id }).code, ErrorCode::WatchUnknown);
    }
    assert_eq!(ask(&client, next(one.wrapping_add(1), 0, LONG_MS)), unknown);
    client.put(b"loom", b"oak");
    assert_eq!(client.stat("watches.open"), 0);
}

#[test]
fn there_are_no_more_watches_than_a_node_takes() {
    let node = start(settings());
    let client = Client::to(&node);
    // What replies go by grows where the counters do not fit behind another reply, and stays.
    let has_grown = |puts| {
        for _ in 0..puts {
            client.put(b"first", b"reply");
        }
        // A reply is counted when the next one is written.
        client.stat(SENT);
        client.stat(SENT) > 4 << 10
    };
    assert!((1..200).any(has_grown));
    let before = client.stat(SENT);
    // An eighth of 16 MiB, and a little beside each queue.
    let ids: Vec<_> = (0..15).map(|_| open(&client, TABLE, prefix(b"")).id).collect();
    let kept = client.stat(SENT) - before;
    assert!((15 * (128 << 10)..2 << 20).contains(&kept), "{kept} bytes are charged");
    let refused = client.refused(request(TABLE, prefix(b""), 0));
    assert_eq!(refused.code, ErrorCode::TooManyWatches);
    assert!(refused.detail.contains("bytes are taken"), "{}", refused.detail);
    for id in ids {
        client.call(WatchEnd { id });
    }
    assert_eq!(client.stat(SENT), before);

    let names: Vec<_> = (0..2_000_u32).map(|number| number.to_le_bytes()).collect();
    let opened = client
        .call_all(names.iter().map(|name| request(TABLE, key(name), WATCH_QUEUE_MIN)).take(300));
    let ids: BTreeSet<_> =
        opened.iter().map(|reply| WatchReply::decode(reply).unwrap().id).collect();
    assert_eq!(ids.len(), 300);
    assert_eq!(client.stat("watches.open"), 300);
    client.call_all(ids.iter().map(|id| WatchEnd { id: *id }));
    assert_eq!((client.stat("watches.open"), client.stat(SENT)), (0, before));

    // With more memory it is their number that ends.
    let node = start(weft_server::config::Settings {
        memory: Some("1GiB".parse().unwrap()),
        ..settings()
    });
    let client = Client::to(&node);
    // The default is no more than that.
    let long = open(&client, TABLE, key(b"loom"));
    assert_eq!(long.queue_bytes as usize, WATCH_QUEUE_DEFAULT);
    client.call(WatchEnd { id: long.id });
    let opened =
        client.call_all(names.iter().map(|name| request(TABLE, key(name), 1)).take(WATCHES_MAX));
    assert!(opened.iter().all(|reply| WatchReply::decode(reply).is_ok()));
    let refused = client.refused(request(TABLE, key(b"one more"), 1));
    assert_eq!(refused.code, ErrorCode::TooManyWatches);
    assert!(refused.detail.contains(&WATCHES_MAX.to_string()), "{}", refused.detail);
    let id = WatchReply::decode(&opened[7]).unwrap().id;
    client.put(&names[7], b"value");
    assert_eq!(take(&client, id, 0, 1).len(), 1);
    client.call(WatchEnd { id });
    open(&client, TABLE, key(b"one more"));
}

#[test]
fn what_is_not_the_nodes_is_not_watched() {
    let node = start(settings());
    let client = Client::to(&node);
    let other_map = Watch { map_epoch: EPOCH + 1, ..request(TABLE, prefix(b""), 0) };
    let refused = client.refused(other_map);
    assert_eq!((refused.code, refused.argument), (ErrorCode::WrongOwner, u64::from(EPOCH)));
    for watched in [key(b"loom"), prefix(b"lo")] {
        let refused = client.refused(request(TableId(9), watched, 0));
        assert_eq!(refused.code, ErrorCode::TableUnknown);
    }
    assert_eq!(client.stat("watches.open"), 0, "nothing is left of them");
}

#[test]
fn who_waits_is_told_that_the_node_is_being_stopped() {
    let node = start(settings());
    let (waits, client) = (Client::to(&node), Client::to(&node));
    let id = open(&client, TABLE, key(b"loom")).id;
    let stop = || node.stop().unwrap();
    let (answer, ()) = while_waiting(&waits, &client, next(id, 0, LONG_MS), stop);
    assert_eq!(answer, Err((ErrorCode::ShuttingDown, 0)));
}

/// Writers of several keys at once, each of which knows the versions of its own key, and a few who watch.
#[test]
fn every_version_of_a_key_is_told_once_and_in_order_while_many_write() {
    const WRITERS: usize = 4;
    const WRITES: usize = 3_000;
    let node = start(settings());
    let client = Client::to(&node);
    let names: Vec<_> = (0..WRITERS).map(|number| format!("key-{number}").into_bytes()).collect();
    let all =
        WatchReply::decode(&client.call(request(TABLE, prefix(b"key-"), 1 << 20))).unwrap().id;
    let one = open(&client, TABLE, key(&names[0])).id;
    let write = |name: &Vec<u8>| {
        let client = Client::to(&node);
        let mut versions = Vec::new();
        for round in 0..WRITES / 50 {
            if round % 7 == 6 {
                versions.push((
                    KeyChange::Deleted,
                    weft_protocol::DeleteReply::decode(&client.call(delete(name))).unwrap().version,
                ));
            }
            let replies = client.call_all((0..50).map(|_| put(name, b"value")));
            let version = |reply: &Vec<u8>| weft_protocol::PutReply::decode(reply).unwrap().version;
            versions.extend(replies.iter().map(|reply| (KeyChange::Written, version(reply))));
        }
        versions
    };
    let (expected, told_all, told_one) = thread::scope(|scope| {
        let count = WRITES + WRITES / 50 / 7;
        let node = &node;
        let watch = |id, count| scope.spawn(move || take(&Client::to(node), id, 0, count));
        let (all, one) = (watch(all, count * WRITERS), watch(one, count));
        let writers: Vec<_> = names.iter().map(|name| scope.spawn(|| write(name))).collect();
        let expected: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        (expected, all.join().unwrap(), one.join().unwrap())
    });
    let of = |events: &[Told], name: &Vec<u8>| {
        let change = |told: &Told| match told {
            Told::Key(change, key, version) => (key == name).then_some((*change, *version)),
            Told::Table(..) => panic!("{told:?}"),
        };
        events.iter().filter_map(change).collect::<Vec<_>>()
    };
    for (name, expected) in names.iter().zip(&expected) {
        assert!(expected.is_sorted_by(|(_, one), (_, other)| one < other));
        assert_eq!(of(&told_all, name), *expected);
    }
    assert_eq!(of(&told_one, &names[0]), expected[0]);
}
