//! How a record lies in one object.
//!
//! A store of objects keeps all fields of a record in one value: the fields in the order of their
//! numbers, each preceded by its length, but the last, which takes what is left. Lengths are LEB128:
//! seven bits a byte, the lowest first, the high bit set where more follow. Field names are not
//! stored; their order is the workload's. So ten fields of 100 bytes are 1,009 bytes, and a record
//! of a single field is that field, byte for byte.

use std::ops::Range;

/// The number of fields a record has, which reader and writer must agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// At least one.
    pub(crate) fields: usize,
}

impl Layout {
    /// Appends field `index`, `length` bytes that `fill` appends.
    pub(crate) fn append(
        self,
        record: &mut Vec<u8>,
        index: usize,
        length: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        if index + 1 < self.fields {
            append_length(record, length);
        }
        let begin = record.len();
        fill(record);
        debug_assert_eq!(record.len() - begin, length);
    }

    /// Writes to `changed` the `record` with field `index` replaced by `length` bytes that `fill`
    /// appends; `None` if the record has no such field.
    pub(crate) fn replace(
        self,
        record: &[u8],
        index: usize,
        changed: &mut Vec<u8>,
        length: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Option<()> {
        let mut places = self.places(record);
        let mut begin = 0;
        for _ in 0..index {
            begin = places.next()??.end;
        }
        let end = places.next()??.end;
        changed.clear();
        changed.extend_from_slice(&record[..begin]);
        self.append(changed, index, length, fill);
        changed.extend_from_slice(&record[end..]);
        Some(())
    }

    /// The bytes of each field, in order; the first `None` is where the record is not of this
    /// layout.
    pub(crate) fn fields(self, record: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
        self.places(record).map(|place| place.map(|place| &record[place]))
    }

    /// Whether the record has all its fields: a record loaded with other field counts usually has
    /// not.
    pub(crate) fn fits(self, record: &[u8]) -> bool {
        self.places(record).all(|place| place.is_some())
    }

    fn places(self, record: &[u8]) -> impl Iterator<Item = Option<Range<usize>>> {
        let mut at = 0;
        (0..self.fields).map(move |index| {
            let (begin, length) = if index + 1 < self.fields {
                read_length(record, at)?
            } else {
                (at, record.len() - at)
            };
            let end = begin.checked_add(length).filter(|&end| end <= record.len())?;
            at = end;
            Some(begin..end)
        })
    }
}

fn append_length(record: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        record.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    record.push(length as u8);
}

/// The length that begins at `at`, and where the bytes begin that it counts.
fn read_length(record: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut length = 0;
    for (position, &byte) in record.get(at..)?.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * position);
        if byte & 0x80 == 0 {
            return Some((at + position + 1, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[&[u8]]) -> Vec<u8> {
        let layout = Layout { fields: fields.len() };
        let mut record = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            layout.append(&mut record, index, field.len(), |out| out.extend_from_slice(field));
        }
        record
    }

    fn read(record: &[u8], fields: usize) -> Option<Vec<&[u8]>> {
        Layout { fields }.fields(record).collect()
    }

    #[test]
    fn every_field_but_the_last_carries_its_length() {
        assert_eq!(record(&[b"only"]), b"only");
        assert_eq!(record(&[b"one", b"", b"three"]), b"\x03one\x00three");
        let long = [b'x'; 300];
        let record = record(&[&long, &long]);
        assert_eq!(record.len(), 2 + 300 + 300);
        assert_eq!(record[..2], [0xAC, 0x02]);
        assert_eq!(read(&record, 2), Some(vec![&long[..], &long[..]]));
    }

    #[test]
    fn ten_fields_of_100_bytes_are_1009_bytes() {
        assert_eq!(record(&[&[b'x'; 100][..]; 10]).len(), 1_009);
    }

    #[test]
    fn any_field_can_be_replaced_by_a_longer_or_a_shorter_one() {
        let before = record(&[b"one", b"two", b"three"]);
        for (index, expected) in [
            (0, [&b"1"[..], b"two", b"three"]),
            (1, [b"one", b"1", b"three"]),
            (2, [b"one", b"two", b"1"]),
        ] {
            let mut changed = b"left over".to_vec();
            let layout = Layout { fields: 3 };
            layout.replace(&before, index, &mut changed, 1, |out| out.push(b'1')).unwrap();
            assert_eq!(read(&changed, 3).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        for bytes in [&b""[..], b"\x05four", b"\xFF\xFF\xFF\xFF\xFF\x01x", b"\x80"] {
            assert!(!Layout { fields: 2 }.fits(bytes), "{bytes:?}");
            let changed = &mut Vec::new();
            assert!(Layout { fields: 2 }.replace(bytes, 0, changed, 0, |_| ()).is_none());
        }
        assert!(Layout { fields: 1 }.fits(b""), "a single field may be empty");
    }
}
