//! What the tests of every operation check: a message is read as it was written, and what is no
//! message is refused.

use std::fmt::Debug;

use proptest::prelude::*;

use crate::catalog::Catalog;
use crate::completion::{Completion, CompletionId};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::list::Pair;
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, FLAG_EXPIRY, FLAG_PREFIX, FLAG_VALUES};
use crate::reply::ReplyHead;
use crate::request::Request;
use crate::table::{TableId, TableOptions};
use crate::target::Target;
use crate::value::Value;
use crate::version::Version;

/// Checks that `request` is read as it was written, and that nothing near it is read as a request
/// that it is not: cut, longer, with a flag, version or reserved byte that nobody knows.
pub(crate) fn check_request(request: Request<'_>) {
    let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
    assert_eq!(Request::decode(&message), Ok(request));

    for cut in cuts(message.len()) {
        let error = Request::decode(&message[..cut]).expect_err("a cut request is none");
        assert!(matches!(error, DecodeError::Truncated { .. }), "{error:?} at {cut}");
    }
    let longer = [&message[..], &[0]].concat();
    assert_eq!(Request::decode(&longer), Err(DecodeError::TrailingBytes { extra: 1 }));

    check_prefix(request.operation(), &message);
}

fn check_prefix(operation: Operation, message: &[u8]) {
    let with = |offset: usize, byte: u8| {
        let mut message = message.to_vec();
        message[offset] = byte;
        message
    };
    let taken = match operation {
        Operation::Put
        | Operation::CompareAndSet
        | Operation::Increment
        | Operation::Append
        | Operation::GetAndPut
        | Operation::PutFields
        | Operation::Expire
        | Operation::UploadPiece => FLAG_COMPLETION | FLAG_EXPIRY,
        Operation::Delete
        | Operation::GetAndDelete
        | Operation::MultiPut
        | Operation::MultiDelete
        | Operation::CompleteUpload
        | Operation::AbortUpload
        | Operation::CreateTable
        | Operation::DropTable
        | Operation::AlterTable
        | Operation::RegisterWorker => FLAG_COMPLETION,
        Operation::Scan | Operation::Range => FLAG_VALUES,
        Operation::Watch => FLAG_PREFIX,
        Operation::Get
        | Operation::Exists
        | Operation::GetRange
        | Operation::GetFields
        | Operation::MultiGet
        | Operation::Stats
        | Operation::Map
        | Operation::Tables
        | Operation::Truncate
        | Operation::TableStats
        | Operation::HotKeys
        | Operation::WatchNext
        | Operation::WatchEnd
        | Operation::OpenClient
        | Operation::RenewClient
        | Operation::RenewWorker
        | Operation::UnregisterWorker
        | Operation::Workers
        | Operation::Ask => 0,
    };
    for bit in 0..8 {
        let flags = 1 << bit;
        if flags & taken == 0 {
            let error = DecodeError::UnsupportedFlags { operation, flags };
            assert_eq!(Request::decode(&with(1, message[1] | flags)), Err(error));
        }
    }
    let error = DecodeError::UnknownOperation { operation: 200 };
    assert_eq!(Request::decode(&with(0, 200)), Err(error));
    let error = DecodeError::UnsupportedVersion { version: 9 };
    assert_eq!(Request::decode(&with(8, 9)), Err(error));
    let reserved = |offset, field| {
        let error = DecodeError::ReservedField { field };
        assert_eq!(Request::decode(&with(offset, 1)), Err(error));
    };
    reserved(9, "reserved");
    match operation {
        Operation::Put
        | Operation::CompareAndSet
        | Operation::Append
        | Operation::GetAndPut
        | Operation::GetRange
        | Operation::GetFields
        | Operation::PutFields
        | Operation::Range
        | Operation::Scan
        | Operation::UploadPiece
        | Operation::CompleteUpload => {}
        Operation::Watch => {}
        Operation::Get
        | Operation::Delete
        | Operation::Exists
        | Operation::Increment
        | Operation::GetAndDelete
        | Operation::Expire
        | Operation::AbortUpload => reserved(12, "argument"),
        Operation::MultiGet
        | Operation::MultiPut
        | Operation::MultiDelete
        | Operation::HotKeys
        | Operation::WatchNext
        | Operation::Ask
        | Operation::DropTable
        | Operation::AlterTable => {
            reserved(10, "key length");
        }
        Operation::Stats
        | Operation::Map
        | Operation::Tables
        | Operation::Truncate
        | Operation::TableStats
        | Operation::WatchEnd
        | Operation::OpenClient
        | Operation::RenewClient
        | Operation::RegisterWorker
        | Operation::RenewWorker
        | Operation::UnregisterWorker
        | Operation::Workers
        | Operation::CreateTable => {
            reserved(10, "key length");
            reserved(12, "argument");
        }
    }
}

/// Checks that `message`, the reply to an operation that answers with a head alone, is read so only
/// with nothing behind it and with a status of the operation's.
pub(crate) fn check_head_alone<R: Debug + PartialEq>(
    message: &[u8],
    decode: impl for<'m> Fn(&'m [u8]) -> Result<R, ReplyError<'m>>,
) {
    assert_eq!(message.len(), ReplyHead::LEN);
    for cut in cuts(message.len()) {
        let missing = message.len() - cut;
        assert_eq!(decode(&message[..cut]), Err(DecodeError::Truncated { missing }.into()));
    }
    let mut longer = [message, &[0]].concat();
    let error = DecodeError::TrailingBytes { extra: 1 };
    assert_eq!(decode(&longer), Err(error.into()));
    longer[4] = 1;
    assert_eq!(decode(&longer), Err(error.into()));

    let unprocessed = [&[2, 0], &message[2..]].concat();
    assert_eq!(decode(&unprocessed), Err(DecodeError::UnexpectedStatus { status: 2 }.into()));
}

/// Checks that no beginning of `message`, a reply, is read as one.
pub(crate) fn check_cut<'m, R: Debug + PartialEq>(
    message: &'m [u8],
    decode: impl Fn(&'m [u8]) -> Result<R, ReplyError<'m>>,
) {
    for cut in cuts(message.len()) {
        let error = decode(&message[..cut]).expect_err("a cut reply is none");
        assert!(matches!(error, ReplyError::Malformed(DecodeError::Truncated { .. })), "{error:?}");
    }
}

/// Checks that `encode` fills the `len` bytes that it asked for, and returns them.
pub(crate) fn encode(len: usize, encode: impl Fn(&mut [u8])) -> Vec<u8> {
    let (mut zeros, mut ones) = (vec![0; len], vec![0xff; len]);
    encode(&mut zeros);
    encode(&mut ones);
    assert!(zeros == ones, "bytes are left as they were");
    zeros
}

/// Where to cut a message of `len` bytes: everywhere, or for a long one at its ends.
pub(crate) fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..len.min(512)).chain(len.saturating_sub(16).max(512)..len)
}

/// Arbitrary bytes, and more often `message` with some of its bytes changed or its end cut off.
pub(crate) fn hostile(message: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let len = message.len();
    let changes = prop::collection::vec((0..len.max(1), any::<u8>()), 1..6);
    let changed = (changes, 0..=len).prop_map(move |(changes, cut)| {
        let mut message = message.clone();
        for (offset, byte) in changes {
            message[offset] = byte;
        }
        if cut % 3 == 0 {
            message.truncate(cut);
        }
        message
    });
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..200), 4 => changed]
}

/// The bytes of the example called `name` in docs/protocol.md, so that page and code cannot drift
/// apart.
pub(crate) fn documented(name: &str) -> Vec<u8> {
    const PAGE: &str = include_str!("../../docs/protocol.md");
    let (_, rest) = PAGE.split_once(&format!("```hex {name}\n")).expect("the page has the example");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let lines = example.lines().map(|line| line.split('#').next().unwrap_or_default());
    hex(&lines.collect::<String>())
}

/// The bytes that hexadecimal digits name; white space plays no part.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("two digits")
    };
    digits.chunks(2).map(byte).collect()
}

/// Shorthand for keys of tests.
pub(crate) fn key(bytes: &[u8]) -> Key<'_> {
    Key::new(bytes).expect("keys of tests are short")
}

/// Shorthand for values of tests.
pub(crate) fn value(bytes: &[u8]) -> Value<'_> {
    Value::new(bytes).expect("values of tests are short")
}

/// The numbers of a request.
pub(crate) fn tables() -> impl Strategy<Value = (TableId, u32)> {
    (any::<u16>().prop_map(TableId), any::<u32>())
}

/// The tables of the examples in docs/protocol.md.
pub(crate) fn two_tables() -> Catalog {
    let people = Catalog::default().with("people", TableOptions::default()).unwrap();
    let times =
        TableOptions { ordered: true, quota_bytes: Some(1 << 30), ..TableOptions::default() };
    people.with("times", times).unwrap()
}

/// The target of the examples in docs/protocol.md.
pub(crate) fn documented_target() -> Target<'static> {
    Target { table: TableId(2), map_epoch: 7, completion: None, key: key(b"loom") }
}

/// A target that owns its key.
#[derive(Debug, Clone)]
pub(crate) struct OwnedTarget {
    numbers: (TableId, u32),
    completion: Option<Completion>,
    key: Vec<u8>,
}

impl OwnedTarget {
    pub(crate) fn get(&self) -> Target<'_> {
        let (table, map_epoch) = self.numbers;
        Target { table, map_epoch, completion: self.completion, key: key(&self.key) }
    }
}

pub(crate) fn targets() -> impl Strategy<Value = OwnedTarget> {
    (tables(), completions(), bytes(100)).prop_map(|(numbers, completion, key)| OwnedTarget {
        numbers,
        completion,
        key,
    })
}

pub(crate) fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=len_max)
}

/// A completion that the protocol carries, with room above its sequence for the items of any request.
pub(crate) fn completion(client: u64, sequence: u64, first_incomplete: u64) -> Completion {
    Completion { id: CompletionId { client, sequence }, first_incomplete }
}

pub(crate) fn completions() -> impl Strategy<Value = Option<Completion>> {
    let sequences = 1..=u64::MAX - u64::from(u32::MAX);
    let ids = (1..=u64::MAX, sequences, any::<u32>()).prop_map(|(client, sequence, span)| {
        completion(client, sequence, sequence.saturating_sub(u64::from(span)).max(1))
    });
    prop::option::of(ids)
}

pub(crate) fn versions() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

/// A pair that owns its bytes.
pub(crate) type OwnedPair = (Vec<u8>, Vec<u8>, Option<u64>);

pub(crate) fn owned_pairs() -> impl Strategy<Value = Vec<OwnedPair>> {
    prop::collection::vec((bytes(20), bytes(40), any::<Option<u64>>()), 0..12)
}

pub(crate) fn pair(owned: &OwnedPair) -> Pair<'_> {
    Pair { key: key(&owned.0), value: value(&owned.1), expires_at_ms: owned.2 }
}
