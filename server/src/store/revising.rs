//! Writes that depend on what is there: compare-and-set, increment, append, get-and-put,
//! get-and-delete, expire, changes of fields.
//!
//! Each looks the key up once, and leaves everything as it was when it is refused. Objects are never
//! changed where they lie: what becomes of one is appended to the log as any other, so that views of the
//! old value stay what they were.

use std::io::Write;

use arrayvec::ArrayVec;
use weft_protocol::limits::FIELDS_MAX;
use weft_protocol::{FieldChange, KeyChange, LimitError, List, Record, TableId, Version};
use weft_transport::Shared;

use super::address::Address;
use super::error::StoreError;
use super::partition::{NewObject, Partition, VALUE_BYTES_MAX};

/// Digits and sign of the longest number.
const NUMBER_BYTES: usize = 20;

/// What a compare-and-set did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The object was as expected, and the new one has this version.
    Written(Version),
    /// There is an object of this other version. It stays.
    Conflict(Version),
    /// There is no object as of this version, and one was expected.
    Absent(Version),
}

/// What an increment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incremented {
    /// The version of the new object.
    pub version: Version,
    /// The number that it holds.
    pub number: i64,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version of the new object.
    pub version: Version,
    /// Bytes of its whole value.
    pub value_len: usize,
}

/// What a change of an expiry did, as its reply says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The version that the object has now; if there is none, the newest that was given out.
    pub version: Version,
    /// Whether there is an object.
    pub exists: bool,
}

/// What came of a mutation, and the object that was there before it.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The version of the mutation; if there was nothing to remove, the newest that was given out.
    pub version: Version,
    /// Version and value of the object that was there, if there was one.
    pub previous: Option<(Version, Shared)>,
}

impl Partition {
    /// Makes `value` the object of a key if the one that is there has the version `expected`, or if
    /// there is none and `expected` is [`Version::NONE`].
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing has changed then.
    pub fn compare_and_set(
        &mut self,
        table: TableId,
        key: &[u8],
        expected: Version,
        value: &[u8],
        expiry_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Compared, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let current = found.map(|(_, address)| self.log.record(address).version());
        match current {
            Some(version) if version != expected => return Ok(Compared::Conflict(version)),
            None if expected != Version::NONE => return Ok(Compared::Absent(self.version)),
            Some(_) | None => {}
        }
        let new = NewObject { table, key, value: [value, &[]], expiry_ms, now_ms };
        self.write(tag, found, &new).map(Compared::Written)
    }

    /// Adds `delta` to the decimal number that a key holds, or to 0 if it has no object. A new object
    /// has the expiry `expiry_ms`; one that is there keeps its own.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`], [`StoreError::NumberOverflow`], and those of a put. Nothing has changed
    /// then.
    pub fn increment(
        &mut self,
        table: TableId,
        key: &[u8],
        delta: i64,
        expiry_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Incremented, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let (number, expiry_ms) = match found {
            Some((_, address)) => {
                let record = self.log.record(address);
                (number(record.value()).ok_or(StoreError::NotANumber)?, record.expiry_ms())
            }
            None => (0, expiry_ms),
        };
        let number = number.checked_add(delta).ok_or(StoreError::NumberOverflow)?;
        let text = decimal(number);
        let new = NewObject { table, key, value: [&text, &[]], expiry_ms, now_ms };
        Ok(Incremented { version: self.write(tag, found, &new)?, number })
    }

    /// Adds `tail` to the end of the value of a key, or to an empty one if it has no object. A new object
    /// has the expiry `expiry_ms`; one that is there keeps its own. What is longer than `step_max` bytes is not copied in one step.
    ///
    /// # Errors
    /// [`StoreError::OnlyByUpload`] if the whole is longer than that, and any [`StoreError`] of a put. Nothing has changed then.
    pub fn append(
        &mut self,
        table: TableId,
        key: &[u8],
        tail: &[u8],
        expiry_ms: Option<u64>,
        step_max: usize,
        now_ms: u64,
    ) -> Result<Appended, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let old = found.map(|(_, address)| (self.pin_value(address), address));
        let (old, expiry_ms) = match &old {
            Some((value, address)) => (&**value, self.log.record(*address).expiry_ms()),
            None => (&[][..], expiry_ms),
        };
        let value_len = old.len() + tail.len();
        if value_len > VALUE_BYTES_MAX {
            return Err(StoreError::ValueTooLarge { len: value_len, limit: VALUE_BYTES_MAX });
        }
        check_step(value_len, step_max)?;
        let new = NewObject { table, key, value: [old, tail], expiry_ms, now_ms };
        Ok(Appended { version: self.write(tag, found, &new)?, value_len })
    }

    /// Makes `changes` to the fields of the record that a key holds, or to one without fields if it has no object. A new
    /// object has the expiry `expiry_ms`; one that is there keeps its own. The new value is put together in
    /// `scratch`.
    ///
    /// # Errors
    /// [`StoreError::NotARecord`], [`StoreError::TooManyFields`], and those of a put. Nothing has changed then.
    pub fn put_fields<'a>(
        &mut self,
        table: TableId,
        key: &[u8],
        changes: List<'a, FieldChange<'a>>,
        expiry_ms: Option<u64>,
        scratch: &mut Vec<u8>,
        now_ms: u64,
    ) -> Result<Version, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        scratch.clear();
        let (record, expiry_ms) = match found {
            Some((_, address)) => {
                let found = self.log.record(address);
                let record = Record::parse(found.value()).map_err(|_| StoreError::NotARecord)?;
                (record, found.expiry_ms())
            }
            None => (Record::EMPTY, expiry_ms),
        };
        record.change(changes.iter(), scratch)?;
        let new = NewObject { table, key, value: [scratch, &[]], expiry_ms, now_ms };
        self.write(tag, found, &new)
    }

    /// Makes `value` the object of a key, as a put does, and returns the one that was there.
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing has changed then.
    pub fn get_and_put(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        expiry_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Replaced, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let previous = found.map(|(_, address)| self.previous(address));
        let new = NewObject { table, key, value: [value, &[]], expiry_ms, now_ms };
        Ok(Replaced { version: self.write(tag, found, &new)?, previous })
    }

    /// Removes the object of a key, as a delete does, and returns it. Needs no memory.
    ///
    /// # Errors
    /// [`StoreError::VersionsExhausted`]; the object is still there then.
    pub fn get_and_delete(
        &mut self,
        table: TableId,
        key: &[u8],
        now_ms: u64,
    ) -> Result<Replaced, StoreError> {
        let tag = self.index.tag(table, key);
        let Some((slot, address)) = self.find_current(tag, table, key, now_ms) else {
            return Ok(Replaced { version: self.version, previous: None });
        };
        let version = self.next_version()?;
        let previous = self.previous(address);
        self.version = version;
        self.remove(slot, address, KeyChange::Deleted, version);
        Ok(Replaced { version, previous: Some(previous) })
    }

    /// Gives the object of a key another expiry, or none, and says which version it has now; `None` if
    /// there is no object. One that has the expiry already stays as it is. A value that is longer than `step_max` bytes is not copied
    /// in one step.
    ///
    /// # Errors
    /// [`StoreError::OnlyByUpload`] of such a value, and any [`StoreError`] of a put. Nothing has changed then.
    pub fn expire(
        &mut self,
        table: TableId,
        key: &[u8],
        expiry_ms: Option<u64>,
        step_max: usize,
        now_ms: u64,
    ) -> Result<Option<Version>, StoreError> {
        let tag = self.index.tag(table, key);
        let found = self.find_current(tag, table, key, now_ms);
        let Some((_, address)) = found else { return Ok(None) };
        let record = self.log.record(address);
        if record.expiry_ms() == expiry_ms {
            return Ok(Some(record.version()));
        }
        check_step(record.value_len(), step_max)?;
        let value = self.pin_value(address);
        let new = NewObject { table, key, value: [&value, &[]], expiry_ms, now_ms };
        self.write(tag, found, &new).map(Some)
    }

    pub(super) fn previous(&self, address: Address) -> (Version, Shared) {
        (self.log.record(address).version(), self.pin_value(address))
    }

    /// A view of a value, so that it can be read while the log is appended to.
    fn pin_value(&self, address: Address) -> Shared {
        let segment = self.log.segment(address.segment());
        let record = segment.record(address.offset());
        segment.pin(address.offset() + record.value_start(), record.value_len())
    }
}

/// Refuses to copy a value of `len` bytes in one step if that is too much for one.
fn check_step(len: usize, step_max: usize) -> Result<(), StoreError> {
    if len > step_max { Err(StoreError::OnlyByUpload { len }) } else { Ok(()) }
}

/// What a record would be too large for.
impl From<LimitError> for StoreError {
    fn from(error: LimitError) -> StoreError {
        let limit = error.limit() as usize;
        match error {
            LimitError::TooManyFields { count } => {
                StoreError::TooManyFields { count, limit: FIELDS_MAX }
            }
            LimitError::ValueTooLarge { len } | LimitError::RequestValueTooLarge { len } => {
                StoreError::ValueTooLarge { len, limit }
            }
            LimitError::KeyTooLong { len } => StoreError::KeyTooLong { len, limit },
            LimitError::TooManyKeys { count } => StoreError::TooManyFields { count, limit },
        }
    }
}

/// The number that a value is. Only as it would be written itself, so that adding 0 changes no byte.
fn number(value: &[u8]) -> Option<i64> {
    let number = std::str::from_utf8(value).ok()?.parse().ok()?;
    (decimal(number).as_slice() == value).then_some(number)
}

fn decimal(number: i64) -> ArrayVec<u8, NUMBER_BYTES> {
    let mut text = ArrayVec::new();
    write!(text, "{number}").expect("no number of 64 bits is longer");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_only_as_it_is_written() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1\n", None),
            ("1.0", None),
            ("one", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(number(b"\xff"), None);
    }
}
