//! Range: read the objects of an ordered table whose keys are within bounds, in the order of the keys.
//!
//! ```text
//! request  prefix: most objects | lower key | slot u16 | bounds u16 | upper length u16 | upper key
//! reply    a page of a scan, whose cursor is 1 if there is more, else 0
//! ```
//!
//! A node answers for all of the partitions that the client's map gives to it, merged.

use std::ops::Bound;

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::key::Key;
use crate::operation::Operation;
use crate::prefix::{FLAG_VALUES, PREFIX_LEN, Prefix};
use crate::slot::Slot;
use crate::table::TableId;

/// In the bounds: keys are above the lower key, or equal to it.
const LOWER_INCLUDED: u16 = 1 << 0;
/// Keys are above the lower key.
const LOWER_EXCLUDED: u16 = 1 << 1;
/// Keys are below the upper key, or equal to it.
const UPPER_INCLUDED: u16 = 1 << 2;
/// Keys are below the upper key.
const UPPER_EXCLUDED: u16 = 1 << 3;
/// The largest key comes first.
const DESCENDING: u16 = 1 << 4;

/// Asks for the first objects whose keys are within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<'a> {
    /// The table, an ordered one.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map. A node with another map refuses, since it may own other partitions
    /// than the client thinks.
    pub map_epoch: u32,
    /// Where keys begin.
    pub lower: Bound<Key<'a>>,
    /// Where they end.
    pub upper: Bound<Key<'a>>,
    /// Whether the largest key comes first.
    pub descending: bool,
    /// The most objects to return. A node may return fewer and have more.
    pub objects_max: u32,
    /// Whether values are wanted as well.
    pub with_values: bool,
    /// One of the slots of the node.
    pub slot: Slot,
}

impl<'a> Range<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_VALUES)?;
        let lower = reader.key(prefix.key_len)?;
        let slot = reader.slot()?;
        let (bounds, upper_len) = (reader.u16()?, reader.u16()?);
        let upper = reader.key(upper_len)?;
        reader.finish()?;
        let unsupported = DecodeError::UnsupportedBounds { bounds };
        let bound = |key: Key<'a>, included: u16, excluded: u16| match (
            bounds & included != 0,
            bounds & excluded != 0,
        ) {
            (true, false) => Ok(Bound::Included(key)),
            (false, true) => Ok(Bound::Excluded(key)),
            (false, false) if key.is_empty() => Ok(Bound::Unbounded),
            (false, false) | (true, true) => Err(unsupported),
        };
        if bounds >= DESCENDING << 1 {
            return Err(unsupported);
        }
        let Prefix { table, map_epoch, argument: objects_max, .. } = prefix;
        Ok(Self {
            table,
            map_epoch,
            lower: bound(lower, LOWER_INCLUDED, LOWER_EXCLUDED)?,
            upper: bound(upper, UPPER_INCLUDED, UPPER_EXCLUDED)?,
            descending: bounds & DESCENDING != 0,
            objects_max,
            with_values: prefix.flags & FLAG_VALUES != 0,
            slot,
        })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + key_of(&self.lower).len() + 6 + key_of(&self.upper).len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (lower, upper) = (key_of(&self.lower), key_of(&self.upper));
        let prefix = Prefix {
            operation: Operation::Range,
            flags: if self.with_values { FLAG_VALUES } else { 0 },
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: lower.wire_len(),
            argument: self.objects_max,
        };
        let bounds = flag(&self.lower, LOWER_INCLUDED, LOWER_EXCLUDED)
            | flag(&self.upper, UPPER_INCLUDED, UPPER_EXCLUDED)
            | if self.descending { DESCENDING } else { 0 };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&lower);
        writer.u16(self.slot.number());
        writer.u16(bounds);
        writer.u16(upper.wire_len());
        writer.bytes(&upper);
        writer.finish();
    }
}

/// The key of a bound; an empty one where there is no bound.
fn key_of<'a>(bound: &Bound<Key<'a>>) -> Key<'a> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => *key,
        Bound::Unbounded => Key::EMPTY,
    }
}

fn flag(bound: &Bound<Key<'_>>, included: u16, excluded: u16) -> u16 {
    match bound {
        Bound::Included(_) => included,
        Bound::Excluded(_) => excluded,
        Bound::Unbounded => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = Range {
            table: TableId(2),
            map_epoch: 7,
            lower: Bound::Included(key(b"lo")),
            upper: Bound::Excluded(key(b"lp")),
            descending: true,
            objects_max: 100,
            with_values: true,
            slot: Slot::from_number(8_192).unwrap(),
        };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("range request"));
    }

    #[test]
    fn bounds_that_contradict_themselves_are_refused() {
        let with = |bounds: u16| {
            let mut message = documented("range request");
            message[20..22].copy_from_slice(&bounds.to_le_bytes());
            Request::decode(&message).map(|_| ())
        };
        assert_eq!(with(LOWER_INCLUDED | UPPER_INCLUDED), Ok(()));
        // Both, neither for a key that is there, one that nobody knows.
        for bounds in [3 | UPPER_EXCLUDED, 12 | LOWER_EXCLUDED, LOWER_INCLUDED, UPPER_INCLUDED, 41]
        {
            assert_eq!(with(bounds), Err(DecodeError::UnsupportedBounds { bounds }));
        }
    }

    fn bound<'a>(kind: u8, bytes: &'a [u8]) -> Bound<Key<'a>> {
        match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key(bytes)),
            _ => Bound::Excluded(key(bytes)),
        }
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            (lower, upper) in (bytes(40), bytes(40)),
            kinds in (0_u8..3, 0_u8..3),
            (objects_max, with_values, descending) in any::<(u32, bool, bool)>(),
            number in 0..Slot::COUNT,
        ) {
            check_request(Request::Range(Range {
                table,
                map_epoch,
                lower: bound(kinds.0, &lower),
                upper: bound(kinds.1, &upper),
                descending,
                objects_max,
                with_values,
                slot: Slot::from_number(number).unwrap(),
            }));
        }
    }
}
