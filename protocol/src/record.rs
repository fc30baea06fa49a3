//! Records: values that are fields with names, which can be read and changed one by one.
//!
//! ```text
//! magic u16 | count u16 | (name length u16 | 0 u16 | value length u32)… | names | values
//! ```
//!
//! Lengths and names lie together, so that a field is found without a look at the others' values.

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, LimitError};
use crate::key::Key;
use crate::limits::{FIELDS_MAX, LIST_BYTES_MAX};
use crate::list::Element;
use crate::value::Value;

/// What a record begins with: `RF`.
const MAGIC: u16 = u16::from_le_bytes(*b"RF");
/// Bytes before the lengths.
const HEAD_LEN: usize = 4;
/// Bytes of the lengths of a field.
const LENGTHS_LEN: usize = 8;

/// A value that is a record, borrowed from where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    lengths: &'a [u8],
    names: &'a [u8],
    values: &'a [u8],
}

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is no record of fields")]
pub struct NotARecord;

impl<'a> Record<'a> {
    /// A record without fields.
    pub const EMPTY: Self = Self { lengths: &[], names: &[], values: &[] };

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`NotARecord`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotARecord> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(NotARecord)?;
        let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if u16::from_le_bytes([head[0], head[1]]) != MAGIC || count > FIELDS_MAX {
            return Err(NotARecord);
        }
        let (lengths, rest) = rest.split_at_checked(count * LENGTHS_LEN).ok_or(NotARecord)?;
        let (mut names_len, mut values_len) = (0, 0);
        for (name_len, reserved, value_len) in each_length(lengths) {
            if reserved != 0 {
                return Err(NotARecord);
            }
            // At most FIELDS_MAX times 2^32: no overflow.
            names_len += name_len;
            values_len += value_len;
        }
        let (names, values) = rest.split_at_checked(names_len).ok_or(NotARecord)?;
        if values.len() != values_len {
            return Err(NotARecord);
        }
        Ok(Self { lengths, names, values })
    }

    /// How many fields it has.
    pub const fn len(&self) -> usize {
        self.lengths.len() / LENGTHS_LEN
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The fields, each with its name and value, in the order in which they were first written.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let (mut names, mut values) = (self.names, self.values);
        each_length(self.lengths).map(move |(name_len, _, value_len)| {
            let (name, rest) = names.split_at(name_len);
            names = rest;
            let (value, rest) = values.split_at(value_len);
            values = rest;
            (name, value)
        })
    }

    /// The value of a field, if the record has it.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Appends the bytes of a record of these fields, whose names are to be different, to `bytes`.
    ///
    /// # Errors
    ///
    /// [`LimitError::TooManyFields`], [`LimitError::KeyTooLong`] of a name, or [`LimitError::RequestValueTooLarge`] of the
    /// whole; `bytes` is as it was then.
    pub fn encode<'f>(
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        bytes: &mut Vec<u8>,
    ) -> Result<(), LimitError> {
        let (mut count, mut len) = (0, HEAD_LEN);
        for (name, value) in fields.clone() {
            Key::new(name)?;
            count += 1;
            len += LENGTHS_LEN + name.len() + value.len();
        }
        if count > FIELDS_MAX {
            return Err(LimitError::TooManyFields { count });
        }
        if len > crate::limits::REQUEST_VALUE_MAX {
            return Err(LimitError::RequestValueTooLarge { len });
        }
        // A buffer that doubles would take twice what a record may have.
        bytes.reserve_exact(len);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&(count as u16).to_le_bytes());
        for (name, value) in fields.clone() {
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        fields.clone().for_each(|(name, _)| bytes.extend_from_slice(name));
        fields.for_each(|(_, value)| bytes.extend_from_slice(value));
        Ok(())
    }

    /// Appends the bytes of the record with `changes` made to it to `bytes`. Of several changes of one field the
    /// last counts.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn change(
        &self,
        changes: impl Iterator<Item = FieldChange<'a>>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), LimitError> {
        let mut changes: Vec<_> =
            changes.map(|FieldChange { name, value }| (name.bytes(), value)).collect();
        // In order, those of one field as they came.
        let order = {
            let mut order: Vec<_> = (0..changes.len()).collect();
            order.sort_by_key(|&index| changes[index].0);
            order
        };
        // What is overtaken by a later one counts no more.
        let mut counts = vec![true; changes.len()];
        for pair in order.windows(2) {
            counts[pair[0]] = changes[pair[0]].0 != changes[pair[1]].0;
        }
        let mut order = order;
        order.retain(|&index| counts[index]);
        let mut fields = Vec::with_capacity(self.len() + order.len());
        for (name, value) in self.fields() {
            match order.binary_search_by_key(&name, |&index| changes[index].0) {
                Ok(found) => {
                    let index = order[found];
                    counts[index] = false;
                    if let Some(value) = changes[index].1 {
                        fields.push((name, value.bytes()));
                    }
                }
                Err(_) => fields.push((name, value)),
            }
        }
        // What is left is new, in the order in which it came.
        for (index, (name, value)) in changes.drain(..).enumerate() {
            if let Some(value) = value.filter(|_| counts[index]) {
                fields.push((name, value.bytes()));
            }
        }
        Self::encode(fields.into_iter(), bytes)
    }
}

/// The lengths of the fields: of the name, what has to be zero, of the value.
fn each_length(lengths: &[u8]) -> impl Iterator<Item = (usize, u16, usize)> + Clone {
    let (lengths, _) = lengths.as_chunks::<LENGTHS_LEN>();
    lengths.iter().map(|bytes| {
        let word = u64::from_le_bytes(*bytes);
        (usize::from(word as u16), (word >> 16) as u16, (word >> 32) as usize)
    })
}

/// What is to become of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldChange<'a> {
    /// The field's name.
    pub name: Key<'a>,
    /// Its new value; `None` removes it.
    pub value: Option<Value<'a>>,
}

impl<'a> FieldChange<'a> {
    /// `value` becomes the value of the field.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if name or value is too long.
    pub fn put(name: &'a [u8], value: &'a [u8]) -> Result<Self, LimitError> {
        Ok(Self { name: Key::new(name)?, value: Some(Value::new(value)?) })
    }

    /// The field is removed.
    ///
    /// # Errors
    ///
    /// [`LimitError::KeyTooLong`] if the name is too long.
    pub fn remove(name: &'a [u8]) -> Result<Self, LimitError> {
        Ok(Self { name: Key::new(name)?, value: None })
    }
}

/// The flag of a change that says that the field is removed.
const CHANGE_REMOVE: u16 = 1 << 0;

/// `name length u16 | flags u16 | value length u32 | name | value`
impl<'a> Element<'a> for FieldChange<'a> {
    fn encoded_len(&self) -> usize {
        8 + self.name.len() + self.value.map_or(0, |value| value.len())
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.name.wire_len());
        writer.u16(if self.value.is_none() { CHANGE_REMOVE } else { 0 });
        writer.u32(self.value.map_or(0, Value::wire_len));
        writer.bytes(&self.name);
        writer.bytes(self.value.map_or(&[], Value::bytes));
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (name_len, flags, value_len) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let name = reader.key(name_len)?;
        match flags {
            0 => Ok(Self { name, value: Some(reader.value(value_len)?) }),
            CHANGE_REMOVE if value_len == 0 => Ok(Self { name, value: None }),
            CHANGE_REMOVE => Err(DecodeError::ReservedField { field: "value length" }),
            _ => Err(DecodeError::UnsupportedPairFlags { flags: flags & !CHANGE_REMOVE }),
        }
    }
}

// A change of the longest name and the largest value fits a request.
const _: () = assert!(
    8 + crate::limits::KEY_MAX + crate::limits::REQUEST_VALUE_MAX <= LIST_BYTES_MAX
        && FIELDS_MAX <= u16::MAX as usize
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::limits::{KEY_MAX, REQUEST_VALUE_MAX};
    use crate::round_trip::{bytes, documented, hostile, key, value};

    fn encoded(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Record::encode(fields.iter().copied(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        assert_eq!(encoded(&[(b"warp", b"wool"), (b"weft", b"silk!")]), documented("record"));
        assert_eq!(Record::parse(&encoded(&[])), Ok(Record::EMPTY));
    }

    #[test]
    fn what_contradicts_itself_is_no_record() {
        let good = documented("record");
        assert!(Record::parse(&good).is_ok());
        for cut in 0..good.len() {
            assert_eq!(Record::parse(&good[..cut]), Err(NotARecord), "{cut}");
        }
        assert_eq!(Record::parse(&[&good[..], &[0]].concat()), Err(NotARecord));
        // The magic, the count, a reserved byte, the lengths.
        for at in [0, 1, 2, 3, 6, 7, 8, 12, 14, 15] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Record::parse(&bad), Err(NotARecord), "{at}");
        }
        let mut wide = Vec::from(*b"RF");
        wide.extend_from_slice(&(FIELDS_MAX as u16 + 1).to_le_bytes());
        wide.resize(HEAD_LEN + LENGTHS_LEN * (FIELDS_MAX + 1), 0);
        assert_eq!(Record::parse(&wide), Err(NotARecord));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let (name, many) = (vec![1; KEY_MAX + 1], vec![(&b"n"[..], &b""[..]); FIELDS_MAX + 1]);
        let mut bytes = Vec::new();
        let mut refused = |fields: &[(&[u8], &[u8])]| {
            let error = Record::encode(fields.iter().copied(), &mut bytes).unwrap_err();
            assert!(bytes.is_empty());
            error
        };
        assert_eq!(refused(&[(&name, b"")]), LimitError::KeyTooLong { len: KEY_MAX + 1 });
        assert_eq!(refused(&many), LimitError::TooManyFields { count: FIELDS_MAX + 1 });
        let large = vec![2; REQUEST_VALUE_MAX];
        assert_eq!(
            refused(&[(b"", &large)]),
            LimitError::RequestValueTooLarge { len: REQUEST_VALUE_MAX + 12 }
        );
    }

    fn names() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(b'a'..=b'c', 0..3)
    }

    proptest! {
        /// Against a list of pairs.
        #[test]
        fn changes_are_those_of_a_map_that_keeps_its_order(
            before in prop::collection::btree_map(names(), bytes(20), 0..8),
            changes in prop::collection::vec((names(), prop::option::of(bytes(20))), 0..12),
        ) {
            let mut model: Vec<_> = before.into_iter().collect();
            let fields: Vec<_> = model.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let old = encoded(&fields);
            let old = Record::parse(&old).unwrap();
            prop_assert_eq!(old.len(), model.len());
            prop_assert_eq!(old.fields().collect::<Vec<_>>(), fields);

            let changed = changes.iter().map(|(name, value_)| {
                FieldChange { name: key(name), value: value_.as_deref().map(value) }
            });
            let mut bytes = Vec::new();
            old.change(changed, &mut bytes).unwrap();
            let last: BTreeMap<_, _> = changes.iter().cloned().collect();
            model.retain(|(name, _)| !matches!(last.get(name), Some(None)));
            for (name, value) in &mut model {
                if let Some(Some(new)) = last.get(name) {
                    value.clone_from(new);
                }
            }
            for (name, value) in &last {
                let is_new = !model.iter().any(|(found, _)| found == name);
                if let (true, Some(value)) = (is_new, value) {
                    model.push((name.clone(), value.clone()));
                }
            }
            let record = Record::parse(&bytes).unwrap();
            let mut found: Vec<_> =
                record.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            // Those that were there come first, in their order; new ones in that of the changes.
            let there = found.iter().take_while(|(name, _)| old.get(name).is_some()).count();
            prop_assert_eq!(&found[..there], &model[..there]);
            found[there..].sort();
            prop_assert_eq!(&found, &model);
            for (name, value) in &model {
                prop_assert_eq!(record.get(name), Some(&value[..]));
            }
            prop_assert_eq!(record.get(b"nobody"), None);
        }

        #[test]
        fn hostile_records_are_survived(bytes in hostile(documented("record"))) {
            if let Ok(record) = Record::parse(&bytes) {
                let len: usize = record.fields().map(|(name, value)| name.len() + value.len()).sum();
                prop_assert_eq!(HEAD_LEN + LENGTHS_LEN * record.len() + len, bytes.len());
            }
        }
    }
}
