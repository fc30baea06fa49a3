//! A node that is full says so and goes on.

use weft_protocol::{
    ErrorCode, Key, List, MultiPut, MultiPutPart, Outcome, Pair, PutReply, ReplyError,
    TableOptions, Value, stat_name,
};
use weft_server::process::raise_descriptor_limit;
use weft_transport::Windows;

use crate::support::{
    Client, EPOCH, Process, RawPeer, TABLE, assert_serves_at, put, request_header,
};

const LIMIT: u64 = 64 << 20;

/// What a process takes on top of its account: code that runs for the first time, stacks, heap that no
/// connection is charged for.
const ALLOWANCE: u64 = 3 << 20;

/// Pages that one has left and heap that another is charged for do not add up to more than the limit.
#[test]
fn a_full_node_with_half_frames_and_then_a_crowd_stays_resident_within_its_limit() {
    raise_descriptor_limit();
    let node = Process::small();
    let before = node.resident_bytes();
    let check = |what: &str| {
        let grown = node.resident_bytes().saturating_sub(before);
        assert!(grown <= LIMIT + ALLOWANCE, "{what}: {grown} bytes more than before");
        let counted = node.metric("weft_memory_resident_bytes");
        assert!(counted <= LIMIT, "{what}: {counted} bytes counted");
        counted
    };
    let client = Client::at(node.address);
    for len in [900_000, 30_000] {
        let value = vec![len as u8; len];
        let put = |i: usize| client.call(put(format!("{len}-{i}").as_bytes(), &value));
        assert!((0..10_000).map(put).any(|reply| PutReply::decode(&reply).is_err()), "it fills");
    }
    check("full");
    let half = [&request_header(1, 1 << 20).encode()[..], &[0; 900_000]].concat();
    let peers: Vec<_> = (0..40)
        .map(|_| {
            let mut peer = RawPeer::greeted_at(node.address, Windows::default());
            peer.write_in_vain(&half);
            peer
        })
        .collect();
    let counted = check("half frames");
    // All but what is set aside for connections, and a little.
    assert!(counted > LIMIT - (12 << 20), "{counted} bytes are no pressure");
    drop(peers);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    let peers: Vec<_> =
        (0..2000).map(|_| RawPeer::greeted_at(node.address, Windows::default())).collect();
    check("idle");
    assert_eq!(client.stat(stat_name::CONNECTIONS), 2001);
    assert!(client.delete(b"900000-0").existed);
    assert_eq!(client.get(b"900000-1"), Some(vec![900_000_usize as u8; 900_000]));
    drop(peers);
    node.end();
}

#[test]
fn a_full_node_refuses_writes_and_serves_everything_else() {
    let node = Process::small();
    let before = node.resident_bytes();
    let client = Client::at(node.address);
    let value = |i: usize| vec![i as u8; 50_000 + i];
    let name = |i: usize| format!("key-{i}");

    let mut count = 0;
    let error = loop {
        let reply = client.call(put(name(count).as_bytes(), &value(count)));
        match PutReply::decode(&reply) {
            Ok(_) => count += 1,
            Err(ReplyError::Refused(error)) => break error.into_owned(),
            Err(malformed) => panic!("{malformed}"),
        }
    };
    assert_eq!((error.code, error.argument), (ErrorCode::MemoryLimitReached, LIMIT));
    assert!(count > 400, "{count} objects of 50 KB in 64 MiB");
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown <= LIMIT, "{grown} bytes more than before");

    // An overwrite needs room too, and what it would have replaced is still there.
    for i in 0..count {
        assert_eq!(client.get(name(i).as_bytes()), Some(value(i)));
    }
    let reply = client.call(put(name(0).as_bytes(), &[1; 900_000]));
    assert!(matches!(PutReply::decode(&reply), Err(ReplyError::Refused(_))));
    assert_eq!(client.get(name(0).as_bytes()), Some(value(0)));

    // In a multi-put the items that have no room say so, each by itself.
    let large = vec![2; 900_000];
    let pair = |key: &'static str, value| Pair {
        key: Key::new(key.as_bytes()).unwrap(),
        value: Value::new(value).unwrap(),
        expires_at_ms: None,
    };
    let pairs = [pair("{key}large", &large[..]), pair("{key}other", &large[..100_000])];
    let (pairs, _) = List::fitting(&pairs);
    let request = MultiPut { table: TABLE, map_epoch: EPOCH, completion: None, pairs };
    for part in client.call_streamed(request) {
        for item in MultiPutPart::decode(&part).unwrap().items() {
            let Outcome::Failed(error) = item.outcome else { panic!("{item:?}") };
            assert_eq!(error.code, ErrorCode::MemoryLimitReached);
        }
    }

    // Deletes need no memory, and make room.
    for i in 0..count {
        assert!(client.delete(name(i).as_bytes()).existed);
    }
    assert_eq!(client.stat(stat_name::OBJECTS), 0);
    client.put(b"again", &[3; 900_000]);
    assert_serves_at(node.address, &client);
}

/// As many partitions as a large cluster has know of each table, before anything is in it.
#[test]
fn tables_without_objects_are_counted() {
    let node = Process::small_with(&["--partitions", "4096"]);
    let (before, client) = (node.resident_bytes(), Client::at(node.address));
    let counted = || node.metric("weft_memory_purpose_bytes{purpose=\"partition\"}");
    let without = counted();
    let names: Vec<_> = (0..12).map(|number| format!("table-{number}")).collect();
    for name in &names {
        client.create_table(name, TableOptions::default());
    }
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown <= LIMIT, "{grown} bytes more than before");
    // The account says what they take, some hundred bytes each; not what the entries take for a while with which they were made.
    let (taken, entries) = (counted() - without, 12 * 4096 * 130);
    assert!(taken > 12 * 4096 * 100 && taken <= grown, "{taken} counted, {grown} grown");
    assert!(grown <= taken + entries + ALLOWANCE, "{taken} counted, {grown} grown");
    names.iter().for_each(|name| client.drop_table(name));
    assert_eq!(counted(), without, "nothing is charged for tables that are gone");
    client.put(b"again", &[3; 900_000]);
    assert_serves_at(node.address, &client);
}
