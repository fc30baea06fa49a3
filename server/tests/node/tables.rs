//! Tables: who has which, what they hold, and ranges of those that keep their keys in order.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use weft_protocol::limits::KEY_MAX;
use weft_protocol::{
    Catalog, CreateTable, DropTable, ErrorCode, Get, GetReply, Key, Put, PutReply, Range,
    ScanReply, Slot, TableId, TableOptions, TableStats, TableStatsReply, TableUse, Target,
    Truncate, TruncateReply, Value,
};

use crate::support::{Client, EPOCH, TABLE, settings, start, target};

const ORDERED: TableId = TableId(1);

/// The version of the map of a node that founded its cluster, and then made a table.
const WITH_TABLE: u32 = EPOCH + 1;

fn ordered() -> TableOptions {
    TableOptions { ordered: true, ..TableOptions::default() }
}

/// A client of a node with an ordered table, number 1.
fn with_ordered(client: &Client) {
    assert_eq!(client.create_table("ordered", ordered()), ORDERED);
    assert_eq!(client.map_epoch(), WITH_TABLE);
}

fn of_table(table: TableId, key: &[u8]) -> Target<'_> {
    Target { table, ..target(key) }
}

fn put<'a>(table: TableId, key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    Put { target: of_table(table, key), expires_at_ms: None, value: Value::new(value).unwrap() }
}

fn get(client: &Client, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
    let key = Key::new(key).unwrap();
    let message = client.call(Get { table, map_epoch: EPOCH, key });
    match GetReply::decode(&message).unwrap() {
        GetReply::Found { value, .. } => Some(value.to_vec()),
        GetReply::Absent { .. } => None,
    }
}

fn uses(client: &Client) -> Vec<TableUse> {
    TableStatsReply::decode(&client.call(TableStats)).unwrap().tables
}

fn all(objects_max: u32) -> Range<'static> {
    Range {
        table: ORDERED,
        map_epoch: WITH_TABLE,
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
        descending: false,
        objects_max,
        with_values: true,
        slot: Slot::from_number(0).unwrap(),
    }
}

/// Key and value, if that is there.
type Found = (Vec<u8>, Option<Vec<u8>>);

/// The objects of a page, and whether there is more.
fn page(client: &Client, range: Range<'_>) -> (Vec<Found>, bool) {
    let message = client.call(range);
    let page = ScanReply::decode(&message).unwrap();
    assert_eq!(page.version.0, u64::from(WITH_TABLE), "the epoch of the map");
    let owned = page.objects().map(|object| {
        let value = object.value_range.map(|range| message[range].to_vec());
        (object.key.to_vec(), value)
    });
    (owned.collect(), page.cursor != 0)
}

#[test]
fn tables_are_made_and_dropped_and_their_numbers_are_given_out_again() {
    let node = start(settings());
    let client = Client::to(&node);
    assert_eq!(client.catalog(), Catalog::default());
    assert_eq!(client.refused(put(ORDERED, b"key", b"value")).code, ErrorCode::TableUnknown);

    with_ordered(&client);
    let one = Catalog::default().with("ordered", ordered()).unwrap();
    assert_eq!(client.catalog(), one);
    let two = one.with("more", TableOptions::default()).unwrap();
    assert_eq!(client.create_table("more", TableOptions::default()), TableId(2));
    assert_eq!(client.catalog(), two);
    let twice = CreateTable { completion: None, name: "more", options: ordered() };
    assert_eq!(client.refused(twice).code, ErrorCode::TableExists);
    client.call(put(ORDERED, b"key", b"of table 1"));
    client.call(put(TableId(2), b"key", b"of table 2"));
    client.put(b"key", b"of table 0");
    assert_eq!(get(&client, ORDERED, b"key").unwrap(), b"of table 1");
    assert_eq!(get(&client, TableId(2), b"key").unwrap(), b"of table 2");

    client.drop_table("ordered");
    assert_eq!(client.catalog(), two.without("ordered").unwrap());
    let twice = DropTable { completion: None, name: "ordered" };
    assert_eq!(client.refused(twice).code, ErrorCode::TableUnknown);
    let key = Key::new(b"key").unwrap();
    let gone = Get { table: ORDERED, map_epoch: EPOCH, key };
    assert_eq!(client.refused(gone).code, ErrorCode::TableUnknown);
    assert_eq!(client.get(b"key").unwrap(), b"of table 0");
    assert_eq!(get(&client, TableId(2), b"key").unwrap(), b"of table 2");

    // Under the same number, as long after, nothing of the old table is there. The node is told by hand: it takes 65,534 tables for the coordinators to get there.
    let mut again = Catalog::default().with("new", TableOptions::default()).unwrap();
    node.handler().learn_catalog(&again).unwrap();
    assert_eq!(client.catalog(), two.without("ordered").unwrap(), "it is older");
    for _ in 0..2 {
        again = again.with("passing", ordered()).unwrap().without("passing").unwrap();
    }
    assert_eq!(again.id_of("new"), Ok(ORDERED));
    node.handler().learn_catalog(&again).unwrap();
    assert_eq!(get(&client, ORDERED, b"key"), None);
    let range = Range { map_epoch: client.map_epoch(), ..all(1) };
    assert_eq!(client.refused(range).code, ErrorCode::NotOrdered);
}

#[test]
fn a_truncated_table_is_empty_at_once_and_its_memory_comes_back() {
    let node = start(settings());
    let client = Client::to(&node);
    with_ordered(&client);
    let value = vec![7; 10_000];
    for number in 0..500 {
        let name = format!("key-{number}");
        client.call(put(ORDERED, name.as_bytes(), &value));
        client.put(name.as_bytes(), b"stays");
    }
    let before = uses(&client);
    assert_eq!((before[0].table, before[0].objects), (TABLE, 500));
    assert_eq!((before[1].table, before[1].objects), (ORDERED, 500));
    assert!(before[1].bytes > 500 * 10_000 && before[1].bytes < 500 * 10_100);
    let truncate = Truncate { table: ORDERED, map_epoch: EPOCH };
    let removed = TruncateReply::decode(&client.call(truncate)).unwrap().removed;
    assert_eq!(removed, 500);
    assert_eq!(get(&client, ORDERED, b"key-1"), None);
    assert_eq!(uses(&client)[1], TableUse { table: ORDERED, objects: 0, bytes: 0 });
    assert_eq!(page(&client, all(10)), (vec![], false));
    client.call(put(ORDERED, b"key-1", b"new"));
    // Nobody asks for the others any more.
    client.wait_for("store.live_bytes", |live| live < 500 * 100);
    assert_eq!(get(&client, ORDERED, b"key-1").unwrap(), b"new");
    assert_eq!(client.get(b"key-499").unwrap(), b"stays");
    let unknown = Truncate { table: TableId(9), map_epoch: EPOCH };
    assert_eq!(client.refused(unknown).code, ErrorCode::TableUnknown);
}

/// Of a full node, without a pause in which the background could have swept.
#[test]
fn what_was_truncated_makes_room_for_the_next_write() {
    let node = start(settings());
    let client = Client::to(&node);
    with_ordered(&client);
    let value = vec![7; 1_000];
    let written = |table: TableId, number: u32| {
        let reply = client.call(put(table, &number.to_le_bytes(), &value));
        PutReply::decode(&reply).is_ok()
    };
    for table in [TABLE, ORDERED] {
        let count = (0..).find(|number| !written(table, *number)).unwrap();
        assert!(count > 20_000, "{count}");
        let removed = client.call(Truncate { table, map_epoch: EPOCH });
        assert_eq!(TruncateReply::decode(&removed).unwrap().removed, u64::from(count));
        // Of other keys: with one that was there its record would go as it is met.
        for number in 1 << 20..(1 << 20) + count / 2 {
            assert!(written(table, number), "{number} of table {table} was refused");
        }
        client.call(Truncate { table, map_epoch: EPOCH });
    }
}

#[test]
fn what_expired_is_removed_though_nobody_asks_for_it() {
    let node = start(settings());
    let client = Client::to(&node);
    let soon = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Some((now + Duration::from_millis(100)).as_millis() as u64)
    };
    let value = Value::new(b"value").unwrap();
    for number in 0..1_000 {
        let name = format!("key-{number}");
        client.call(Put { target: target(name.as_bytes()), expires_at_ms: soon(), value });
    }
    client.put(b"stays", b"value");
    // A pass begins every five seconds.
    client.wait_for("store.objects", |objects| objects == 1);
    assert_eq!(client.stat("store.expired_removed"), 1_000);
}

#[test]
fn a_table_takes_as_much_as_its_quota_lets_it() {
    let node = start(settings());
    let client = Client::to(&node);
    let small = TableOptions { quota_bytes: Some(100_000), ..TableOptions::default() };
    let (value, table) = (vec![7; 9_900], client.create_table("small", small));
    let names: Vec<_> = (0..12).map(|number| format!("key-{number}")).collect();
    let written = |name: &String| {
        let message = client.call(put(table, name.as_bytes(), &value));
        PutReply::decode(&message).is_ok()
    };
    assert_eq!(names.iter().filter(|name| written(name)).count(), 10);
    let refused = client.refused(put(table, names[11].as_bytes(), &value));
    assert_eq!((refused.code, refused.argument), (ErrorCode::QuotaReached, 100_000));
    assert_eq!(get(&client, table, names[11].as_bytes()), None);
    // In the place of one that is there, and of one that is not any more.
    assert!(written(&names[3]));
    client.call(weft_protocol::Delete { target: of_table(table, names[4].as_bytes()) });
    assert!(written(&names[11]) && !written(&names[4]));
    client.put(b"elsewhere", &value);
    client.call(Truncate { table, map_epoch: EPOCH });
    assert_eq!(names.iter().filter(|name| written(name)).count(), 10);
}

#[test]
fn a_range_is_merged_from_all_partitions() {
    let node = start(settings());
    let client = Client::to(&node);
    with_ordered(&client);
    let mut model = BTreeMap::new();
    for number in 0..3_000_u32 {
        // Not in the order in which they are written.
        let number = number * 7_919 % 3_000;
        let (key, value) = (format!("key-{number:05}"), format!("value {number}"));
        client.call(put(ORDERED, key.as_bytes(), value.as_bytes()));
        model.insert(key.into_bytes(), Some(value.into_bytes()));
    }
    let expected: Vec<_> = model.clone().into_iter().collect();
    // A page after the other.
    let mut found = Vec::new();
    loop {
        let lower = found.last().map(|(key, _): &Found| key.clone());
        let lower = lower.as_deref().map(|key| Key::new(key).unwrap());
        let lower = lower.map_or(Bound::Unbounded, Bound::Excluded);
        let (objects, has_more) = page(&client, Range { lower, ..all(700) });
        assert!(objects.len() <= 700);
        found.extend(objects);
        if !has_more {
            break;
        }
    }
    assert!(found == expected);
    let within = |lower, upper, descending, objects_max| {
        page(&client, Range { lower, upper, descending, ..all(objects_max) })
    };
    let key = |name: &'static [u8]| Key::new(name).unwrap();
    let (from, to) = (key(b"key-00010"), key(b"key-00020"));
    let (objects, has_more) = within(Bound::Included(from), Bound::Excluded(to), false, 1_000);
    assert_eq!((&objects[..], has_more), (&expected[10..20], false));
    let (objects, has_more) = within(Bound::Excluded(from), Bound::Included(to), true, 4);
    let backwards: Vec<_> = expected[17..21].iter().rev().cloned().collect();
    assert_eq!((objects, has_more), (backwards, true));
    assert_eq!(within(Bound::Included(to), Bound::Included(from), false, 10), (vec![], false));
    let without = page(&client, Range { with_values: false, ..all(1) });
    assert_eq!(without, (vec![(expected[0].0.clone(), None)], true));

    let behind = Range { map_epoch: 2, ..all(1) };
    assert_eq!(client.refused(behind).code, ErrorCode::WrongOwner);
    let unordered = Range { table: TABLE, ..all(1) };
    assert_eq!(client.refused(unordered).code, ErrorCode::NotOrdered);
    let unknown = Range { table: TableId(9), ..all(1) };
    assert_eq!(client.refused(unknown).code, ErrorCode::TableUnknown);
}

#[test]
fn a_page_of_a_range_ends_where_its_bytes_do() {
    let node = start(settings());
    let client = Client::to(&node);
    with_ordered(&client);
    let keys: Vec<_> = (0..9_u8).map(|number| vec![number; KEY_MAX]).collect();
    let large = vec![7; 200_000];
    for key in &keys {
        client.call(put(ORDERED, key, &large));
    }
    let mut found = Vec::new();
    loop {
        let last = found.last().map(|key: &Vec<u8>| Bound::Excluded(Key::new(key).unwrap()));
        let lower = last.unwrap_or(Bound::Unbounded);
        let (objects, has_more) = page(&client, Range { lower, ..all(1_000) });
        assert!(!objects.is_empty() || !has_more);
        // Values that are too large for a page are to be got by themselves.
        assert!(objects.iter().all(|(_, value)| value.is_none()));
        found.extend(objects.into_iter().map(|(key, _)| key));
        if !has_more {
            break;
        }
    }
    assert!(found == keys);
}
