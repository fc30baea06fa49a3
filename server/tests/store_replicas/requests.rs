//! What clients ask for, and what they are told.

use proptest::prelude::*;
use weft_protocol::limits::UPLOAD_PIECE_BYTES;
use weft_protocol::{
    FieldChange, Key, List, TableId, Target, UploadEffect, UploadPiece, Value, Version,
};
use weft_server::store::{
    Answer, Appended, Attempt, Compared, Completed, Deleted, Expired, Incremented, Once, OnceError,
    Partition, Refusal, Replaced, StoreError,
};

/// What is longer is not copied in one step.
const STEP_MAX: usize = 100_000;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) table: TableId,
    pub(crate) key: Vec<u8>,
    pub(crate) mutation: Mutation,
    pub(crate) ttl_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    Put { len: usize, fill: u8 },
    PutFields { len: usize },
    CompareAndSet { is_current: bool, len: usize },
    Delete,
    Increment(i64),
    Append { len: usize },
    GetAndPut { len: usize },
    GetAndDelete,
    Expire,
    Upload { len: usize, effect: Effect },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Put,
    CompareAndSet { is_current: bool },
    GetAndPut,
}

/// What a client was told, so that it can be compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Put(Version),
    Compared(Compared),
    Deleted(Deleted),
    Incremented(Incremented),
    Appended(Appended),
    Expired(Expired),
    Replaced(Version, Option<(Version, Vec<u8>)>),
    Refused(Refusal),
}

pub(crate) type Answered = Result<(Told, Version, bool), OnceError>;

impl Request {
    /// Has it done, or answered again. The pieces of an upload come only once.
    pub(crate) fn ask(
        &self,
        partition: &mut Partition,
        attempt: Option<Attempt>,
        (upload, is_repeated): (u64, bool),
        now_ms: u64,
    ) -> Answered {
        let Request { table, ref key, ref mutation, ttl_ms } = *self;
        let expiry_ms = ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
        match *mutation {
            Mutation::Put { len, fill } => {
                let put =
                    |p: &mut Partition| p.put(table, key, &vec![fill; len], expiry_ms, now_ms);
                told(partition.once(attempt, put), Told::Put)
            }
            Mutation::PutFields { len } => {
                let value = vec![b'f'; len];
                let change = |name: &'static [u8]| FieldChange {
                    name: Key::new(name).unwrap(),
                    value: Some(Value::new(&value).unwrap()),
                };
                let changes = [change(b"one"), change(b"other")];
                let (list, _) = List::fitting(&changes);
                let put = |p: &mut Partition| {
                    p.put_fields(table, key, list, expiry_ms, &mut Vec::new(), now_ms)
                };
                told(partition.once(attempt, put), Told::Put)
            }
            Mutation::CompareAndSet { is_current, len } => {
                let expected = expected(partition, table, key, is_current, now_ms);
                let set = |p: &mut Partition| {
                    p.compare_and_set(table, key, expected, &vec![b'c'; len], expiry_ms, now_ms)
                };
                told(partition.once(attempt, set), Told::Compared)
            }
            Mutation::Delete => {
                let delete = |p: &mut Partition| p.delete(table, key, now_ms);
                told(partition.once(attempt, delete), Told::Deleted)
            }
            Mutation::Increment(delta) => {
                let add = |p: &mut Partition| p.increment(table, key, delta, expiry_ms, now_ms);
                told(partition.once(attempt, add), Told::Incremented)
            }
            Mutation::Append { len } => {
                let tail = vec![b'7'; len];
                let append =
                    |p: &mut Partition| p.append(table, key, &tail, expiry_ms, STEP_MAX, now_ms);
                told(partition.once(attempt, append), Told::Appended)
            }
            Mutation::GetAndPut { len } => {
                let put = |p: &mut Partition| {
                    p.get_and_put(table, key, &vec![b'g'; len], expiry_ms, now_ms)
                };
                told(partition.once(attempt, put), replaced)
            }
            Mutation::GetAndDelete => {
                let delete = |p: &mut Partition| p.get_and_delete(table, key, now_ms);
                told(partition.once(attempt, delete), replaced)
            }
            Mutation::Expire => {
                let expire = |p: &mut Partition| {
                    let version = p.expire(table, key, expiry_ms, STEP_MAX, now_ms)?;
                    let exists = version.is_some();
                    Ok(Expired { version: version.unwrap_or(p.version()), exists })
                };
                told(partition.once(attempt, expire), Told::Expired)
            }
            Mutation::Upload { len, effect } => {
                if !is_repeated {
                    self.upload(partition, upload, len, expiry_ms, now_ms)?;
                }
                let effect = match effect {
                    Effect::Put => UploadEffect::Put,
                    Effect::GetAndPut => UploadEffect::GetAndPut,
                    Effect::CompareAndSet { is_current } => UploadEffect::CompareAndSet(expected(
                        partition, table, key, is_current, now_ms,
                    )),
                };
                let complete =
                    |p: &mut Partition| p.complete_upload(table, key, upload, effect, now_ms);
                let completed =
                    told(partition.once(attempt, complete), |completed| match completed {
                        Completed::Put(version) => Told::Put(version),
                        Completed::Compared(compared) => Told::Compared(compared),
                        Completed::Replaced(other) => replaced(other),
                    });
                partition.abort_upload(table, key, upload);
                completed
            }
        }
    }

    fn upload(
        &self,
        partition: &mut Partition,
        upload: u64,
        len: usize,
        expires_at_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let value: Vec<u8> = (0..len).map(|at| (at / 251 + at) as u8).collect();
        let key = Key::new(&self.key).unwrap();
        let target = Target { table: self.table, map_epoch: 0, completion: None, key };
        for (at, bytes) in value.chunks(UPLOAD_PIECE_BYTES).enumerate() {
            let piece = UploadPiece {
                target,
                expires_at_ms,
                upload,
                value_len: len as u32,
                offset: (at * UPLOAD_PIECE_BYTES) as u64,
                copied_from: Version::NONE,
                keeps_expiry: false,
                copied_len: 0,
                bytes,
            };
            if let Err(error) = partition.upload_piece(&piece, now_ms) {
                partition.abort_upload(self.table, &self.key, upload);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn expected(
    partition: &mut Partition,
    table: TableId,
    key: &[u8],
    is_current: bool,
    now_ms: u64,
) -> Version {
    let current = partition.exists(table, key, now_ms).unwrap_or(Version::NONE);
    if is_current { current } else { Version(current.0 + 1) }
}

fn told<T: Answer>(once: Result<Once<T>, OnceError>, as_told: impl FnOnce(T) -> Told) -> Answered {
    let Once { answer, version, is_repeated } = once?;
    Ok((answer.map_or_else(Told::Refused, as_told), version, is_repeated))
}

fn replaced(replaced: Replaced) -> Told {
    let previous = replaced.previous.map(|(version, value)| (version, value.to_vec()));
    Told::Replaced(replaced.version, previous)
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let key = (0_usize..30).prop_map(|number| vec![number as u8; number * number / 8]);
    let len = || prop_oneof![8 => 0_usize..200, 3 => 200_usize..20_000, 1 => 60_000_usize..300_000];
    let effect = prop_oneof![
        Just(Effect::Put),
        any::<bool>().prop_map(|is_current| Effect::CompareAndSet { is_current }),
        Just(Effect::GetAndPut),
    ];
    let delta = prop_oneof![4 => -20_i64..20, 1 => any::<i64>()];
    let mutation = prop_oneof![
        6 => (len(), any::<u8>()).prop_map(|(len, fill)| Mutation::Put { len, fill }),
        1 => (0_usize..300).prop_map(|len| Mutation::PutFields { len }),
        3 => (any::<bool>(), 0_usize..2_000)
            .prop_map(|(is_current, len)| Mutation::CompareAndSet { is_current, len }),
        3 => Just(Mutation::Delete),
        3 => delta.prop_map(Mutation::Increment),
        2 => (0_usize..60_000).prop_map(|len| Mutation::Append { len }),
        3 => len().prop_map(|len| Mutation::GetAndPut { len }),
        2 => Just(Mutation::GetAndDelete),
        2 => Just(Mutation::Expire),
        2 => (1_usize..400_000, effect).prop_map(|(len, effect)| Mutation::Upload { len, effect }),
    ];
    (0_u16..3, key, mutation, prop::option::weighted(0.3, 0_u64..50)).prop_map(
        |(table, key, mutation, ttl_ms)| Request { table: TableId(table), key, mutation, ttl_ms },
    )
}
