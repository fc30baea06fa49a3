//! A node that is full says so and goes on.

use weft_protocol::{
    ErrorCode, Key, List, MultiPut, MultiPutPart, Outcome, Pair, PutReply, ReplyError, Value,
    stat_name,
};

use crate::support::{Client, Process, TABLE, assert_serves_at, put};

const LIMIT: u64 = 64 << 20;

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
    let request = MultiPut { table: TABLE, map_epoch: 1, completion: None, pairs };
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
