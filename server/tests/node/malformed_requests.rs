//! Well-formed frames whose bodies are no requests, or ask for what cannot be. Each is answered with
//! its code (docs/protocol.md), the connection lives, and so does the node.

use std::ops::Bound;
use weft_protocol::limits::{KEY_MAX, MULTI_KEYS_MAX, REQUEST_VALUE_MAX};
use weft_protocol::replication::{Fence, PeerMessage, SnapshotBegin};

use weft_protocol::{
    AbortUpload, AlterTable, Append, Ask, CompareAndSet, CompleteUpload, Completion, CompletionId,
    CreateTable, Delete, DropTable, ErrorCode, Exists, Expire, FieldChange, GetAndDelete,
    GetAndPut, GetFields, GetRange, HotKeys, Increment, Key, Keys, List, Map, MultiDelete,
    MultiGet, MultiPut, OpenClient, Operation, Pair, PartitionId, Put, PutFields, Range,
    RegisterWorker, RenewClient, RenewWorker, ReplyHead, Request, Scan, Stats, TableAlteration,
    TableId, TableOptions, TableStats, Tables, Target, Truncate, UnregisterWorker, UploadEffect,
    UploadPiece, Value, Version, Watch, WatchEnd, WatchNext, Watched, WorkerDescription, Workers,
    prefix,
};
use weft_server::coordinator;
use weft_server::coordinator::codec::encode_ask;
use weft_transport::Windows;
use weft_transport::frame::{HEADER_BYTES, Kind};

use crate::support::{
    Client, RawPeer, TABLE, assert_serves, get, noise, put, request_header, settings, start, target,
};

// Where the prefix has what (docs/protocol.md).
const OPERATION_AT: usize = 0;
const FLAGS_AT: usize = 1;
const VERSION_AT: usize = 8;
const RESERVED_AT: usize = 9;
const KEY_LEN_AT: usize = 10;
const ARGUMENT_AT: usize = 12;

/// A get, to be spoilt.
fn good_get() -> Vec<u8> {
    encoded(Request::Get(get(b"some key")))
}

fn encoded(request: Request<'_>) -> Vec<u8> {
    let mut bytes = vec![0; request.encoded_len()];
    request.encode(&mut bytes);
    bytes
}

#[test]
fn each_mistake_has_its_answer() {
    let node = start(settings());
    let client = Client::to(&node);
    let check = |what: &str, bytes: &[u8], code: ErrorCode| {
        let error = client.refused(bytes);
        assert_eq!(error.code, code, "{what}: {error}");
    };
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = good_get();
        bytes[at] = byte;
        bytes
    };
    let good = good_get();

    check("nothing", &[], ErrorCode::MalformedRequest);
    check("half a prefix", &good[..7], ErrorCode::MalformedRequest);
    check("a key cut short", &good[..good.len() - 1], ErrorCode::MalformedRequest);
    check("bytes behind the key", &[&good[..], b"x"].concat(), ErrorCode::MalformedRequest);
    check("a key that is not there", &spoilt(KEY_LEN_AT + 1, 0xFF), ErrorCode::MalformedRequest);
    check("an argument that gets lack", &spoilt(ARGUMENT_AT, 1), ErrorCode::MalformedRequest);
    check("a reserved byte", &spoilt(RESERVED_AT, 1), ErrorCode::MalformedRequest);
    check("operation 0", &spoilt(OPERATION_AT, 0), ErrorCode::UnknownOperation);
    check("operation 200", &spoilt(OPERATION_AT, 200), ErrorCode::UnknownOperation);
    check("version 0", &spoilt(VERSION_AT, 0), ErrorCode::UnsupportedVersion);
    check("version 9", &spoilt(VERSION_AT, 9), ErrorCode::UnsupportedVersion);
    check("an expiry on a get", &spoilt(FLAGS_AT, prefix::FLAG_EXPIRY), ErrorCode::UnsupportedFlag);
    check("an unknown flag", &spoilt(FLAGS_AT, 0x80), ErrorCode::UnsupportedFlag);

    assert_eq!(client.stat("requests.malformed"), 13);
    assert_eq!(client.stat(weft_protocol::stat_name::ERRORS), 13);
    assert_serves(&node, &client);
}

#[test]
fn what_is_too_large_is_told_its_limit() {
    let node = start(settings());
    let client = Client::to(&node);

    let mut long_value = encoded(Request::Put(put(b"key", &vec![1; REQUEST_VALUE_MAX])));
    long_value.push(1);
    long_value[ARGUMENT_AT..ARGUMENT_AT + 4]
        .copy_from_slice(&(REQUEST_VALUE_MAX as u32 + 1).to_le_bytes());
    let error = client.refused(long_value.as_slice());
    assert_eq!((error.code, error.argument), (ErrorCode::ValueTooLarge, REQUEST_VALUE_MAX as u64));

    let names = vec![Key::new(b"").unwrap(); MULTI_KEYS_MAX];
    let (keys, _) = Keys::fitting(&names);
    let mut many_keys = encoded(Request::MultiGet(MultiGet { table: TABLE, map_epoch: 1, keys }));
    many_keys.extend([0, 0]);
    many_keys[ARGUMENT_AT..ARGUMENT_AT + 4]
        .copy_from_slice(&(MULTI_KEYS_MAX as u32 + 1).to_le_bytes());
    let error = client.refused(many_keys.as_slice());
    assert_eq!((error.code, error.argument), (ErrorCode::TooManyKeys, MULTI_KEYS_MAX as u64));

    assert_serves(&node, &client);
}

/// The wire has sixteen bits for the length of a key, so a longer one can only be a longer message
/// than was announced.
#[test]
fn a_key_longer_than_the_longest_cannot_be_said() {
    let node = start(settings());
    let client = Client::to(&node);
    let mut bytes = encoded(Request::Get(get(&vec![b'k'; KEY_MAX])));
    bytes.push(b'k');
    assert_eq!(client.refused(bytes.as_slice()).code, ErrorCode::MalformedRequest);
    assert_serves(&node, &client);
}

#[test]
fn a_list_that_announces_more_than_it_holds_is_malformed() {
    let node = start(settings());
    let client = Client::to(&node);
    let key = [Key::new(b"key").unwrap()];
    let (keys, _) = List::fitting(&key);
    let mut bytes = encoded(Request::MultiGet(MultiGet { table: TABLE, map_epoch: 1, keys }));
    bytes[ARGUMENT_AT] = 200;
    assert_eq!(client.refused(bytes.as_slice()).code, ErrorCode::MalformedRequest);
    assert_serves(&node, &client);
}

#[test]
fn a_bad_request_among_good_ones_spoils_nothing() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"some key", b"value");
    let (good, bad) = (good_get(), [0xFF; 40]);
    let replies = client.call_all((0..100).map(|i| if i % 3 == 0 { &bad[..] } else { &good[..] }));
    for (i, reply) in replies.iter().enumerate() {
        assert_eq!(reply.ends_with(b"value"), i % 3 != 0, "request {i}");
    }
}

/// Whatever becomes of a good request when a few of its bytes change, it is answered, and the node
/// goes on.
#[test]
fn requests_spoilt_at_random_are_all_answered() {
    let node = start(settings());
    let client = Client::to(&node);
    let names: Vec<_> = (0..20).map(|i| format!("key-{i}")).collect();
    let keys: Vec<_> = names.iter().map(|name| Key::new(name.as_bytes()).unwrap()).collect();
    let value = vec![3; 2000];
    let pair =
        |&key| Pair { key, value: Value::new(&value).unwrap(), expires_at_ms: Some(1 << 50) };
    let pairs: Vec<_> = keys.iter().map(pair).collect();
    let (keys, _) = List::fitting(&keys);
    let (pairs, _) = List::fitting(&pairs);
    let id = CompletionId { client: 1, sequence: 2 };
    let completion = Some(Completion { id, first_incomplete: 1 });
    let (table, map_epoch) = (TABLE, 1);
    let silk = Some(Value::new(b"silk").unwrap());
    let changes: Vec<_> = keys.iter().map(|name| FieldChange { name, value: silk }).collect();
    let (changes, _) = List::fitting(&changes);
    let target = Target { completion, ..target(b"key-1") };
    let (expires_at_ms, expected) = (Some(1 << 50), Version::new(1, 1));
    let large = Value::new(&value).unwrap();
    let ordered = TableOptions { ordered: true, ..TableOptions::default() };
    let alteration = TableAlteration { quota_bytes: Some(None), eviction: None };
    let good = [
        Request::Get(get(b"key-1")),
        Request::Put(Put { target, expires_at_ms, value: large }),
        Request::Delete(Delete { target }),
        Request::Exists(Exists { table, map_epoch, key: Key::new(b"key-1").unwrap() }),
        Request::MultiGet(MultiGet { table, map_epoch, keys }),
        Request::MultiPut(MultiPut { table, map_epoch, completion, pairs }),
        Request::MultiDelete(MultiDelete { table, map_epoch, completion, keys }),
        Request::Stats(Stats),
        Request::Map(Map { known_epoch: 0 }),
        Request::CompareAndSet(CompareAndSet { target, expires_at_ms, expected, value: large }),
        Request::Increment(Increment { target, expires_at_ms, delta: 3 }),
        Request::Append(Append { target, expires_at_ms, tail: large }),
        Request::GetAndPut(GetAndPut { target, expires_at_ms, value: large }),
        Request::GetAndDelete(GetAndDelete { target }),
        Request::Expire(Expire { target, expires_at_ms }),
        Request::GetRange(GetRange { table, map_epoch, key: target.key, offset: 9, len_max: 99 }),
        Request::GetFields(GetFields { table, map_epoch, key: target.key, names: keys }),
        Request::PutFields(PutFields { target, expires_at_ms, changes }),
        Request::Scan(Scan {
            table,
            map_epoch,
            key_prefix: Key::new(b"key").unwrap(),
            objects_max: 10,
            with_values: true,
            slot: target.key.slot(),
            cursor: 0,
        }),
        Request::Tables(Tables),
        Request::Truncate(Truncate { table: TableId(1), map_epoch }),
        Request::TableStats(TableStats),
        Request::Range(Range {
            table: TableId(1),
            map_epoch,
            lower: Bound::Included(target.key),
            upper: Bound::Unbounded,
            descending: false,
            objects_max: 10,
            with_values: true,
            slot: target.key.slot(),
        }),
        Request::HotKeys(HotKeys { keys_max: 10 }),
        Request::UploadPiece(UploadPiece {
            target,
            expires_at_ms,
            upload: 7,
            value_len: value.len() as u32,
            offset: 0,
            copied_from: expected,
            keeps_expiry: false,
            copied_len: 0,
            bytes: &value,
        }),
        Request::CompleteUpload(CompleteUpload {
            target,
            upload: 7,
            effect: UploadEffect::CompareAndSet(expected),
        }),
        Request::AbortUpload(AbortUpload { target, upload: 7 }),
        Request::Watch(Watch {
            table,
            map_epoch,
            watched: Watched::Key(target.key),
            queue_bytes: 4_096,
        }),
        Request::WatchNext(WatchNext { id: 7, received: 0, wait_ms: 10 }),
        Request::WatchEnd(WatchEnd { id: 7 }),
        Request::OpenClient(OpenClient),
        Request::RenewClient(RenewClient { client: 7 }),
        // Who is there.
        Request::Ask(Ask { body: &encode_ask(&coordinator::Ask::Introduce) }),
        // None of them changes anything, but for what a spoilt byte may make of them.
        Request::CreateTable(CreateTable { completion, name: "default", options: ordered }),
        Request::DropTable(DropTable { completion, name: "nothing" }),
        Request::AlterTable(AlterTable { completion, name: "nothing", change: alteration }),
        Request::RegisterWorker(RegisterWorker {
            completion,
            former: 0,
            worker: WorkerDescription { address: "loom:9", slots: 4, build: "1f", process: 77 },
        }),
        Request::RenewWorker(RenewWorker { worker: 7 }),
        Request::UnregisterWorker(UnregisterWorker { worker: 7 }),
        Request::Workers(Workers),
    ]
    .map(encoded);
    assert_eq!(good.len(), Operation::COUNT, "an operation is missing");

    let mut noise = noise();
    let mut below = |end: usize| (noise.next().unwrap() % end as u64) as usize;
    let spoilt: Vec<_> = (0..5000)
        .map(|_| {
            let mut bytes = good[below(good.len())].clone();
            for _ in 0..=below(3) {
                // Mostly in the prefix, where it matters most.
                let end = if below(4) == 0 { bytes.len() } else { bytes.len().min(32) };
                bytes[below(end)] = below(256) as u8;
            }
            if below(8) == 0 {
                bytes.truncate(below(bytes.len()));
            }
            bytes
        })
        .collect();
    let replies = client.call_all(spoilt.iter().map(Vec::as_slice));
    let refused = replies.iter().filter(|reply| ReplyHead::decode(reply).is_err()).count();
    assert!((1000..5000).contains(&refused), "{refused} of 5000 were refused");
    assert_serves(&node, &client);
}

/// Whoever is no node of the map has no word in what its nodes hold.
#[test]
fn a_stranger_can_neither_fence_a_partition_nor_empty_it() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"kept", b"value");
    let mut peer = RawPeer::greeted(&node, Windows::default());
    let epoch = Version::EPOCH_MAX;
    let mut count = 0;
    for partition in (0..64).map(PartitionId) {
        let session = epoch;
        let base = Version::new(epoch, 9);
        let told = [
            PeerMessage::Fence(Fence { partition, epoch, map_version: u64::MAX }),
            PeerMessage::SnapshotBegin(SnapshotBegin { partition, epoch, base, session }),
        ];
        for told in told {
            let mut body = vec![0; told.encoded_len()];
            told.encode(&mut body);
            peer.write(&message(&body));
            count += 1;
        }
    }
    client.wait_for("requests.of_strangers", |heard| heard == count);
    assert_eq!(client.stat("requests.malformed"), 0, "nothing is wrong with what they are");
    assert_eq!(client.get(b"kept").as_deref(), Some(b"value".as_slice()));
    assert_serves(&node, &client);
}

/// A frame that nobody waits for an answer to.
fn message(body: &[u8]) -> Vec<u8> {
    let header = weft_transport::frame::Header {
        kind: Kind::Message,
        ..request_header(0, body.len() as u32)
    };
    let mut frame = header.encode().to_vec();
    frame.extend(body);
    frame.resize(frame.len().next_multiple_of(8), 0);
    assert!(frame.len() > HEADER_BYTES);
    frame
}

#[test]
fn a_message_that_asks_for_no_answer_gets_none() {
    let node = start(settings());
    let client = Client::to(&node);
    let mut peer = RawPeer::greeted(&node, Windows::default());
    peer.write(&message(&good_get()));
    peer.request(9, get(b"some key"));
    let (answer, _) = std::iter::from_fn(|| peer.read_frame())
        .find(|(header, _)| header.kind != Kind::Credit)
        .expect("an answer to the request");
    assert_eq!((answer.kind, answer.id), (Kind::Reply, 9));
    assert_eq!(client.stat("requests.malformed"), 1);
    assert_serves(&node, &client);
}
