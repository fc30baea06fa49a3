//! The bytes of a record: a header of 24 bytes, an expiry if it has one, the key, the value.
//!
//! `docs/storage-format.md` draws them. One format serves memory, backups and disk, so that moving
//! a record never means encoding it again. Everything is little-endian.

use weft_protocol::limits::KEY_MAX;
use weft_protocol::{TableId, Version};

/// Bytes of a record before its expiry, key and value.
pub(super) const HEADER_BYTES: usize = 24;
/// Bytes of an expiry, in milliseconds of Unix time.
const EXPIRY_BYTES: usize = 8;
/// Bits of the value's length; the kind is above them.
const VALUE_LEN_BITS: u32 = 28;
/// Bits of the kind; whether there is an expiry is above them.
const KIND_BITS: u32 = 3;
/// The record has an expiry.
const EXPIRES: u32 = 1 << (VALUE_LEN_BITS + KIND_BITS);
/// Where the checksum starts; the liveness word before it changes while the record does not.
pub(super) const CHECKSUM_AT: usize = 4;
/// Where the checksummed bytes start.
const CHECKED_AT: usize = 8;

/// Values are shorter than this, which their length's field cannot say.
pub(super) const VALUE_LEN_END: usize = 1 << VALUE_LEN_BITS;

/// In the liveness word of the current record of a key.
const LIVE: u32 = 1;
/// The liveness word of a record that was overwritten, removed or moved.
pub(super) const DEAD: u32 = 0;
/// Bits of a time in milliseconds that the time of the last use leaves out.
const USE_SHIFT: u32 = 4;
/// The time of the last use counts to this and begins anew: after 397 days.
const USE_END: u32 = 1 << 31;

/// When a record was last used, as the other bits of its liveness word have it: in units of 16 ms, modulo 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastUse(u32);

impl LastUse {
    /// Used at `now_ms`.
    #[inline]
    pub(super) fn at(now_ms: u64) -> LastUse {
        LastUse((now_ms >> USE_SHIFT) as u32 & (USE_END - 1))
    }

    /// How long it is unused by `now`, in units of 16 ms, if that is less than 198 days. Not at all, if it was used after that: who evicts
    /// has looked at the clock before others who use objects meanwhile, whose objects would seem to be unused for 397 days.
    pub(super) fn idle_by(self, now: LastUse) -> u32 {
        let idle = now.0.wrapping_sub(self.0) & (USE_END - 1);
        if idle < USE_END / 2 { idle } else { 0 }
    }

    /// The liveness word of a record that is live.
    #[inline]
    pub(super) fn liveness_word(self) -> u32 {
        LIVE | self.0 << 1
    }
}

/// What a record says. Zero is no kind, so that untouched memory is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A key has this value.
    Object = 1,
    /// A key has no value as of this version. Made for replicas, backups and disk: in memory a
    /// removed key is simply not in the index.
    Tombstone = 2,
    /// A client's request had this outcome. The record travels with the mutation that it tells of.
    Completion = 3,
    /// A table was created, altered, dropped or emptied.
    Tables = 4,
}

impl Kind {
    fn from_bits(bits: u32) -> Option<Kind> {
        match bits {
            1 => Some(Kind::Object),
            2 => Some(Kind::Tombstone),
            3 => Some(Kind::Completion),
            4 => Some(Kind::Tables),
            _ => None,
        }
    }
}

/// What precedes key and value of a record that is about to be put together, but for its checksum: that is made where the record lies, in one piece and at a
/// multiple of 8, which takes half the time of making it from the parts.
pub(super) struct Head {
    bytes: [u8; HEADER_BYTES + EXPIRY_BYTES],
    len: usize,
}

impl Head {
    /// The head of a live object. The caller has checked that the lengths fit their fields.
    #[inline]
    pub(super) fn object(
        version: Version,
        table: TableId,
        key: &[u8],
        value_len: usize,
        expiry_ms: Option<u64>,
        last_use: LastUse,
    ) -> Head {
        Head::new(version, table, key, (value_len, Kind::Object), expiry_ms, last_use)
    }

    /// The head of a record that is no object and lies in no log.
    pub(super) fn beside(
        kind: Kind,
        version: Version,
        table: TableId,
        key: &[u8],
        value_len: usize,
    ) -> Head {
        Head::new(version, table, key, (value_len, kind), None, LastUse(0))
    }

    #[inline]
    fn new(
        version: Version,
        table: TableId,
        key: &[u8],
        (value_len, kind): (usize, Kind),
        expiry_ms: Option<u64>,
        last_use: LastUse,
    ) -> Head {
        debug_assert!(value_len < VALUE_LEN_END && key.len() <= KEY_MAX);
        let mut length_and_kind = value_len as u32 | (kind as u32) << VALUE_LEN_BITS;
        let mut bytes = [0; HEADER_BYTES + EXPIRY_BYTES];
        let mut len = HEADER_BYTES;
        if let Some(expiry_ms) = expiry_ms {
            length_and_kind |= EXPIRES;
            bytes[HEADER_BYTES..].copy_from_slice(&expiry_ms.to_le_bytes());
            len += EXPIRY_BYTES;
        }
        bytes[0..4].copy_from_slice(&last_use.liveness_word().to_le_bytes());
        bytes[8..16].copy_from_slice(&version.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&length_and_kind.to_le_bytes());
        bytes[20..24].copy_from_slice(&identity(table, key).to_le_bytes());
        Head { bytes, len }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The header alone, without an expiry.
    #[inline]
    pub(super) fn fixed(&self) -> &[u8; HEADER_BYTES] {
        self.bytes.first_chunk().expect("a head is longer than its header")
    }
}

/// Length of the key and table, the header's last word: most keys that differ are told apart by it
/// alone. That of a key longer than a header can say may equal another's; their bytes do not.
#[inline]
fn identity(table: TableId, key: &[u8]) -> u32 {
    key.len() as u32 | u32::from(table.0) << 16
}

/// Fills in the checksum of a record that begins with `bytes`, without padding; `add_rest` makes it that of the whole, if the end of the value lies elsewhere.
#[inline]
pub(super) fn seal(bytes: &mut [u8], add_rest: impl FnOnce(u32) -> u32) {
    let checksum = add_rest(crc32c::crc32c(&bytes[CHECKED_AT..]));
    bytes[CHECKSUM_AT..CHECKED_AT].copy_from_slice(&checksum.to_le_bytes());
}

/// Bytes of a record before its key.
pub(super) fn head_bytes(expiry_ms: Option<u64>) -> usize {
    HEADER_BYTES + if expiry_ms.is_some() { EXPIRY_BYTES } else { 0 }
}

/// Bytes that a record takes in the log, with its padding.
#[inline]
pub(super) fn record_bytes(head: &Head, key: &[u8], value_len: usize) -> usize {
    (head.len + key.len() + value_len).next_multiple_of(8)
}

/// A record in the log.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    /// From the header to the end of the segment's committed bytes.
    bytes: &'a [u8],
    version: u64,
    length_and_kind: u32,
    identity: u32,
}

impl<'a> Record<'a> {
    /// The record that starts with `bytes`; `None` if they are fewer than a header.
    #[inline]
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Record<'a>> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let (fields, _) = header.as_chunks::<8>();
        let last = u64::from_le_bytes(fields[2]);
        Some(Record {
            bytes,
            version: u64::from_le_bytes(fields[1]),
            length_and_kind: last as u32,
            identity: (last >> 32) as u32,
        })
    }

    /// The record that `bytes` begin with, which anybody may have sent, and what is behind it; `None` if they do not hold all of it.
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Record<'a>, &'a [u8])> {
        let record = Record::parse(bytes)?;
        let rest = bytes.get(record.len()..)?;
        Some((record, rest))
    }

    /// All of it, with the padding.
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.len()]
    }

    pub(super) fn is_live(&self) -> bool {
        self.bytes[0] & LIVE as u8 != 0
    }

    /// When it was last used. Of no meaning if it is dead.
    #[inline]
    pub(super) fn last_use(&self) -> LastUse {
        let word = self.bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        LastUse(word >> 1)
    }

    /// `None` if it is none that this release knows.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::from_bits(self.length_and_kind >> VALUE_LEN_BITS & ((1 << KIND_BITS) - 1))
    }

    #[inline]
    pub(super) fn version(&self) -> Version {
        Version(self.version)
    }

    pub(super) fn table(&self) -> TableId {
        TableId((self.identity >> 16) as u16)
    }

    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        &self.bytes[self.key_start()..self.value_start()]
    }

    #[inline]
    pub(super) fn is_of(&self, table: TableId, key: &[u8]) -> bool {
        self.identity == identity(table, key) && self.key() == key
    }

    #[inline]
    pub(super) fn value(&self) -> &'a [u8] {
        &self.bytes[self.value_start()..][..self.value_len()]
    }

    /// Milliseconds of Unix time.
    #[inline]
    pub(super) fn expiry_ms(&self) -> Option<u64> {
        if self.length_and_kind & EXPIRES == 0 {
            return None;
        }
        self.bytes[HEADER_BYTES..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn is_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms().is_some_and(|expiry_ms| expiry_ms <= now_ms)
    }

    /// Where the value starts, from the start of the record.
    #[inline]
    pub(super) fn value_start(&self) -> usize {
        self.key_start() + (self.identity & 0xffff) as usize
    }

    #[inline]
    pub(super) fn value_len(&self) -> usize {
        self.length_and_kind as usize & (VALUE_LEN_END - 1)
    }

    /// Bytes in the log, with the padding.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.value_start() + self.value_len()).next_multiple_of(8)
    }

    /// All but the liveness word and the padding, in the bytes that its checksum is of and the checksum before them.
    pub(super) fn lasting_bytes(&self) -> &'a [u8] {
        &self.bytes[CHECKSUM_AT..self.value_start() + self.value_len()]
    }

    /// Whether all of it is there and its bytes are those that were written. The liveness word is
    /// not looked at.
    pub(super) fn is_intact(&self) -> bool {
        let found = self.bytes.get(CHECKSUM_AT..CHECKED_AT);
        let checksum = self.checksum().map(u32::to_le_bytes);
        checksum.is_some_and(|checksum| found == Some(&checksum))
    }

    /// What its checksum has to be; nothing if not all of it is there.
    #[inline]
    pub(super) fn checksum(&self) -> Option<u32> {
        let end = self.value_start() + self.value_len();
        self.bytes.get(CHECKED_AT..end).map(crc32c::crc32c)
    }

    #[inline]
    fn key_start(&self) -> usize {
        let expires = self.length_and_kind & EXPIRES != 0;
        HEADER_BYTES + if expires { EXPIRY_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(
        version: u64,
        table: u16,
        key: &[u8],
        value: &[u8],
        expiry_ms: Option<u64>,
    ) -> Vec<u8> {
        let head = Head::object(
            Version(version),
            TableId(table),
            key,
            value.len(),
            expiry_ms,
            LastUse(0x0403_0201),
        );
        let mut bytes = [head.bytes(), key, value].concat();
        // Wherever the end of the value lies.
        let here_len = bytes.len() - value.len() / 3;
        let (here, elsewhere) = bytes.split_at_mut(here_len);
        seal(here, |checksum| crc32c::crc32c_append(checksum, elsewhere));
        bytes.resize(record_bytes(&head, key, value.len()), 0);
        bytes
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            version: u64,
            table: u16,
            key in prop::collection::vec(any::<u8>(), 0..300),
            value in prop::collection::vec(any::<u8>(), 0..300),
            expiry_ms: Option<u64>,
        ) {
            let bytes = written(version, table, &key, &value, expiry_ms);
            let record = Record::parse(&bytes).unwrap();
            prop_assert_eq!(record.version(), Version(version));
            prop_assert_eq!(record.table(), TableId(table));
            prop_assert_eq!(record.key(), &key[..]);
            prop_assert_eq!(record.value(), &value[..]);
            prop_assert_eq!(record.expiry_ms(), expiry_ms);
            prop_assert_eq!(record.kind(), Some(Kind::Object));
            prop_assert_eq!(record.len(), bytes.len());
            prop_assert!(record.is_live());
            prop_assert_eq!(record.last_use(), LastUse(0x0403_0201));
            prop_assert!(record.is_intact());
            prop_assert!(record.is_of(TableId(table), &key));
            prop_assert!(!record.is_of(TableId(table ^ 1), &key));
        }

        #[test]
        fn every_flipped_bit_is_noticed_but_those_of_liveness(bit in 0_usize..48 * 8) {
            let mut bytes = written(7, 1, b"key", b"thirteen byte", Some(9));
            bytes[bit / 8] ^= 1 << (bit % 8);
            let intact = Record::parse(&bytes).unwrap().is_intact();
            prop_assert_eq!(intact, bit / 8 < 4);
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let page = include_str!("../../../docs/storage-format.md");
        let example = page.split("```text\n").find(|block| block.starts_with("03 04")).unwrap();
        let lines = example.split("```").next().unwrap().lines();
        let expected: Vec<u8> = lines
            .flat_map(|line| line.split('#').next().unwrap().split_ascii_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let bytes = written(0x0102_0304_0506_0708, 0x0a0b, b"k", b"value", Some(17));
        assert_eq!(bytes, expected);
    }

    #[test]
    fn idleness_is_told_past_the_end_of_the_count() {
        let end_ms = u64::from(USE_END) << USE_SHIFT;
        let used = LastUse::at(end_ms - 32);
        assert_eq!(used.idle_by(LastUse::at(end_ms - 1)), 1);
        assert_eq!(used.idle_by(LastUse::at(end_ms + 64)), 6);
        assert_eq!(LastUse::at(end_ms), LastUse::at(0));
        assert_eq!(used.liveness_word().to_le_bytes(), [0xfd, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn untouched_memory_is_no_record() {
        assert!(Record::parse(&[0; 23]).is_none());
        let zeroes = [0; 64];
        let record = Record::parse(&zeroes).unwrap();
        assert_eq!(record.kind(), None);
        assert!(!record.is_live());
    }
}
