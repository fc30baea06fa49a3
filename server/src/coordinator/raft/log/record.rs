//! How records are named and checked, whatever disk they are on.
//!
//! Keys are `f` format, `i` identity, `l` life, `h` hard state, `s` snapshot, `b` start, and `e` with an index of 8 bytes, most significant first, so
//! that they sort as the log does. A value is a CRC32C, little-endian, of key and bytes, then the bytes: the format is a u32, life a u64,
//! start two of them, little-endian; the rest is protobuf. On files there is `n` too, see [`NUMBER_KEY`].

use raft_codec::Message;

use super::{Batch, Position};

/// The version of all this. A log of another one is refused.
pub(super) const FORMAT: u32 = 2;

/// The record that each batch puts where a disk may forget batches without a word: the batch's number, a u64. The first has 1.
pub(super) const NUMBER_KEY: &[u8] = b"n";

/// A record's name.
pub(super) type Key = Vec<u8>;

/// What a batch comes down to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The record has these bytes now, checksum included.
    Put(Key, Vec<u8>),
    /// Records from the first key up to, but without, the second are gone.
    Remove(Key, Key),
}

/// A record by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Format,
    Identity,
    Life,
    HardState,
    Snapshot,
    Start,
    Entry(u64),
}

impl Kind {
    pub(super) fn key(self) -> Key {
        let letter = match self {
            Kind::Format => b'f',
            Kind::Identity => b'i',
            Kind::Life => b'l',
            Kind::HardState => b'h',
            Kind::Snapshot => b's',
            Kind::Start => b'b',
            Kind::Entry(index) => return entry_key(index),
        };
        vec![letter]
    }

    /// `None` if there is no such record.
    pub(super) fn of(key: &[u8]) -> Option<Kind> {
        let (letter, rest) = key.split_first()?;
        if *letter == b'e' {
            let index = rest.try_into().ok()?;
            #[expect(clippy::big_endian_bytes, reason = "keys sort by their first bytes")]
            return Some(Kind::Entry(u64::from_be_bytes(index)));
        }
        let kind = match letter {
            b'f' => Kind::Format,
            b'i' => Kind::Identity,
            b'l' => Kind::Life,
            b'h' => Kind::HardState,
            b's' => Kind::Snapshot,
            b'b' => Kind::Start,
            _ => return None,
        };
        rest.is_empty().then_some(kind)
    }
}

fn entry_key(index: u64) -> Key {
    let mut key = vec![b'e'];
    #[expect(clippy::big_endian_bytes, reason = "keys sort by their first bytes")]
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The bytes of a value with the checksum before them.
pub(super) fn seal(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut value = checksum(key, bytes).to_le_bytes().to_vec();
    value.extend_from_slice(bytes);
    value
}

/// The bytes that were sealed; `None` if they are not what was.
pub(super) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, bytes) = value.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == checksum(key, bytes)).then_some(bytes)
}

fn checksum(key: &[u8], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), bytes)
}

/// What a batch changes, in order.
pub(super) fn changes(batch: &Batch) -> Vec<Change> {
    let Batch { identity, life, hard_state, snapshot, start, removed, entries, must_sync: _ } =
        batch;
    let mut changes = Vec::with_capacity(entries.len() + 4);
    let mut put = |kind: Kind, bytes: &[u8]| {
        let key = kind.key();
        let value = seal(&key, bytes);
        changes.push(Change::Put(key, value));
    };
    if let Some(identity) = identity {
        put(Kind::Format, &FORMAT.to_le_bytes());
        put(Kind::Identity, &identity.encode());
    }
    if let Some(life) = life {
        put(Kind::Life, &life.to_le_bytes());
    }
    if let Some(hard_state) = hard_state {
        put(Kind::HardState, &hard_state.encode_to_vec());
    }
    if let Some(snapshot) = snapshot {
        put(Kind::Snapshot, &snapshot.encode_to_vec());
    }
    if let Some(Position { index, term }) = start {
        put(Kind::Start, &[index.to_le_bytes(), term.to_le_bytes()].concat());
    }
    let removals =
        removed.iter().map(|gone| Change::Remove(entry_key(gone.start), entry_key(gone.end)));
    changes.extend(removals);
    changes.extend(entries.iter().map(|entry| {
        let key = entry_key(entry.index);
        let value = seal(&key, &entry.encode_to_vec());
        Change::Put(key, value)
    }));
    changes
}

#[cfg(test)]
mod tests {
    use super::{Kind, seal, unseal};

    #[test]
    fn keys_of_entries_sort_by_index_and_all_keys_are_known_again() {
        let indices = [0, 1, 255, 256, 70_000, u64::MAX];
        let keys: Vec<_> = indices.iter().map(|index| Kind::Entry(*index).key()).collect();
        assert!(keys.is_sorted());
        let others = [
            Kind::Format,
            Kind::Identity,
            Kind::Life,
            Kind::HardState,
            Kind::Snapshot,
            Kind::Start,
        ];
        for kind in indices.map(Kind::Entry).iter().chain(&others) {
            assert_eq!(Kind::of(&kind.key()), Some(*kind));
        }
        assert_eq!([&b""[..], b"x", b"ff", b"e123"].map(Kind::of), [None; 4]);
    }

    #[test]
    fn a_flipped_bit_and_a_value_under_another_key_are_seen() {
        let sealed = seal(b"h", b"state");
        assert_eq!(unseal(b"h", &sealed), Some(&b"state"[..]));
        assert_eq!(unseal(b"s", &sealed), None);
        assert_eq!(unseal(b"h", b"123"), None);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal(b"h", &flipped), None);
        }
    }
}
