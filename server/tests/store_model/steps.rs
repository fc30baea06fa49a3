//! What may be done with a partition, drawn at random.

use std::ops::Bound;

use proptest::prelude::*;
use weft_protocol::TableId;

use super::Key;
use super::uploads::Manner;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put {
        key: Key,
        len: usize,
        fill: u8,
        ttl_ms: Option<u64>,
    },
    Delete(Key),
    Revise(Key, Revision),
    Get(Key),
    /// Begins a scan of a table, or goes on with it for so many objects.
    Scan {
        objects: usize,
    },
    Pin(Key),
    Unpin(prop::sample::Index),
    Wait {
        ms: u64,
    },
    /// Looks which segments of at most so many hundredths of live bytes there are, and takes one of them.
    Choose {
        percent: u8,
        index: prop::sample::Index,
    },
    /// Empties it further.
    Clean {
        budget: usize,
    },
    /// Reads a range of the ordered tables.
    Range {
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
        descending: bool,
        objects: usize,
    },
    Truncate(TableId),
    /// Drops a table and makes it anew.
    Recreate(TableId),
    Sweep {
        buckets: usize,
    },
    /// Evicts from the tables that allow it, or from one table.
    Evict {
        of: Option<TableId>,
        buckets: usize,
    },
    Verify,
}

/// A write that depends on what is there.
#[derive(Clone, Debug)]
pub(crate) enum Revision {
    CompareAndSet {
        expected: Expected,
        len: usize,
        ttl_ms: Option<u64>,
    },
    Increment {
        delta: i64,
        ttl_ms: Option<u64>,
    },
    Append {
        tail: Vec<u8>,
        ttl_ms: Option<u64>,
    },
    GetAndPut {
        len: usize,
        ttl_ms: Option<u64>,
    },
    GetAndDelete,
    Expire {
        ttl_ms: Option<u64>,
    },
    PutFields {
        changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
        ttl_ms: Option<u64>,
    },
    /// Uploads a value of which the first `kept` bytes are those of the old one.
    Upload {
        len: usize,
        kept: usize,
        effect: Effect,
        ttl_ms: Option<u64>,
        manner: Manner,
    },
}

/// As what an upload ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Put,
    CompareAndSet(Expected),
    GetAndPut,
}

/// Which version a compare-and-set expects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Current,
    None,
    Other,
}

fn key() -> impl Strategy<Value = Key> {
    (0_u16..3, key_bytes()).prop_map(|(table, key)| (TableId(table), key))
}

fn key_bytes() -> impl Strategy<Value = Vec<u8>> {
    (0_usize..60).prop_map(|number| vec![number as u8; number * number / 8])
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        2 => key_bytes().prop_map(Bound::Included),
        2 => key_bytes().prop_map(Bound::Excluded),
    ]
}

fn table() -> impl Strategy<Value = TableId> {
    (0_u16..3).prop_map(TableId)
}

fn revision() -> impl Strategy<Value = Revision> {
    let ttl_ms = || prop::option::weighted(0.3, 0_u64..50);
    let expected =
        prop_oneof![Just(Expected::Current), Just(Expected::None), Just(Expected::Other)];
    let effect = prop_oneof![
        Just(Effect::Put),
        expected.clone().prop_map(Effect::CompareAndSet),
        Just(Effect::GetAndPut),
    ];
    let manner = any::<[bool; 4]>().prop_map(|[reversed, repeated, copied, keeps_expiry]| Manner {
        reversed,
        repeated,
        copied,
        keeps_expiry,
    });
    let upload = (1_usize..700_000, 0_usize..600_000, effect, ttl_ms(), manner);
    let delta = prop_oneof![4 => -20_i64..20, 1 => any::<i64>()];
    // Digits as well, so that numbers become longer, or none any more.
    let tail = prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..200),
        2 => prop::collection::vec(b'0'..=b'9', 0..3),
        1 => (0_usize..50_000).prop_map(|len| vec![b'7'; len]),
    ];
    let name = prop::collection::vec(b'a'..=b'c', 1..3);
    let field = prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..300));
    let changes = prop::collection::vec((name, field), 0..5);
    prop_oneof![
        3 => (expected, 0_usize..2_000, ttl_ms())
            .prop_map(|(expected, len, ttl_ms)| Revision::CompareAndSet { expected, len, ttl_ms }),
        3 => (delta, ttl_ms()).prop_map(|(delta, ttl_ms)| Revision::Increment { delta, ttl_ms }),
        3 => (tail, ttl_ms()).prop_map(|(tail, ttl_ms)| Revision::Append { tail, ttl_ms }),
        1 => (0_usize..2_000, ttl_ms())
            .prop_map(|(len, ttl_ms)| Revision::GetAndPut { len, ttl_ms }),
        1 => Just(Revision::GetAndDelete),
        2 => ttl_ms().prop_map(|ttl_ms| Revision::Expire { ttl_ms }),
        4 => (changes, ttl_ms())
            .prop_map(|(changes, ttl_ms)| Revision::PutFields { changes, ttl_ms }),
        2 => upload.prop_map(|(len, kept, effect, ttl_ms, manner)| {
            Revision::Upload { len, kept, effect, ttl_ms, manner }
        }),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        8 => 0_usize..200,
        3 => 200_usize..40_000,
        1 => 240_000_usize..600_000,
    ];
    prop_oneof![
        12 => (key(), len, any::<u8>(), prop::option::weighted(0.3, 0_u64..50))
            .prop_map(|(key, len, fill, ttl_ms)| Step::Put { key, len, fill, ttl_ms }),
        4 => key().prop_map(Step::Delete),
        12 => (key(), revision()).prop_map(|(key, revision)| Step::Revise(key, revision)),
        4 => key().prop_map(Step::Get),
        4 => (0_usize..12).prop_map(|objects| Step::Scan { objects }),
        2 => key().prop_map(Step::Pin),
        2 => any::<prop::sample::Index>().prop_map(Step::Unpin),
        2 => (0_u64..20).prop_map(|ms| Step::Wait { ms }),
        3 => (30_u8..=100, any::<prop::sample::Index>())
            .prop_map(|(percent, index)| Step::Choose { percent, index }),
        6 => (1_usize..100_000).prop_map(|budget| Step::Clean { budget }),
        3 => (bound(), bound(), any::<bool>(), 0_usize..20).prop_map(
            |(lower, upper, descending, objects)| Step::Range { lower, upper, descending, objects }
        ),
        1 => table().prop_map(Step::Truncate),
        1 => (1_u16..3).prop_map(|table| Step::Recreate(TableId(table))),
        3 => (1_usize..40).prop_map(|buckets| Step::Sweep { buckets }),
        2 => (prop::option::of(table()), 1_usize..400)
            .prop_map(|(of, buckets)| Step::Evict { of, buckets }),
        1 => Just(Step::Verify),
    ]
}
