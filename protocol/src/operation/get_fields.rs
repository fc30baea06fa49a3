//! Get-fields: read some fields of the record of one key.
//!
//! ```text
//! request  prefix: number of fields | key | names
//! reply    head: ok, number of fields, length, version | (length of the value u32)… | values
//!          head: absent, version
//! ```

use std::ops::Range;

use weft_transport::limits::MESSAGE_MAX;

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, LimitError, ReplyError};
use crate::key::Key;
use crate::limits::FIELDS_MAX;
use crate::list::Keys;
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::record::Record;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;
use crate::version::Version;

/// The length of a field that there is not.
const ABSENT: u32 = u32::MAX;

/// Asks for fields of the record of `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetFields<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// The key.
    pub key: Key<'a>,
    /// Names of the fields, at most [`FIELDS_MAX`].
    pub names: Keys<'a>,
}

impl<'a> GetFields<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        let Prefix { table, map_epoch, argument: count, .. } = prefix;
        LimitError::check_fields(count as usize)?;
        let key = reader.key(prefix.key_len)?;
        let names = Keys::decode(count, reader)?;
        Ok(Self { table, map_epoch, key, names })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.key.len() + self.names.encoded_len()
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let prefix = Prefix {
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            argument: self.names.wire_count(),
            ..Prefix::bare(Operation::GetFields)
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&self.key);
        self.names.encode(&mut writer);
        writer.finish();
    }
}

/// The answer to a [`GetFields`], as it is written.
#[derive(Debug, Clone, Copy)]
pub struct FieldsFound<'a> {
    version: Version,
    record: Record<'a>,
    names: Keys<'a>,
    len: usize,
}

impl<'a> FieldsFound<'a> {
    /// The fields `names` of `record`, which is of version `version`. `None` if they are more than a message has: a name may be
    /// asked for as often as there is room for it in the request.
    pub fn new(version: Version, record: Record<'a>, names: Keys<'a>) -> Option<FieldsFound<'a>> {
        let values = names.iter().filter_map(|name| record.get(&name)).map(<[u8]>::len);
        let len = HEAD_LEN + 4 * names.len() + values.sum::<usize>();
        (len <= MESSAGE_MAX).then_some(FieldsFound { version, record, names, len })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        self.len
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let head = ReplyHead {
            index: self.names.len() as u16,
            length: (self.len - HEAD_LEN) as u32,
            ..ReplyHead::bare(Status::Ok, self.version)
        };
        let mut writer = Writer::new(buffer);
        writer.bytes(&head.to_bytes());
        for name in self.names.iter() {
            writer.u32(self.record.get(&name).map_or(ABSENT, |value| value.len() as u32));
        }
        for value in self.names.iter().filter_map(|name| self.record.get(&name)) {
            writer.bytes(value);
        }
        writer.finish();
    }
}

/// The answer to a [`GetFields`], as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldsReply {
    /// The key has a record.
    Found {
        /// The object's version.
        version: Version,
        /// For each name, in the order of the request, where in the message its value is; `None` if the
        /// record has no such field.
        fields: Vec<Option<Range<usize>>>,
    },
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out: as of it, the key was absent.
        version: Version,
    },
}

impl FieldsReply {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a get-fields.
    pub fn decode(message: &[u8]) -> Result<Self, ReplyError<'_>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok => {}
            Status::Absent => {
                let (version, _) = head.presence()?;
                return Ok(Self::Absent { version });
            }
            Status::Unprocessed | Status::Conflict | Status::Error(_) => {
                return Err(head.unexpected().into());
            }
        }
        let count = usize::from(head.index);
        let mut reader = Reader::new(body);
        let mut lengths = Reader::new(reader.take(4 * count)?);
        let mut at = HEAD_LEN + 4 * count;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let len = lengths.u32()?;
            if len == ABSENT {
                fields.push(None);
                continue;
            }
            reader.take(len as usize)?;
            fields.push(Some(at..at + len as usize));
            at += len as usize;
        }
        reader.finish()?;
        Ok(Self::Found { version: Version(head.version), fields })
    }
}

impl LimitError {
    /// Refuses more fields than a record has.
    pub(crate) const fn check_fields(count: usize) -> Result<(), Self> {
        if count > FIELDS_MAX { Err(Self::TooManyFields { count }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::target::Target;

    fn found<'a>(
        version: Version,
        record: &'a [u8],
        names: &'a [Key<'a>],
    ) -> Option<FieldsFound<'a>> {
        let (names, _) = Keys::fitting(names);
        FieldsFound::new(version, Record::parse(record).unwrap(), names)
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let Target { table, map_epoch, key: of, .. } = documented_target();
        let names = [key(b"weft"), key(b"heddle")];
        let (list, _) = Keys::fitting(&names);
        let request = GetFields { table, map_epoch, key: of, names: list };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("get-fields request"));

        let record = documented("record");
        let found = found(Version::new(1, 9), &record, &names).unwrap();
        let bytes = encode(found.encoded_len(), |buffer| found.encode(buffer));
        assert_eq!(bytes, documented("get-fields reply"));
    }

    #[test]
    fn a_field_that_is_asked_for_too_often_has_no_reply() {
        let mut record = Vec::new();
        Record::encode([(&b"a"[..], &[7; 5_000][..])].into_iter(), &mut record).unwrap();
        let names = vec![key(b"a"); FIELDS_MAX];
        assert!(found(Version(1), &record, &names).is_none());
        assert!(found(Version(1), &record, &names[..200]).is_some());
    }

    #[test]
    fn too_many_names_are_refused_by_name() {
        let names = vec![key(b""); FIELDS_MAX + 1];
        let (list, _) = Keys::fitting(&names);
        let request = GetFields { table: TableId(2), map_epoch: 7, key: key(b"loom"), names: list };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        let error = DecodeError::Limit(LimitError::TooManyFields { count: FIELDS_MAX + 1 });
        assert_eq!(Request::decode(&bytes), Err(error));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            bytes_ in bytes(40),
            names in prop::collection::vec(bytes(20), 0..12),
        ) {
            let names: Vec<_> = names.iter().map(|name| key(name)).collect();
            let (names, _) = Keys::fitting(&names);
            let request = GetFields { table, map_epoch, key: key(&bytes_), names };
            check_request(Request::GetFields(request));
        }

        #[test]
        fn replies_are_read_as_written(
            version in versions(),
            fields in prop::collection::btree_map(bytes(3), bytes(30), 0..6),
            others in prop::collection::vec(bytes(3), 0..4),
        ) {
            let mut record = Vec::new();
            let pairs = fields.iter().map(|(name, value)| (&name[..], &value[..]));
            Record::encode(pairs, &mut record).unwrap();
            let names: Vec<_> = fields.keys().chain(&others).map(|name| key(name)).collect();
            let found = found(version, &record, &names).unwrap();
            let message = encode(found.encoded_len(), |buffer| found.encode(buffer));
            let reply = FieldsReply::decode(&message).unwrap();
            let FieldsReply::Found { version: read, fields: found } = reply else {
                panic!("it was found")
            };
            prop_assert_eq!(read, version);
            let found: Vec<_> =
                found.into_iter().map(|range| range.map(|range| &message[range])).collect();
            let expected: Vec<_> =
                names.iter().map(|name| fields.get(name.bytes()).map(|value| &value[..])).collect();
            prop_assert_eq!(found, expected);
            check_cut(&message, FieldsReply::decode);
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("get-fields reply"))) {
            if let Ok(FieldsReply::Found { fields, .. }) = FieldsReply::decode(&message) {
                for range in fields.into_iter().flatten() {
                    prop_assert!(range.end <= message.len());
                }
            }
        }
    }
}
