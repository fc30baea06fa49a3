//! The bytes of a completion: the value of a record of kind 3, whose key is the client.
//!
//! `docs/storage-format.md` draws them. A previous value travels only in a snapshot: whoever applies the entry of a get-and-put has
//! the old object still, and keeps that.

use weft_protocol::{CompletionId, Version};

use super::completions::Attempt;
use super::outcome::{Kept, Outcome, Previous, Refusal};
use super::partition::{Deleted, VALUE_BYTES_MAX};
use super::revising::{Appended, Compared, Expired, Incremented};

/// Bytes of a client's number, which is the key.
pub(super) const CLIENT_BYTES: usize = 8;
/// Bytes of a completion without a previous object.
const FIXED_BYTES: usize = 32;
/// The same with the version of one.
const PREVIOUS_BYTES: usize = FIXED_BYTES + 8;
/// Room for a completion without a previous value.
pub(super) const BYTES_MAX: usize = PREVIOUS_BYTES;

const FORM_ENDED: u8 = 0;
const FORM_WAITS: u8 = 1;
const FORM_PUT: u8 = 2;
const FORM_COMPARED: u8 = 3;
const FORM_DELETED: u8 = 4;
const FORM_INCREMENTED: u8 = 5;
const FORM_APPENDED: u8 = 6;
const FORM_EXPIRED: u8 = 7;
const FORM_REPLACED: u8 = 8;
const FORM_REFUSED: u8 = 9;

/// What a completion says of a client.
#[derive(Clone, Debug)]
pub(super) enum Told<'a> {
    /// Its lease has ended.
    Ended,
    /// It has had the answers to all mutations before this.
    Waits(u64),
    /// What came of an attempt; the value of a previous object is missing in `outcome`, and may be here.
    Done { attempt: Attempt, outcome: Outcome, previous: Option<&'a [u8]> },
}

/// A completion, but for a previous value that is carried behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl Encoded {
    /// The bytes, and zeroes up to the most that there can be.
    #[inline]
    pub(super) fn padded(&self) -> &[u8; BYTES_MAX] {
        &self.bytes
    }
}

impl std::ops::Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

struct Fields {
    sequence: u64,
    first_incomplete: u64,
    form: u8,
    detail: u8,
    argument: u32,
    number: u64,
    previous: Option<u64>,
}

/// The end of a client's lease.
pub(super) fn ended() -> Encoded {
    bare(FORM_ENDED, 0)
}

/// What a client waits for.
pub(super) fn waits(first_incomplete: u64) -> Encoded {
    bare(FORM_WAITS, first_incomplete)
}

fn bare(form: u8, first_incomplete: u64) -> Encoded {
    let (sequence, detail, argument, number, previous) = (0, 0, 0, 0, None);
    encode(&Fields { sequence, first_incomplete, form, detail, argument, number, previous })
}

/// What came of an attempt, by an entry of its own version where the outcome names that. If `carries`, the value of the previous object comes behind it.
pub(super) fn done(attempt: Attempt, outcome: &Outcome, carries: bool) -> Encoded {
    let Attempt { id: CompletionId { sequence, .. }, first_incomplete } = attempt;
    let mut previous_version = None;
    let (form, detail, argument, number) = match *outcome {
        Outcome::Put(version) => (FORM_PUT, 0, 0, version.0),
        Outcome::Compared(Compared::Written(version)) => (FORM_COMPARED, 0, 0, version.0),
        Outcome::Compared(Compared::Conflict(version)) => (FORM_COMPARED, 1, 0, version.0),
        Outcome::Compared(Compared::Absent(version)) => (FORM_COMPARED, 2, 0, version.0),
        Outcome::Deleted(Deleted { version, existed }) => {
            (FORM_DELETED, u8::from(existed), 0, version.0)
        }
        Outcome::Incremented(Incremented { number, .. }) => (FORM_INCREMENTED, 0, 0, number as u64),
        Outcome::Appended(Appended { value_len, .. }) => (FORM_APPENDED, 0, 0, value_len as u64),
        Outcome::Expired(Expired { version, exists }) => {
            (FORM_EXPIRED, u8::from(exists), 0, version.0)
        }
        Outcome::Replaced { version, ref previous } => {
            previous_version = previous.as_ref().map(|previous| previous.version.0);
            let detail = match (previous, carries) {
                (None, _) => 0,
                (Some(_), false) => 1,
                (Some(_), true) => 2,
            };
            (FORM_REPLACED, detail, 0, version.0)
        }
        Outcome::Refused(refusal) => {
            let (detail, argument, number) = match refusal {
                Refusal::GivenUp => (0, 0, 0),
                Refusal::NotANumber => (1, 0, 0),
                Refusal::NumberOverflow => (2, 0, 0),
                Refusal::NotARecord => (3, 0, 0),
                Refusal::TooManyFields(count) => (4, count, 0),
                Refusal::OnlyByUpload(len) => (5, len, 0),
                Refusal::ValueTooLarge { len, limit } => (6, len, u64::from(limit)),
                Refusal::KeyTooLong(len) => (7, len, 0),
            };
            (FORM_REFUSED, detail, argument, number)
        }
    };
    let previous = previous_version;
    encode(&Fields { sequence, first_incomplete, form, detail, argument, number, previous })
}

fn encode(fields: &Fields) -> Encoded {
    let mut bytes = [0; BYTES_MAX];
    bytes[..8].copy_from_slice(&fields.sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&fields.first_incomplete.to_le_bytes());
    (bytes[16], bytes[17]) = (fields.form, fields.detail);
    bytes[20..24].copy_from_slice(&fields.argument.to_le_bytes());
    bytes[24..FIXED_BYTES].copy_from_slice(&fields.number.to_le_bytes());
    let mut len = FIXED_BYTES;
    if let Some(previous) = fields.previous {
        bytes[FIXED_BYTES..].copy_from_slice(&previous.to_le_bytes());
        len = PREVIOUS_BYTES;
    }
    Encoded { bytes, len }
}

/// What the completion of `client` in a record of this version says; nothing of bytes that say nothing.
pub(super) fn decode(client: u64, version: Version, value: &[u8]) -> Option<Told<'_>> {
    let (fixed, rest) = value.split_first_chunk::<FIXED_BYTES>()?;
    let (words, _) = fixed.as_chunks::<8>();
    let [sequence, first_incomplete, middle, number] = *words else { return None };
    let (sequence, first_incomplete) =
        (u64::from_le_bytes(sequence), u64::from_le_bytes(first_incomplete));
    let [form, detail, 0, 0, argument @ ..] = middle else { return None };
    let (argument, number) = (u32::from_le_bytes(argument), u64::from_le_bytes(number));
    let is_bare = (sequence, detail, argument, number) == (0, 0, 0, 0) && rest.is_empty();
    match form {
        FORM_ENDED => return (is_bare && first_incomplete == 0).then_some(Told::Ended),
        FORM_WAITS => return is_bare.then_some(Told::Waits(first_incomplete)),
        _ if sequence < first_incomplete => return None,
        _ => {}
    }
    let attempt = Attempt { id: CompletionId { client, sequence }, first_incomplete };
    let told = Version(number);
    if form == FORM_REPLACED {
        return decode_replaced(attempt, detail, argument, told, rest);
    }
    let outcome = match (form, detail, argument) {
        (FORM_PUT, 0, 0) => Outcome::Put(told),
        (FORM_COMPARED, 0, 0) => Outcome::Compared(Compared::Written(told)),
        (FORM_COMPARED, 1, 0) => Outcome::Compared(Compared::Conflict(told)),
        (FORM_COMPARED, 2, 0) => Outcome::Compared(Compared::Absent(told)),
        (FORM_DELETED, 0 | 1, 0) => {
            Outcome::Deleted(Deleted { version: told, existed: detail == 1 })
        }
        (FORM_INCREMENTED, 0, 0) => {
            Outcome::Incremented(Incremented { version, number: number as i64 })
        }
        (FORM_APPENDED, 0, 0) => {
            Outcome::Appended(Appended { version, value_len: usize::try_from(number).ok()? })
        }
        (FORM_EXPIRED, 0 | 1, 0) => {
            Outcome::Expired(Expired { version: told, exists: detail == 1 })
        }
        (FORM_REFUSED, ..) => Outcome::Refused(decode_refusal(detail, argument, number)?),
        _ => return None,
    };
    rest.is_empty().then_some(Told::Done { attempt, outcome, previous: None })
}

fn decode_replaced(
    attempt: Attempt,
    detail: u8,
    argument: u32,
    version: Version,
    rest: &[u8],
) -> Option<Told<'_>> {
    if argument != 0 {
        return None;
    }
    if detail == 0 {
        let outcome = Outcome::Replaced { version, previous: None };
        return rest.is_empty().then_some(Told::Done { attempt, outcome, previous: None });
    }
    let (previous_version, carried) = rest.split_first_chunk::<8>()?;
    let previous_version = Version(u64::from_le_bytes(*previous_version));
    let previous = Some(Previous { version: previous_version, value: Kept::Missing });
    let outcome = Outcome::Replaced { version, previous };
    match detail {
        1 if carried.is_empty() => Some(Told::Done { attempt, outcome, previous: None }),
        2 if carried.len() <= VALUE_BYTES_MAX => {
            Some(Told::Done { attempt, outcome, previous: Some(carried) })
        }
        _ => None,
    }
}

fn decode_refusal(detail: u8, argument: u32, number: u64) -> Option<Refusal> {
    Some(match (detail, argument, number) {
        (0, 0, 0) => Refusal::GivenUp,
        (1, 0, 0) => Refusal::NotANumber,
        (2, 0, 0) => Refusal::NumberOverflow,
        (3, 0, 0) => Refusal::NotARecord,
        (4, count, 0) => Refusal::TooManyFields(count),
        (5, len, 0) => Refusal::OnlyByUpload(len),
        (6, len, limit) => Refusal::ValueTooLarge { len, limit: u32::try_from(limit).ok()? },
        (7, len, 0) => Refusal::KeyTooLong(len),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use weft_protocol::TableId;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::store::{Partition, PartitionConfig};

    fn partition(epoch: u32) -> Partition {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        Partition::new(PartitionConfig { id: 0, epoch, seed: 1, memory }).unwrap()
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let page = include_str!("../../../docs/storage-format.md");
        let example =
            page.split("```text\n").find(|block| block.contains("# a tombstone")).unwrap();
        let lines = example.split("```").next().unwrap().lines();
        let expected: Vec<u8> = lines
            .flat_map(|line| line.split('#').next().unwrap().split_ascii_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let table = TableId(0x0a0b);
        let (mut primary, mut follower) = (partition(3), partition(3));
        for partition in [&mut primary, &mut follower] {
            partition.create_table(crate::store::TableConfig {
                id: table,
                ordered: false,
                quota: None,
                eviction: weft_protocol::Eviction::None,
            });
        }
        primary.set_recording(true);
        primary.put(table, b"k", b"value", None, 0).unwrap();
        let attempt = Attempt { id: CompletionId { client: 9, sequence: 5 }, first_incomplete: 4 };
        primary.once(Some(attempt), |partition| partition.delete(table, b"k", 0)).unwrap();
        let put = primary.take_entry().unwrap().bytes.to_vec();
        let deleted = primary.take_entry().unwrap().bytes.to_vec();
        assert_eq!(deleted, expected);
        follower.apply_entries(&[put, deleted].concat(), 0).unwrap();
        assert_eq!(follower.digest(0), primary.digest(0));
    }

    fn outcomes() -> Vec<Outcome> {
        let version = Version::new(2, 9);
        let previous = || Some(Previous { version: Version::new(1, 1), value: Kept::Missing });
        let (number, value_len) = (i64::MIN, 7);
        let refusals = [
            Refusal::GivenUp,
            Refusal::NotANumber,
            Refusal::NumberOverflow,
            Refusal::NotARecord,
            Refusal::TooManyFields(1_025),
            Refusal::OnlyByUpload(5_000_000),
            Refusal::ValueTooLarge { len: 70_000_000, limit: 67_108_864 },
            Refusal::KeyTooLong(70_000),
        ];
        let others = vec![
            Outcome::Put(version),
            Outcome::Compared(Compared::Written(version)),
            Outcome::Compared(Compared::Conflict(version)),
            Outcome::Compared(Compared::Absent(version)),
            Outcome::Deleted(Deleted { version, existed: false }),
            Outcome::Deleted(Deleted { version, existed: true }),
            Outcome::Incremented(Incremented { version, number }),
            Outcome::Appended(Appended { version, value_len }),
            Outcome::Expired(Expired { version, exists: false }),
            Outcome::Expired(Expired { version, exists: true }),
            Outcome::Replaced { version, previous: None },
            Outcome::Replaced { version, previous: previous() },
        ];
        others.into_iter().chain(refusals.map(Outcome::Refused)).collect()
    }

    #[test]
    fn every_outcome_is_read_as_it_was_written() {
        let attempt = Attempt { id: CompletionId { client: 3, sequence: 8 }, first_incomplete: 8 };
        for outcome in outcomes() {
            for carried in [None, Some(&b"the previous value"[..])] {
                if carried.is_some() && outcome.previous().is_none() {
                    continue;
                }
                let mut bytes = done(attempt, &outcome, carried.is_some()).to_vec();
                bytes.extend(carried.unwrap_or_default());
                let Some(Told::Done { attempt: of, outcome: read, previous }) =
                    decode(3, Version::new(2, 9), &bytes)
                else {
                    panic!("{outcome:?}")
                };
                assert_eq!((of, previous), (attempt, carried));
                assert_eq!(format!("{read:?}"), format!("{outcome:?}"));
                // Cut or longer, they say nothing.
                assert!(decode(3, Version::NONE, &bytes[..31]).is_none());
                if carried.is_none() {
                    bytes.push(0);
                    assert!(decode(3, Version::NONE, &bytes).is_none(), "{outcome:?}");
                }
            }
        }
        assert!(matches!(decode(3, Version::NONE, &ended()), Some(Told::Ended)));
        assert!(matches!(decode(3, Version::NONE, &waits(5)), Some(Told::Waits(5))));
    }
}
