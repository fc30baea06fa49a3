//! Every kind of mutation, so that none is forgotten.

use weft_protocol::{
    Append, CompareAndSet, CompleteUpload, Completion, CompletionId, Delete, Expire, FieldChange,
    GetAndDelete, GetAndPut, Increment, Key, Keys, List, MultiDelete, MultiPut, Pair, Pairs, Put,
    PutFields, Request, TableId, Target, UploadEffect, UploadPiece, Value, Version,
};

/// As long as a year of the world's time takes, in milliseconds of Unix time.
pub(crate) const LATER_MS: u64 = 1 << 50;

pub(crate) fn completion(client: u64, sequence: u64, first_incomplete: u64) -> Completion {
    Completion { id: CompletionId { client, sequence }, first_incomplete }
}

pub(crate) fn target(key: &[u8], completion: Option<Completion>) -> Target<'_> {
    Target { table: TableId::DEFAULT, map_epoch: 1, completion, key: Key::new(key).unwrap() }
}

fn value(bytes: &[u8]) -> Value<'_> {
    Value::new(bytes).unwrap()
}

pub(crate) fn put<'a>(
    key: &'a [u8],
    bytes: &'a [u8],
    completion: Option<Completion>,
) -> Request<'a> {
    Request::Put(Put { target: target(key, completion), expires_at_ms: None, value: value(bytes) })
}

pub(crate) fn increment(key: &[u8], completion: Option<Completion>) -> Request<'_> {
    Request::Increment(Increment { target: target(key, completion), expires_at_ms: None, delta: 1 })
}

pub(crate) fn delete(key: &[u8], completion: Option<Completion>) -> Request<'_> {
    Request::Delete(Delete { target: target(key, completion) })
}

pub(crate) fn piece<'a>(key: &'a [u8], upload: u64, bytes: &'a [u8]) -> Request<'a> {
    Request::UploadPiece(UploadPiece {
        target: target(key, None),
        expires_at_ms: None,
        upload,
        value_len: bytes.len() as u32,
        offset: 0,
        copied_from: Version::NONE,
        keeps_expiry: false,
        copied_len: 0,
        bytes,
    })
}

/// What is there before the mutations.
pub(crate) fn before(visit: &mut dyn FnMut(&Request<'_>)) {
    for key in [&b"old"[..], b"kept", b"taken", b"gone", b"second", b"expiring", b"compared"] {
        visit(&put(key, b"a value", None));
    }
    visit(&put(b"long", &vec![7; 100_000], None));
    visit(&put(b"longer", &vec![8; 100_000], None));
    visit(&piece(b"uploaded", 1, b"by an upload"));
    visit(&piece(b"old", 2, b"by another"));
    visit(&piece(b"kept", 3, b"by a third"));
}

/// Each kind of mutation, done and met by something else, with how many sequences it takes, from 1 on.
pub(crate) fn each(client: u64, compared: Version, visit: &mut dyn FnMut(&str, &Request<'_>, u64)) {
    let mut next = 1;
    let mut ask =
        |name: &str, count: u64, make: &dyn Fn(Option<Completion>) -> Request<'static>| {
            visit(name, &make(Some(completion(client, next, 1))), count);
            next += count;
        };
    let expires_at_ms = Some(LATER_MS);
    ask("put", 1, &|of| put(b"old", b"new", of));
    ask("put of a new key", 1, &|of| put(b"new", b"new", of));
    ask("delete", 1, &|of| delete(b"gone", of));
    ask("delete of nothing", 1, &|of| delete(b"nothing", of));
    ask("increment", 1, &|of| increment(b"counter", of));
    ask("increment of no number", 1, &|of| increment(b"kept", of));
    ask("append", 1, &|of| {
        Request::Append(Append { target: target(b"list", of), expires_at_ms, tail: value(b"tail") })
    });
    ask("append to what is long", 1, &|of| {
        let tail = value(&[9; 950_000]);
        Request::Append(Append { target: target(b"long", of), expires_at_ms, tail })
    });
    let set = |expected, of| {
        Request::CompareAndSet(CompareAndSet {
            target: target(b"compared", of),
            expires_at_ms: None,
            expected,
            value: value(b"set"),
        })
    };
    ask("compare-and-set", 1, &|of| set(compared, of));
    ask("compare-and-set that meets another", 1, &|of| set(Version(1), of));
    ask("compare-and-set of nothing", 1, &|of| {
        let target = target(b"nothing", of);
        let (expected, value) = (Version(9), value(b"set"));
        Request::CompareAndSet(CompareAndSet { target, expires_at_ms: None, expected, value })
    });
    let get_and_put = |key: &'static [u8], of| {
        let (target, value) = (target(key, of), value(b"in its place"));
        Request::GetAndPut(GetAndPut { target, expires_at_ms: None, value })
    };
    ask("get-and-put", 1, &|of| get_and_put(b"old", of));
    ask("get-and-put of nothing", 1, &|of| get_and_put(b"first", of));
    ask("get-and-put of what is long", 1, &|of| get_and_put(b"long", of));
    let get_and_delete =
        |key: &'static [u8], of| Request::GetAndDelete(GetAndDelete { target: target(key, of) });
    ask("get-and-delete", 1, &|of| get_and_delete(b"taken", of));
    ask("get-and-delete of nothing", 1, &|of| get_and_delete(b"nothing", of));
    ask("get-and-delete of what is long", 1, &|of| get_and_delete(b"longer", of));
    ask("expire", 1, &|of| {
        Request::Expire(Expire { target: target(b"expiring", of), expires_at_ms })
    });
    ask("expire of nothing", 1, &|of| {
        Request::Expire(Expire { target: target(b"nothing", of), expires_at_ms })
    });
    ask("put-fields", 1, &|of| fields(b"record", of));
    ask("put-fields of no record", 1, &|of| fields(b"kept", of));
    let complete = |key: &'static [u8], upload, effect, of| {
        Request::CompleteUpload(CompleteUpload { target: target(key, of), upload, effect })
    };
    ask("complete-upload", 1, &|of| complete(b"uploaded", 1, UploadEffect::Put, of));
    ask("complete-upload as get-and-put", 1, &|of| {
        complete(b"old", 2, UploadEffect::GetAndPut, of)
    });
    ask("complete-upload that meets another", 1, &|of| {
        complete(b"kept", 3, UploadEffect::CompareAndSet(Version(1)), of)
    });
    ask("multi-put", 3, &|of| multi_put(&PAIRS, of));
    ask("multi-delete", 3, &|of| multi_delete(&KEYS, of));
}

pub(crate) const PAIRS: [(&[u8], &[u8]); 3] =
    [(b"first", b"one"), (b"second", b"two"), (b"third", b"three")];
pub(crate) const KEYS: [&[u8]; 3] = [b"first", b"nothing", b"third"];

pub(crate) fn multi_put(
    pairs: &[(&'static [u8], &'static [u8])],
    completion: Option<Completion>,
) -> Request<'static> {
    let pair = |(key, bytes): &(&'static [u8], &'static [u8])| Pair {
        key: Key::new(key).unwrap(),
        value: value(bytes),
        expires_at_ms: None,
    };
    let pairs = pairs.iter().map(pair).collect::<Vec<_>>().leak();
    let (pairs, _) = Pairs::fitting(pairs);
    Request::MultiPut(MultiPut { table: TableId::DEFAULT, map_epoch: 1, completion, pairs })
}

pub(crate) fn multi_delete(
    keys: &[&'static [u8]],
    completion: Option<Completion>,
) -> Request<'static> {
    let keys = keys.iter().map(|key| Key::new(key).unwrap()).collect::<Vec<_>>().leak();
    let (keys, _) = Keys::fitting(keys);
    Request::MultiDelete(MultiDelete { table: TableId::DEFAULT, map_epoch: 1, completion, keys })
}

fn fields(key: &'static [u8], completion: Option<Completion>) -> Request<'static> {
    static CHANGES: std::sync::LazyLock<[FieldChange<'static>; 1]> =
        std::sync::LazyLock::new(|| {
            [FieldChange { name: Key::new(b"name").unwrap(), value: Some(value(b"field")) }]
        });
    let (changes, _) = List::fitting(&CHANGES[..]);
    let target = target(key, completion);
    Request::PutFields(PutFields { target, expires_at_ms: None, changes })
}
