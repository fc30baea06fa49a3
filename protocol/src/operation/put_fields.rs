//! Put-fields: change some fields of the record of one key, all or none.
//!
//! ```text
//! request  prefix: number of changes | completion id? | expiry? | key | changes
//! reply    head: ok, version
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, LimitError};
use crate::list::List;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::record::FieldChange;
use crate::target::Target;

/// Changes fields of the record of a key. A key without an object counts as a record without fields. The answer
/// is a [`PutReply`](crate::PutReply).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutFields<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// When an object that this creates ceases to be, in milliseconds of Unix time; `None` is
    /// never. One that is there keeps the expiry that it has.
    pub expires_at_ms: Option<u64>,
    /// What is to become of which fields, at most [`FIELDS_MAX`](crate::limits::FIELDS_MAX) of them.
    pub changes: List<'a, FieldChange<'a>>,
}

impl<'a> PutFields<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let (target, expires_at_ms) = Target::decode_expiring(&prefix, &mut reader)?;
        LimitError::check_fields(prefix.argument as usize)?;
        let changes = List::decode(prefix.argument, reader)?;
        Ok(Self { target, expires_at_ms, changes })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(self.expires_at_ms) + self.changes.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let count = self.changes.wire_count();
        self.target.encode(Operation::PutFields, count, self.expires_at_ms, &mut writer);
        self.changes.encode(&mut writer);
        writer.finish();
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
        let changes = [
            FieldChange { name: key(b"weft"), value: Some(value(b"silk!")) },
            FieldChange { name: key(b"warp"), value: None },
        ];
        let (changes, _) = List::fitting(&changes);
        let request = PutFields { target: documented_target(), expires_at_ms: None, changes };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("put-fields request"));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            expires_at_ms in any::<Option<u64>>(),
            changes in prop::collection::vec((bytes(20), prop::option::of(bytes(40))), 0..12),
        ) {
            let changes: Vec<_> = changes
                .iter()
                .map(|(name, value_)| {
                    FieldChange { name: key(name), value: value_.as_deref().map(value) }
                })
                .collect();
            let (changes, _) = List::fitting(&changes);
            let request = PutFields { target: target.get(), expires_at_ms, changes };
            check_request(Request::PutFields(request));
        }

        #[test]
        fn hostile_changes_are_survived(message in hostile(documented("put-fields request"))) {
            if let Ok(Request::PutFields(request)) = Request::decode(&message) {
                prop_assert_eq!(request.changes.iter().count(), request.changes.len());
            }
        }
    }
}
