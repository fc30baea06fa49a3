//! What each operation answers.

use weft_protocol::limits::{KEY_MAX, REQUEST_VALUE_MAX};
use weft_protocol::{
    ErrorCode, Exists, ExistsReply, GetReply, Key, List, Map, MapReply, MultiDelete,
    MultiDeletePart, MultiGet, MultiGetPart, MultiPut, MultiPutPart, Outcome, Pair, Put, Slot,
    TableId, Target, Value, stat_name,
};

use weft_transport::NodeId;

use crate::support::{Client, EPOCH, TABLE, get, put, settings, start, start_together, target};

#[test]
fn what_was_put_is_got_until_it_is_deleted() {
    let node = start(settings());
    let client = Client::to(&node);
    assert_eq!(client.get(b"key"), None);
    let first = client.put(b"key", b"one");
    assert_eq!(client.get(b"key").as_deref(), Some(b"one".as_slice()));
    let second = client.put(b"key", b"two");
    assert_eq!(client.get(b"key").as_deref(), Some(b"two".as_slice()));
    let deleted = client.delete(b"key");
    assert!(deleted.existed);
    assert_eq!(client.get(b"key"), None);
    assert!(!client.delete(b"key").existed);
    let recreated = client.put(b"key", b"three");
    assert!(first < second && second < deleted.version && deleted.version < recreated);
}

#[test]
fn absence_has_a_version_that_later_writes_pass() {
    let node = start(settings());
    let client = Client::to(&node);
    let reply = client.call(get(b"{tag}absent"));
    let absent = GetReply::decode(&reply).unwrap();
    assert_eq!(absent.value(), None);
    assert!(absent.version() < client.put(b"{tag}present", b""));
}

#[test]
fn exists_tells_without_the_value() {
    let node = start(settings());
    let client = Client::to(&node);
    let version = client.put(b"here", &[7; 100_000]);
    let exists = |key| {
        let request = Exists { table: TABLE, map_epoch: EPOCH, key: Key::new(key).unwrap() };
        ExistsReply::decode(&client.call(request)).unwrap()
    };
    assert_eq!(exists(b"here"), ExistsReply { version, exists: true });
    assert!(!exists(b"gone").exists);
}

#[test]
fn an_expired_object_is_absent() {
    let node = start(settings());
    let client = Client::to(&node);
    client.call(Put { expires_at_ms: Some(1), ..put(b"past", b"x") });
    client.call(Put { expires_at_ms: Some(u64::MAX), ..put(b"future", b"x") });
    assert_eq!(client.get(b"past"), None);
    assert!(client.get(b"future").is_some());
}

#[test]
fn the_largest_key_and_value_make_the_round_trip() {
    let node = start(settings());
    let client = Client::to(&node);
    let (key, value) = (vec![b'k'; KEY_MAX], vec![0xA5; REQUEST_VALUE_MAX]);
    client.put(&key, &value);
    assert_eq!(client.get(&key), Some(value));
    client.put(b"", b"");
    assert_eq!(client.get(b""), Some(vec![]));
}

#[test]
fn small_values_are_copied_and_large_ones_sent_from_the_log() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"small", &[1; 1024]);
    client.put(b"large", &[2; 1025]);
    assert_eq!(client.get(b"small"), Some(vec![1; 1024]));
    assert_eq!((client.stat("values.copied"), client.stat("values.gathered")), (1, 0));
    assert_eq!(client.get(b"large"), Some(vec![2; 1025]));
    assert_eq!((client.stat("values.copied"), client.stat("values.gathered")), (1, 1));
}

/// A reply that is sent from the log shows what was there when the read was executed, whatever
/// becomes of the object and its segment.
#[test]
fn requests_that_arrive_together_see_each_other_in_order() {
    let node = start(settings());
    let client = Client::to(&node);
    let values: Vec<_> = (0..200_u32).map(|i| vec![i as u8; 600 * (i as usize % 7)]).collect();
    let requests = values.iter().flat_map(|value| {
        [weft_protocol::Request::Put(put(b"key", value)), weft_protocol::Request::Get(get(b"key"))]
    });
    let replies = client.call_all(requests);
    for (value, reply) in values.iter().zip(replies.iter().skip(1).step_by(2)) {
        assert_eq!(GetReply::decode(reply).unwrap().value(), Some(value.as_slice()));
    }
}

/// Sixty-four requests are taken at once, but the window for replies holds only four of these.
#[test]
fn a_burst_for_more_than_the_window_holds_is_answered_all_the_same() {
    let node = start(settings());
    let client = Client::to(&node);
    let value = vec![9; REQUEST_VALUE_MAX];
    client.put(b"large", &value);
    for reply in client.call_all((0..40).map(|_| get(b"large"))) {
        assert_eq!(GetReply::decode(&reply).unwrap().value(), Some(value.as_slice()));
    }
}

#[test]
fn multi_operations_answer_each_key_once() {
    let node = start(settings());
    let client = Client::to(&node);
    let names: Vec<_> = (0..1000).map(|i| format!("key-{i}")).collect();
    let keys: Vec<_> = names.iter().map(|name| Key::new(name.as_bytes()).unwrap()).collect();
    let value_of = |i: usize| vec![i as u8; if i.is_multiple_of(10) { 3000 } else { i % 50 }];
    let values: Vec<_> = (0..900).map(value_of).collect();
    let pairs = keys.iter().zip(&values).map(|(&key, value)| Pair {
        key,
        value: Value::new(value).unwrap(),
        expires_at_ms: None,
    });
    let pairs: Vec<_> = pairs.collect();
    let (pairs, rest) = List::fitting(&pairs);
    assert!(rest.is_empty());

    let parts =
        client.call_streamed(MultiPut { table: TABLE, map_epoch: EPOCH, completion: None, pairs });
    let mut written = Indices::new(900);
    for part in &parts {
        for item in MultiPutPart::decode(part).unwrap().items() {
            assert!(matches!(item.outcome, Outcome::Done(_)), "{item:?}");
            written.tick(item.index);
        }
    }
    written.assert_complete();

    let (keys, _) = List::fitting(&keys);
    let parts = client.call_streamed(MultiGet { table: TABLE, map_epoch: EPOCH, keys });
    assert!(parts.len() > 1, "what is gathered ends a part");
    let mut read = Indices::new(1000);
    for part in &parts {
        for item in MultiGetPart::decode(part).unwrap().items() {
            let Outcome::Done(reply) = item.outcome else { panic!("{item:?}") };
            assert_eq!(reply.value(), values.get(item.index).map(Vec::as_slice));
            read.tick(item.index);
        }
    }
    read.assert_complete();
    assert_eq!(client.stat("values.gathered"), 90);

    let multi_delete = MultiDelete { table: TABLE, map_epoch: EPOCH, completion: None, keys };
    let mut deleted = Indices::new(1000);
    for part in client.call_streamed(multi_delete) {
        for item in MultiDeletePart::decode(&part).unwrap().items() {
            let Outcome::Done(reply) = item.outcome else { panic!("{item:?}") };
            assert_eq!(reply.existed, item.index < 900);
            deleted.tick(item.index);
        }
    }
    deleted.assert_complete();
    assert_eq!(client.stat(stat_name::OBJECTS), 0);
}

#[test]
fn a_multi_get_of_more_than_there_is_room_for_leaves_the_rest_to_be_asked_again() {
    let node = start(settings());
    let client = Client::to(&node);
    let names: Vec<_> = (0..12).map(|i| format!("large-{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        client.put(name.as_bytes(), &vec![i as u8; REQUEST_VALUE_MAX]);
    }
    let mut missing: Vec<usize> = (0..names.len()).collect();
    let mut rounds = 0;
    while !missing.is_empty() {
        rounds += 1;
        let key = |&i: &usize| Key::new(names[i].as_bytes()).unwrap();
        let keys: Vec<_> = missing.iter().map(key).collect();
        let (keys, _) = List::fitting(&keys);
        let mut left = Vec::new();
        for part in client.call_streamed(MultiGet { table: TABLE, map_epoch: EPOCH, keys }) {
            for item in MultiGetPart::decode(&part).unwrap().items() {
                let name = missing[item.index];
                match item.outcome {
                    Outcome::Done(reply) => {
                        assert_eq!(
                            reply.value(),
                            Some(vec![name as u8; REQUEST_VALUE_MAX].as_slice())
                        );
                    }
                    Outcome::Unprocessed => left.push(name),
                    Outcome::Failed(error) => panic!("{error}"),
                }
            }
        }
        assert!(left.len() < missing.len(), "each round brings something");
        missing = left;
    }
    assert!(rounds > 1, "twelve megabytes do not fit one reply");
}

#[test]
fn the_map_says_who_owns_what_and_where() {
    let node = start(settings());
    let client = Client::to(&node);
    let reply = client.call(Map { known_epoch: 0 });
    let MapReply::Map(map) = MapReply::decode(&reply).unwrap() else { panic!("a map") };
    assert_eq!(map.partitions().len(), 4, "a node of 64 MiB that is alone");
    assert_eq!(map.owner_of(Slot::of(b"any")).unwrap().address, node.address().to_string());
    let epoch = map.epoch();
    let reply = client.call(Map { known_epoch: epoch });
    assert_eq!(MapReply::decode(&reply).unwrap(), MapReply::Unchanged { epoch });
}

#[test]
fn a_node_answers_for_its_own_slots_only() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start_together(2, folder.path(), |settings| settings.replicas = Some(1));
    let client = Client::to(&nodes[0]);
    let reply = client.call(Map { known_epoch: 0 });
    let MapReply::Map(map) = MapReply::decode(&reply).unwrap() else { panic!("a map") };
    let key_of = |node: u64| {
        let keys = (0..).map(|number: u32| number.to_string().into_bytes());
        let is_of = |key: &Vec<u8>| map.owner_of(Slot::of(key)).unwrap().id == NodeId(node);
        keys.take(1000).find(is_of).expect("either node owns an even share")
    };
    let (mine, theirs) = (&key_of(1)[..], &key_of(2)[..]);
    client.put(mine, b"value");
    for body in
        [weft_protocol::Request::Get(get(theirs)), weft_protocol::Request::Put(put(theirs, b""))]
    {
        let error = client.refused(body);
        assert_eq!(error.code, ErrorCode::WrongOwner);
        assert!(error.argument >= map.epoch(), "it says by which map");
    }
    let keys = [Key::new(theirs).unwrap(), Key::new(mine).unwrap()];
    let (keys, _) = List::fitting(&keys);
    let parts = client.call_streamed(MultiGet { table: TABLE, map_epoch: EPOCH, keys });
    let items: Vec<_> = MultiGetPart::decode(&parts[0]).unwrap().items().collect();
    assert!(matches!(&items[0].outcome, Outcome::Failed(e) if e.code == ErrorCode::WrongOwner));
    assert!(matches!(&items[1].outcome, Outcome::Done(r) if r.value() == Some(b"value")));
}

#[test]
fn a_table_that_nobody_made_is_unknown() {
    let node = start(settings());
    let client = Client::to(&node);
    let target = Target { table: TableId(7), ..target(b"key") };
    let error = client.refused(Put { target, ..put(b"key", b"") });
    assert_eq!(error.code, ErrorCode::TableUnknown);
}

#[test]
fn stats_count_what_was_done() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"a", &[0; 100]);
    client.get(b"a");
    client.get(b"b");
    let stats = client.stats();
    assert_eq!(stats.node.0, 1);
    let check = |name: &str, expected| assert_eq!(stats.value(name), Some(expected), "{name}");
    check("operations.put", 1);
    check("operations.get", 2);
    check("reads.hits", 1);
    check("reads.misses", 1);
    check("values.bytes_written", 100);
    check(stat_name::OBJECTS, 1);
    check(stat_name::PARTITIONS, 4);
    check(stat_name::CONNECTIONS, 1);
    check(stat_name::MEMORY_LIMIT_BYTES, 64 << 20);
    check("store.pinned_bytes", 0);
    assert!(stats.value("memory.purpose.log").unwrap() > 0);
    assert!(stats.value(stat_name::CPU_MICROS).is_some());
}

/// Which of a request's keys have been answered.
struct Indices(Vec<bool>);

impl Indices {
    fn new(count: usize) -> Indices {
        Indices(vec![false; count])
    }

    fn tick(&mut self, index: usize) {
        assert!(!std::mem::replace(&mut self.0[index], true), "key {index} is answered twice");
    }

    fn assert_complete(&self) {
        assert!(self.0.iter().all(|answered| *answered), "every key is answered");
    }
}
