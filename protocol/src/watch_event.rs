//! What a watch tells: that an object, or all objects of a table, came to be as they are now.
//!
//! ```text
//! event  version u64 | change u8 | 0 u8 | key length u16 | first slot u16 | last slot u16 | key
//! ```
//!
//! The slots are those of a partition, and 0 where the event is about a key; else there is no key.

use std::ops::Range;

use crate::cluster_map::MapError;
use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::key::Key;
use crate::limits::WATCH_EVENTS_MAX;
use crate::slot::Slot;
use crate::version::Version;

/// Bytes of an event without its key.
const EVENT_HEAD_LEN: usize = 16;

/// What happened to the object of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyChange {
    /// It was written, with whatever operation, and has the event's version.
    Written,
    /// It was deleted; the event's version is that of the deletion.
    Deleted,
    /// It had expired and was removed; the event's version is the one that it had.
    Expired,
    /// It made room for others; the event's version is the one that it had.
    Evicted,
}

/// What happened to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableRemoval {
    /// Its objects were removed.
    Truncated,
    /// It was removed with its objects. Nothing is told of it any more.
    Dropped,
}

impl KeyChange {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Written, Self::Deleted, Self::Expired, Self::Evicted];

    /// The change in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Written => 1,
            Self::Deleted => 2,
            Self::Expired => 3,
            Self::Evicted => 4,
        }
    }
}

impl TableRemoval {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Truncated, Self::Dropped];

    /// The change in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Dropped => "dropped",
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Truncated => 5,
            Self::Dropped => 6,
        }
    }
}

/// Something that happened to what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent<'a> {
    /// To the object of a key.
    Key {
        /// The key.
        key: Key<'a>,
        /// What.
        change: KeyChange,
        /// As of which version. Those of a key grow; what has expired or was evicted has the version of its writing, which was told
        /// before.
        version: Version,
    },
    /// To all objects of the table in a partition. Each partition of the table has an event of its own.
    Table {
        /// The first of the partition's slots.
        first_slot: Slot,
        /// The last of them.
        last_slot: Slot,
        /// What.
        change: TableRemoval,
        /// What is not newer than this is gone.
        version: Version,
    },
}

impl<'a> WatchEvent<'a> {
    /// Bytes of what stands before the key.
    pub const HEAD_LEN: usize = EVENT_HEAD_LEN;

    /// Where in it the length of the key stands, for who walks events without reading them.
    pub const KEY_LEN_AT: Range<usize> = 10..12;

    /// The bytes that stand before the key.
    #[inline]
    pub fn head(&self) -> [u8; EVENT_HEAD_LEN] {
        let (change, key_len, slots, version) = match self {
            Self::Key { key, change, version } => {
                (change.number(), key.wire_len(), [0; 2], *version)
            }
            Self::Table { first_slot, last_slot, change, version } => {
                (change.number(), 0, [first_slot.number(), last_slot.number()], *version)
            }
        };
        let mut head = [0; EVENT_HEAD_LEN];
        let mut writer = Writer::new(&mut head);
        writer.u64(version.0);
        writer.bytes(&[change, 0]);
        writer.u16(key_len);
        writer.u16(slots[0]);
        writer.u16(slots[1]);
        writer.finish();
        head
    }

    /// The bytes of the key; none if it is about a table.
    #[inline]
    pub const fn key_bytes(&self) -> &'a [u8] {
        match self {
            Self::Key { key, .. } => key.bytes(),
            Self::Table { .. } => &[],
        }
    }

    /// Bytes of the event.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        Self::HEAD_LEN + self.key_bytes().len()
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let version = Version(reader.u64()?);
        let [number, _] = reader.array()?;
        let key_len = reader.u16()?;
        let slots = [reader.u16()?, reader.u16()?];
        let key = reader.key(key_len)?;
        let slot = |number| Slot::from_number(number).ok_or(MapError::SlotRange { number });
        if let Some(change) = KeyChange::ALL.into_iter().find(|change| change.number() == number) {
            return Ok(Self::Key { key, change, version });
        }
        let change = TableRemoval::ALL.into_iter().find(|change| change.number() == number);
        let change = change.ok_or(DecodeError::UnknownChange { change: number })?;
        if !key.is_empty() {
            return Err(DecodeError::ReservedField { field: "key length" });
        }
        let [first_slot, last_slot] = [slot(slots[0])?, slot(slots[1])?];
        Ok(Self::Table { first_slot, last_slot, change, version })
    }
}

/// Events one after the other, as they are sent. They were all read once, so that reading them again cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEvents<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> WatchEvents<'a> {
    /// Takes `bytes` for `count` events.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] if they are not exactly that.
    pub fn parse(count: u16, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if usize::from(count) > WATCH_EVENTS_MAX {
            let (field, count) = ("events", usize::from(count));
            return Err(DecodeError::ListTooLong { field, count, limit: WATCH_EVENTS_MAX });
        }
        let mut reader = Reader::new(bytes);
        for _ in 0..count {
            WatchEvent::read(&mut reader)?;
        }
        reader.finish()?;
        Ok(Self { count, bytes })
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their bytes.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The events, in order.
    pub fn iter(&self) -> impl Iterator<Item = WatchEvent<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        let next = move |_| WatchEvent::read(&mut reader).expect("it was read once");
        (0..self.count).map(next)
    }
}
