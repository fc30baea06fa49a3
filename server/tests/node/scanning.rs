//! What scans answer, and that they come to an end.

use std::collections::BTreeMap;

use weft_protocol::limits::SCAN_PAGE_BYTES;
use weft_protocol::{
    ErrorCode, Expire, Key, List, MultiPut, Pair, Scan, ScanReply, Slot, TableId, Value, Version,
};
use weft_server::config::Settings;

use crate::support::{Client, TABLE, settings, start, target};

fn scan(cursor: u64) -> Scan<'static> {
    Scan {
        table: TABLE,
        map_epoch: 1,
        key_prefix: Key::new(b"").unwrap(),
        objects_max: 1_000,
        with_values: false,
        slot: Slot::from_number(0).unwrap(),
        cursor,
    }
}

/// A node with one partition.
fn undivided() -> Settings {
    Settings { partitions: Some(1.try_into().unwrap()), ..settings() }
}

fn put_all<'a>(client: &Client, names: impl Iterator<Item = &'a String>, value: &[u8]) {
    let value = Value::new(value).unwrap();
    let pairs: Vec<_> = names
        .map(|name| Pair { key: Key::new(name.as_bytes()).unwrap(), value, expires_at_ms: None })
        .collect();
    let mut rest = &pairs[..];
    while !rest.is_empty() {
        let (pairs, _) = List::fitting(rest);
        let request = MultiPut { table: TABLE, map_epoch: 1, completion: None, pairs };
        client.call_streamed(request);
        rest = &rest[pairs.len()..];
    }
}

/// Key, version and value if it is there.
type Found = (Vec<u8>, Version, Option<Vec<u8>>);

/// All pages of the node's one partition.
fn pages(client: &Client, first: Scan<'_>) -> Vec<Vec<Found>> {
    let (mut pages, mut cursor) = (Vec::new(), 0);
    loop {
        let message = client.call(Scan { cursor, ..first });
        let page = ScanReply::decode(&message).unwrap();
        assert_eq!(page.last_slot.number(), Slot::COUNT - 1);
        let owned = page.objects().map(|object| {
            let value = object.value_range.map(|range| message[range].to_vec());
            (object.key.to_vec(), object.version, value)
        });
        pages.push(owned.collect());
        cursor = page.cursor;
        if cursor == 0 {
            return pages;
        }
    }
}

#[test]
fn every_object_is_in_one_page() {
    let node = start(undivided());
    let client = Client::to(&node);
    assert_eq!(pages(&client, scan(0)), [vec![]]);
    let names: Vec<_> = (0..5_000).map(|number| format!("key-{number}")).collect();
    put_all(&client, names.iter(), b"value");
    // Expired, and elsewhere in the alphabet.
    client.call(Expire { target: target(b"key-17"), expires_at_ms: Some(1) });
    let other = client.put(b"other", b"x");
    let found: Vec<_> = pages(&client, scan(0)).concat();
    assert_eq!(found.len(), 5_000);
    let found: BTreeMap<_, _> =
        found.into_iter().map(|(key, version, value)| (key, (version, value))).collect();
    assert_eq!(found.len(), 5_000);
    assert_eq!(found[b"other".as_slice()], (other, None));
    assert!(!found.contains_key(b"key-17".as_slice()));

    let key_prefix = Key::new(b"key-12").unwrap();
    let found = pages(&client, Scan { key_prefix, with_values: true, ..scan(0) });
    let found = found.concat();
    assert_eq!(found.len(), 111, "12, 120 to 129, 1200 to 1299");
    for (key, _, value) in found {
        assert!(key.starts_with(b"key-12"));
        assert_eq!(value.as_deref(), Some(b"value".as_slice()));
    }
    // However few are asked for, or many.
    for objects_max in [0, 1, 7, u32::MAX] {
        let pages = pages(&client, Scan { objects_max, ..scan(0) });
        assert_eq!(pages.concat().len(), 5_000, "{objects_max}");
        assert!(pages.iter().all(|page| page.len() <= 1_024));
    }
}

/// Objects that share a position come in one page, whether their values have room there or not.
#[test]
fn objects_that_share_a_position_do_not_stop_a_scan() {
    let node = start(undivided());
    let client = Client::to(&node);
    let names: Vec<_> = (0..60_000).map(|number| format!("{number}")).collect();
    put_all(&client, names.iter(), b"");
    let together = pages(&client, Scan { objects_max: 1, ..scan(0) });
    let together: Vec<_> = together.into_iter().filter(|page| page.len() > 1).collect();
    // As many as 60,000 keys have among 2^26 positions: 27.
    assert!(!together.is_empty(), "no two keys share a position");
    // Half a page each: together they do not fit one.
    let large = vec![7; SCAN_PAGE_BYTES / 2];
    for (key, ..) in together.iter().flatten() {
        client.put(key, &large);
    }
    let found = pages(&client, Scan { with_values: true, ..scan(0) }).concat();
    assert_eq!(found.len(), names.len());
    for (key, ..) in together.iter().flatten() {
        let (_, _, value) = found.iter().find(|(found, ..)| found == key).unwrap();
        assert!(value.as_ref().is_none_or(|value| *value == large));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let node = start(settings());
    let client = Client::to(&node);
    assert_eq!(client.refused(scan(1)).code, ErrorCode::CursorStale);
    assert_eq!(client.refused(scan(u64::MAX)).code, ErrorCode::CursorStale);
    let elsewhere = Scan { table: TableId(7), ..scan(0) };
    assert_eq!(client.refused(elsewhere).code, ErrorCode::TableUnknown);
    // One of 4 partitions.
    let message = client.call(scan(0));
    let page = ScanReply::decode(&message).unwrap();
    assert_eq!((page.cursor, page.last_slot.number()), (0, 4095));
}
