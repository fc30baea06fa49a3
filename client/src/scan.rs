//! All objects of a table, a page at a time: one partition after the other, in the order of their slots.

use std::collections::VecDeque;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use weft_protocol::limits::SCAN_OBJECTS_MAX;
use weft_protocol::{ErrorCode, Key, LimitError, Slot, Version};

use crate::core::Core;
use crate::error::ClientError;
use crate::object::{Lookup, Object};
use crate::operation::get::AskGet;
use crate::operation::scan::{AskScan, Page};
use crate::table::Table;

/// What a scan is to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOptions {
    /// What keys have to begin with. Nodes look at all keys nevertheless.
    pub key_prefix: Vec<u8>,
    /// Whether values are wanted as well.
    pub with_values: bool,
    /// Where to go on after an earlier scan; from the beginning by default.
    pub from: ScanCursor,
    /// The slots whose objects are wanted; all by default. Nodes are asked for the partitions that have some of these, and look at all keys of each:
    /// who divides a table among several scans does so by [partitions](crate::Client::partitions).
    pub slots: Option<RangeInclusive<Slot>>,
    /// The most objects that are asked for at a time; 1,024 by default, which is the most that nodes return.
    pub page_objects: u32,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            key_prefix: Vec::new(),
            with_values: false,
            from: ScanCursor::START,
            slots: None,
            page_objects: SCAN_OBJECTS_MAX as u32,
        }
    }
}

/// An object that a scan has met.
#[derive(Debug, Clone)]
pub struct Scanned {
    /// Its key.
    pub key: Vec<u8>,
    /// Its version.
    pub version: Version,
    /// When it ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// Bytes of its value.
    pub value_len: u64,
    /// Its value, if values are wanted.
    pub value: Option<Object>,
}

/// Where a scan stands: what it has returned since is returned again by one that goes on from here.
///
/// As text it is `SLOT.CURSOR`, and `end` behind the last object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanCursor {
    /// `None` behind the last slot.
    slot: Option<Slot>,
    cursor: u64,
}

impl ScanCursor {
    /// Before the first object.
    pub const START: Self = Self { slot: Slot::from_number(0), cursor: 0 };

    /// Whether nothing is left.
    pub fn is_end(&self) -> bool {
        self.slot.is_none()
    }
}

impl Default for ScanCursor {
    fn default() -> Self {
        Self::START
    }
}

impl fmt::Display for ScanCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot {
            Some(slot) => write!(f, "{slot}.{:x}", self.cursor),
            None => f.write_str("end"),
        }
    }
}

/// A text that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no cursor of a scan: give what an earlier one has printed")]
pub struct MalformedCursor {
    text: String,
}

impl FromStr for ScanCursor {
    type Err = MalformedCursor;

    fn from_str(text: &str) -> Result<Self, MalformedCursor> {
        let parse = || {
            if text == "end" {
                return Some(Self { slot: None, cursor: 0 });
            }
            let (slot, cursor) = text.split_once('.')?;
            let slot = Slot::from_number(slot.parse().ok()?)?;
            Some(Self { slot: Some(slot), cursor: u64::from_str_radix(cursor, 16).ok()? })
        };
        parse().ok_or_else(|| MalformedCursor { text: text.to_owned() })
    }
}

/// A scan that is under way. It asks for a page when the one before it is used up; nodes keep nothing for it.
#[derive(Debug)]
#[must_use = "nothing is asked before it is told to go on"]
pub struct Scan {
    core: Arc<Core>,
    table: Table,
    options: ScanOptions,
    /// Of the next page.
    next: ScanCursor,
    /// Of the page that is being returned.
    current: ScanCursor,
    page: VecDeque<Scanned>,
}

impl Scan {
    pub(crate) fn new(
        core: Arc<Core>,
        table: Table,
        options: ScanOptions,
    ) -> Result<Self, LimitError> {
        Key::new(&options.key_prefix)?;
        let from = within(options.from, options.slots.as_ref());
        Ok(Self { core, table, options, next: from, current: from, page: VecDeque::new() })
    }

    /// The next object, or `None` when all have been returned.
    ///
    /// # Errors
    /// See [`ClientError`]. The scan may be told to go on, and asks for the same page again.
    pub async fn next(&mut self) -> Option<Result<Scanned, ClientError>> {
        loop {
            while let Some(mut scanned) = self.page.pop_front() {
                if !self.options.with_values || scanned.value.is_some() {
                    return Some(Ok(scanned));
                }
                // Too large for a page.
                match self.fetch_value(&scanned.key).await {
                    Ok(Lookup::Found(object)) => {
                        scanned.version = object.version();
                        scanned.value_len = object.len() as u64;
                        scanned.value = Some(object);
                        return Some(Ok(scanned));
                    }
                    // Removed since.
                    Ok(Lookup::Absent { .. }) => {}
                    Err(error) => {
                        self.page.push_front(scanned);
                        return Some(Err(error));
                    }
                }
            }
            let slot = self.next.slot?;
            if let Err(error) = self.turn_page(slot).await {
                return Some(Err(error));
            }
        }
    }

    /// Where a later scan has to begin to return all that this one has not returned. What this one has returned of
    /// its last page comes again then.
    pub fn cursor(&self) -> ScanCursor {
        if self.page.is_empty() { self.next } else { self.current }
    }

    /// Whether the next object is the first of a page, so that one that goes on from [`cursor`](Self::cursor) returns
    /// nothing again.
    pub fn is_between_pages(&self) -> bool {
        self.page.is_empty()
    }

    async fn turn_page(&mut self, slot: Slot) -> Result<(), ClientError> {
        let ask = AskScan {
            slot,
            cursor: self.next.cursor,
            key_prefix: Key::new(&self.options.key_prefix)?,
            objects_max: self.options.page_objects,
            with_values: self.options.with_values,
        };
        match self.core.ask(self.table, ask).await {
            Ok(Page { objects, cursor, last_slot }) => {
                self.current = self.next;
                self.next = if cursor != 0 {
                    ScanCursor { slot: Some(slot), cursor }
                } else {
                    let behind =
                        ScanCursor { slot: Slot::from_number(last_slot.number() + 1), cursor: 0 };
                    within(behind, self.options.slots.as_ref())
                };
                self.page = objects.into();
                if let Some(slots) = &self.options.slots {
                    self.page.retain(|object| slots.contains(&Slot::of(&object.key)));
                }
                Ok(())
            }
            // The node has another life: what it holds is met from the beginning.
            Err(ClientError::Refused { code: ErrorCode::CursorStale, .. })
                if self.next.cursor != 0 =>
            {
                self.next.cursor = 0;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn fetch_value(&self, key: &[u8]) -> Result<Lookup, ClientError> {
        self.core.ask(self.table, AskGet { key: Key::new(key)? }).await
    }
}

/// Where a scan of these slots goes on that has come so far.
fn within(cursor: ScanCursor, slots: Option<&RangeInclusive<Slot>>) -> ScanCursor {
    match (cursor.slot, slots) {
        (Some(slot), Some(slots)) if slot > *slots.end() || slots.is_empty() => {
            ScanCursor { slot: None, cursor: 0 }
        }
        (Some(slot), Some(slots)) if slot < *slots.start() => {
            ScanCursor { slot: Some(*slots.start()), cursor: 0 }
        }
        _ => cursor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_some_slots_keeps_to_them() {
        let slot = |number| Slot::from_number(number).unwrap();
        let at = |number| ScanCursor { slot: Some(slot(number)), cursor: 7 };
        let some = slot(10)..=slot(20);
        assert_eq!(within(at(9), Some(&some)), ScanCursor { slot: Some(slot(10)), cursor: 0 });
        assert_eq!(within(at(10), Some(&some)), at(10));
        assert_eq!(within(at(20), Some(&some)), at(20));
        assert!(within(at(21), Some(&some)).is_end());
        assert_eq!(within(at(21), None), at(21));
        assert!(within(at(12), Some(&(slot(20)..=slot(10)))).is_end());
    }

    #[test]
    fn a_cursor_is_read_as_it_is_shown() {
        let somewhere =
            ScanCursor { slot: Slot::from_number(5_461), cursor: 0x1234_5678_0040_0000 };
        let end = ScanCursor { slot: None, cursor: 0 };
        for cursor in [ScanCursor::START, somewhere, end] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        assert_eq!(ScanCursor::START.to_string(), "0.0");
        for text in ["", "0", "0.", ".0", "16384.0", "1.x", "-1.0", "END"] {
            assert!(text.parse::<ScanCursor>().is_err(), "{text}");
        }
    }
}
