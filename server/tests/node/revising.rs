//! What the operations answer whose write depends on what is there.

use std::ops::Range;

use weft_protocol::limits::{FIELDS_MAX, REQUEST_VALUE_MAX};
use weft_protocol::{
    Append, AppendReply, CompareAndSet, CompareAndSetReply, ErrorCode, Expire, ExpireReply,
    FieldChange, FieldsReply, GetAndDelete, GetAndPut, GetFields, GetRange, GetRangeReply,
    Increment, IncrementReply, Key, Keys, List, Previous, PreviousReply, Put, PutFields, PutReply,
    Record, TableId, Target, Value, Version,
};

use crate::support::{Client, TABLE, put, settings, start, target};

/// Long after any test.
const LATE: Option<u64> = Some(u64::MAX);
/// Long before.
const EARLY: Option<u64> = Some(1);

fn compare_and_set<'a>(key: &'a [u8], expected: Version, value: &'a [u8]) -> CompareAndSet<'a> {
    let value = Value::new(value).unwrap();
    CompareAndSet { target: target(key), expires_at_ms: None, expected, value }
}

fn increment(key: &[u8], delta: i64) -> Increment<'_> {
    Increment { target: target(key), expires_at_ms: None, delta }
}

fn append<'a>(key: &'a [u8], tail: &'a [u8]) -> Append<'a> {
    Append { target: target(key), expires_at_ms: None, tail: Value::new(tail).unwrap() }
}

fn get_and_put<'a>(key: &'a [u8], value: &'a [u8]) -> GetAndPut<'a> {
    GetAndPut { target: target(key), expires_at_ms: None, value: Value::new(value).unwrap() }
}

fn expire(client: &Client, key: &[u8], expires_at_ms: Option<u64>) -> ExpireReply {
    let reply = client.call(Expire { target: target(key), expires_at_ms });
    ExpireReply::decode(&reply).unwrap()
}

#[test]
fn compare_and_set_writes_what_is_as_expected() {
    let node = start(settings());
    let client = Client::to(&node);
    let set = |expected, value: &[u8]| {
        let reply = client.call(compare_and_set(b"key", expected, value));
        CompareAndSetReply::decode(&reply).unwrap()
    };
    // Nobody wrote the key, so its partition has given out no version.
    let nothing_yet = Version::new(1, 0);
    assert_eq!(set(Version::new(1, 1), b"x"), CompareAndSetReply::Absent { version: nothing_yet });
    let CompareAndSetReply::Written { version: first } = set(Version::NONE, b"one") else {
        panic!("there was none")
    };
    assert_eq!(set(Version::NONE, b"x"), CompareAndSetReply::Conflict { version: first });
    assert_eq!(set(nothing_yet, b"x"), CompareAndSetReply::Conflict { version: first });
    assert_eq!(client.get(b"key").as_deref(), Some(b"one".as_slice()));
    let CompareAndSetReply::Written { version: second } = set(first, b"two") else {
        panic!("it was the first")
    };
    assert!(second > first);
    assert_eq!(set(first, b"x"), CompareAndSetReply::Conflict { version: second });
    assert_eq!(client.get(b"key").as_deref(), Some(b"two".as_slice()));
    let removed = client.delete(b"key").version;
    assert_eq!(set(second, b"x"), CompareAndSetReply::Absent { version: removed });
    assert_eq!(client.get(b"key"), None);
}

#[test]
fn what_has_expired_is_absent_for_a_compare_and_set() {
    let node = start(settings());
    let client = Client::to(&node);
    client.call(Put { expires_at_ms: EARLY, ..put(b"lock", b"theirs") });
    let lock =
        CompareAndSet { expires_at_ms: LATE, ..compare_and_set(b"lock", Version::NONE, b"mine") };
    let reply = CompareAndSetReply::decode(&client.call(lock)).unwrap();
    assert!(matches!(reply, CompareAndSetReply::Written { .. }), "{reply:?}");
    assert_eq!(client.get(b"lock").as_deref(), Some(b"mine".as_slice()));
}

#[test]
fn numbers_are_added_to_as_text_and_checked() {
    let node = start(settings());
    let client = Client::to(&node);
    let add = |key: &[u8], delta| {
        IncrementReply::decode(&client.call(increment(key, delta))).unwrap().number
    };
    assert_eq!(add(b"n", 5), 5);
    assert_eq!(add(b"n", -12), -7);
    assert_eq!(client.get(b"n").as_deref(), Some(b"-7".as_slice()));
    client.put(b"n", b"9223372036854775806");
    assert_eq!(add(b"n", 1), i64::MAX);
    let refused = |key: &[u8], delta| client.refused(increment(key, delta)).code;
    assert_eq!(refused(b"n", 1), ErrorCode::NumberOverflow);
    assert_eq!(client.get(b"n").as_deref(), Some(b"9223372036854775807".as_slice()));
    assert_eq!(add(b"n", i64::MIN), -1);
    assert_eq!(refused(b"n", i64::MIN), ErrorCode::NumberOverflow);
    for value in [&b""[..], b"one", b"1 ", b"+1", b"007", b"-0", b"1e3", b"\xff", &[b'1'; 5_000]] {
        client.put(b"text", value);
        assert_eq!(refused(b"text", 0), ErrorCode::NotANumber, "{value:?}");
        assert_eq!(client.get(b"text").as_deref(), Some(value));
    }
}

#[test]
fn what_is_there_keeps_its_expiry_and_what_is_made_has_that_of_the_request() {
    let node = start(settings());
    let client = Client::to(&node);
    client.put(b"n", b"1");
    client.call(Increment { expires_at_ms: EARLY, ..increment(b"n", 1) });
    assert_eq!(client.get(b"n").as_deref(), Some(b"2".as_slice()), "it had none");
    client.call(Append { expires_at_ms: EARLY, ..append(b"n", b"0") });
    assert_eq!(client.get(b"n").as_deref(), Some(b"20".as_slice()), "it had none");
    client.call(Increment { expires_at_ms: EARLY, ..increment(b"m", 1) });
    assert_eq!(client.get(b"m"), None);
    client.call(Append { expires_at_ms: EARLY, ..append(b"m", b"x") });
    assert_eq!(client.get(b"m"), None);
    // A put and its kin give the new object the expiry of the request, whatever the old one had.
    client.call(GetAndPut { expires_at_ms: EARLY, ..get_and_put(b"n", b"x") });
    assert_eq!(client.get(b"n"), None);
}

#[test]
fn values_grow_to_what_a_request_carries() {
    let node = start(settings());
    let client = Client::to(&node);
    let add = |tail: &[u8]| AppendReply::decode(&client.call(append(b"log", tail))).unwrap();
    assert_eq!(add(b"warp,").value_len, 5);
    let reply = add(b"weft");
    assert_eq!(reply.value_len, 9);
    assert_eq!(client.get(b"log").as_deref(), Some(b"warp,weft".as_slice()));
    assert!(add(b"").version > reply.version, "an empty tail is a write all the same");

    assert_eq!(add(&vec![b'x'; REQUEST_VALUE_MAX - 9]).value_len, REQUEST_VALUE_MAX as u64);
    // Further by an upload, which the client library sees to (`client/tests/long_values.rs`).
    assert_eq!(client.refused(append(b"log", b"y")).code, ErrorCode::OnlyByUpload);
    let value = client.get(b"log").unwrap();
    assert_eq!(value.len(), REQUEST_VALUE_MAX);
    assert!(value.starts_with(b"warp,weftx") && value.ends_with(b"x"));
}

#[test]
fn what_is_replaced_or_removed_comes_back() {
    let node = start(settings());
    let client = Client::to(&node);
    let reply = client.call(get_and_put(b"key", b"one"));
    let PreviousReply { version: first, previous } = PreviousReply::decode(&reply).unwrap();
    assert_eq!(previous, None);

    let large = vec![0xA5; 300_000];
    let reply = client.call(get_and_put(b"key", &large));
    let PreviousReply { version: second, previous } = PreviousReply::decode(&reply).unwrap();
    assert_eq!(previous, Some(Previous { version: first, value: b"one" }));

    // Sent from the log, where it is no longer current.
    let gathered = client.stat("values.gathered");
    let reply = client.call(get_and_put(b"key", b"three"));
    let PreviousReply { version: third, previous } = PreviousReply::decode(&reply).unwrap();
    assert_eq!(previous, Some(Previous { version: second, value: &large }));
    assert_eq!(client.stat("values.gathered"), gathered + 1);

    let remove = || GetAndDelete { target: target(b"key") };
    let reply = client.call(remove());
    let PreviousReply { version: removed, previous } = PreviousReply::decode(&reply).unwrap();
    assert_eq!(previous, Some(Previous { version: third, value: b"three" }));
    assert!(first < second && second < third && third < removed);
    assert_eq!(client.get(b"key"), None);
    let reply = client.call(remove());
    let gone = PreviousReply { version: removed, previous: None };
    assert_eq!(PreviousReply::decode(&reply).unwrap(), gone);
}

#[test]
fn an_expiry_is_given_and_taken_back() {
    let node = start(settings());
    let client = Client::to(&node);
    assert!(!expire(&client, b"key", LATE).exists);
    assert_eq!(client.get(b"key"), None, "it makes nothing");
    let value = vec![7; 100_000];
    let first = client.put(b"key", &value);
    let ExpireReply { version: second, exists } = expire(&client, b"key", LATE);
    assert!(exists && second > first);
    // What it has already.
    assert_eq!(expire(&client, b"key", LATE), ExpireReply { version: second, exists });
    let ExpireReply { version: third, .. } = expire(&client, b"key", None);
    assert!(third > second);
    assert_eq!(client.get(b"key"), Some(value));
    assert!(expire(&client, b"key", EARLY).exists);
    assert_eq!(client.get(b"key"), None);
    assert!(!expire(&client, b"key", None).exists, "nothing comes back");
}

#[test]
fn bytes_of_a_value_are_read_without_the_rest() {
    let node = start(settings());
    let client = Client::to(&node);
    let value: Vec<u8> = (0..500_000_u32).map(|at| (at * 7 + at / 251) as u8).collect();
    let version = client.put(b"key", &value);
    let range = |offset, len_max| GetRange {
        table: TABLE,
        map_epoch: 1,
        key: target(b"key").key,
        offset,
        len_max,
    };
    for (offset, len_max) in [
        (0, 10),
        (7, 0),
        (250_000, 1_024),
        (250_001, 1_025),
        (1, 499_999),
        (499_999, 1),
        (499_999, u32::MAX),
        (500_000, 1),
        (u64::MAX, u32::MAX),
        (0, u32::MAX),
    ] {
        let reply = client.call(range(offset, len_max));
        let start = usize::try_from(offset).unwrap().min(value.len());
        let end = start.saturating_add(len_max as usize).min(value.len());
        let value_len = value.len() as u64;
        let expected = GetRangeReply::Found { version, value_len, bytes: &value[start..end] };
        assert!(GetRangeReply::decode(&reply).unwrap() == expected, "{len_max} from {offset}");
    }
    let read = client.stat("values.bytes_read");
    client.call(range(3, 100));
    assert_eq!(client.stat("values.bytes_read"), read + 100);
    let gone = client.delete(b"key").version;
    let reply = client.call(range(0, 1));
    assert_eq!(GetRangeReply::decode(&reply).unwrap(), GetRangeReply::Absent { version: gone });
}

fn change<'a>(name: &'a [u8], value: Option<&'a [u8]>) -> FieldChange<'a> {
    let value = value.map(|value| Value::new(value).unwrap());
    FieldChange { name: Key::new(name).unwrap(), value }
}

fn put_fields<'a>(key: &'a [u8], changes: &'a [FieldChange<'a>]) -> PutFields<'a> {
    let (changes, rest) = List::fitting(changes);
    assert!(rest.is_empty());
    PutFields { target: target(key), expires_at_ms: None, changes }
}

fn get_fields<'a>(key: &'a [u8], names: &'a [Key<'a>]) -> GetFields<'a> {
    let (names, _) = Keys::fitting(names);
    GetFields { table: TABLE, map_epoch: 1, key: target(key).key, names }
}

#[test]
fn fields_are_changed_and_read_one_by_one() {
    let node = start(settings());
    let client = Client::to(&node);
    let names = [b"warp", b"weft", b"reed"].map(|name| Key::new(name).unwrap());
    let read = || {
        let message = client.call(get_fields(b"cloth", &names));
        match FieldsReply::decode(&message).unwrap() {
            FieldsReply::Found { version, fields } => {
                let value = |range: Range<usize>| message[range].to_vec();
                let fields = fields.into_iter().map(|range| range.map(value)).collect::<Vec<_>>();
                (version, Some(fields))
            }
            FieldsReply::Absent { version } => (version, None),
        }
    };
    assert_eq!(read().1, None);
    let put = |changes: &[FieldChange<'_>]| {
        PutReply::decode(&client.call(put_fields(b"cloth", changes))).unwrap().version
    };
    let first = put(&[change(b"warp", Some(b"wool")), change(b"weft", Some(b"silk"))]);
    assert_eq!(read(), (first, Some(vec![Some(b"wool".to_vec()), Some(b"silk".to_vec()), None])));
    let second = put(&[change(b"weft", Some(b"")), change(b"warp", None)]);
    assert!(second > first);
    assert_eq!(read(), (second, Some(vec![None, Some(vec![]), None])));
    // It is a value like any other.
    let value = client.get(b"cloth").unwrap();
    let record = Record::parse(&value).unwrap();
    assert_eq!(record.fields().collect::<Vec<_>>(), [(&b"weft"[..], &b""[..])]);

    client.put(b"cloth", b"none");
    let changes = [change(b"weft", None)];
    assert_eq!(client.refused(put_fields(b"cloth", &changes)).code, ErrorCode::NotARecord);
    assert_eq!(client.refused(get_fields(b"cloth", &names)).code, ErrorCode::NotARecord);
    assert_eq!(client.get(b"cloth").as_deref(), Some(b"none".as_slice()));
}

#[test]
fn a_record_ends_at_its_limits() {
    let node = start(settings());
    let client = Client::to(&node);
    let names: Vec<_> = (0..FIELDS_MAX + 1).map(|number| number.to_string()).collect();
    let changes: Vec<_> = names.iter().map(|name| change(name.as_bytes(), Some(b"x"))).collect();
    client.call(put_fields(b"wide", &changes[..FIELDS_MAX]));
    for (changes, what) in [(&changes[FIELDS_MAX..], "one more"), (&changes[..], "a request")] {
        let error = client.refused(put_fields(b"wide", changes));
        let expected = (ErrorCode::TooManyFields, FIELDS_MAX as u64);
        assert_eq!((error.code, error.argument), expected, "{what}");
    }
    let half = vec![7; REQUEST_VALUE_MAX / 2 + 1];
    client.call(put_fields(b"long", &[change(b"a", Some(&half))]));
    let error = client.refused(put_fields(b"long", &[change(b"b", Some(&half))]));
    assert_eq!((error.code, error.argument), (ErrorCode::ValueTooLarge, REQUEST_VALUE_MAX as u64));
    // What would be a reply of more than a message.
    let thrice = [Key::new(b"a").unwrap(); 3];
    assert_eq!(client.refused(get_fields(b"long", &thrice)).code, ErrorCode::ValueTooLarge);
    let once = client.call(get_fields(b"long", &thrice[..1]));
    let FieldsReply::Found { fields, .. } = FieldsReply::decode(&once).unwrap() else { panic!() };
    assert!(once[fields[0].clone().unwrap()] == half);
}

/// All of them, with what else may be refused.
#[test]
fn tables_and_limits_hold_for_all() {
    let node = start(settings());
    let client = Client::to(&node);
    let elsewhere = Target { table: TableId(7), ..target(b"key") };
    let (expires_at_ms, value) = (None, Value::new(b"").unwrap());
    let expected = Version::NONE;
    let codes = [
        client.refused(CompareAndSet { target: elsewhere, expires_at_ms, expected, value }).code,
        client.refused(Increment { target: elsewhere, expires_at_ms, delta: 1 }).code,
        client.refused(Append { target: elsewhere, expires_at_ms, tail: value }).code,
        client.refused(GetAndPut { target: elsewhere, expires_at_ms, value }).code,
        client.refused(GetAndDelete { target: elsewhere }).code,
        client.refused(Expire { target: elsewhere, expires_at_ms }).code,
        client.refused(PutFields { target: elsewhere, ..put_fields(b"key", &[]) }).code,
        client.refused(GetFields { table: TableId(7), ..get_fields(b"key", &[]) }).code,
        client
            .refused(GetRange {
                table: TableId(7),
                map_epoch: 1,
                key: elsewhere.key,
                offset: 0,
                len_max: 1,
            })
            .code,
    ];
    assert_eq!(codes, [ErrorCode::TableUnknown; 9]);
}
