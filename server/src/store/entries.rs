//! Entries as they arrive from another node or from a disk: each taken apart and checked, before anything is done with it.
//!
//! An entry is one change, `object | tombstone | tables`, and the completion of the request that asked for it, or one of the two. It begins
//! where the version changes. That it is whole is the frame's affair: entries are never split between messages, nor
//! between frames of a file.

use weft_protocol::{TableId, Version};

use super::altering::TableChange;
use super::completion_record::{self as completion, Told};
use super::error::StoreError;
use super::header::{Kind, Record};
use super::partition::VALUE_BYTES_MAX;

/// Why entries were not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// What is at this offset is no record, or none that may be here. Of a snapshot's part nothing was applied; of entries, those before it.
    #[error("read entries: there is no record at byte {offset}, or none that may be there")]
    Malformed {
        /// Where among the bytes.
        offset: usize,
    },
    /// A record's checksum is wrong. What was applied is as above.
    #[error("read entries: the record at byte {offset} has a wrong checksum")]
    Checksum {
        /// Where among the bytes.
        offset: usize,
    },
    /// The entry is not the one behind the one before it. Those before it were applied.
    #[error("apply entry {found}: the last one is {last}")]
    OutOfSequence {
        /// The entry that it should be behind.
        last: Version,
        /// The entry.
        found: Version,
    },
    /// The entry cannot have been made by a partition that was like this one. Those before it were applied.
    #[error("apply entry {version}: it does not fit what is there; the replica has to begin anew")]
    Contradiction {
        /// The entry.
        version: Version,
    },
    /// There is no room for the entry. Those before it were applied.
    #[error("apply entry {version}: {error}")]
    Refused {
        /// The entry.
        version: Version,
        /// What is missing.
        error: StoreError,
    },
    /// A part of a snapshot is of a later time than what was applied: it has to wait for the entries up to then.
    #[error("apply a part of a snapshot as of {needed}: the last entry is {last}")]
    TooEarly {
        /// The last entry.
        last: Version,
        /// The entry to wait for.
        needed: Version,
    },
    /// No snapshot is being taken in.
    #[error("apply a part of a snapshot: none was begun")]
    NoSnapshot,
    /// The epoch is lower than that of what is there.
    #[error("begin epoch {epoch}: the last version is {last}")]
    EpochFell {
        /// The last version.
        last: Version,
        /// The epoch.
        epoch: u32,
    },
}

/// A change, as an entry says it.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Object(Record<'a>),
    Tombstone(Record<'a>),
    Tables(TableId, TableChange),
}

/// What one record says.
pub(super) enum Said<'a> {
    Change(Change<'a>),
    /// Something of a client.
    Client(u64, Told<'a>),
}

/// An entry, taken apart.
pub(super) struct EntryParts<'a> {
    pub(super) version: Version,
    pub(super) change: Option<Change<'a>>,
    pub(super) completion: Option<(u64, Told<'a>)>,
}

impl<'a> EntryParts<'a> {
    /// Adds what a record of the entry says. Returns whether it may say so there.
    #[inline]
    fn add(&mut self, record: Record<'a>) -> bool {
        match said(record) {
            // A completion ends its entry, and a second change is none of it.
            _ if self.completion.is_some() => false,
            Some(Said::Change(change)) => self.change.replace(change).is_none(),
            // What a client waits for, and previous values, are told in snapshots only.
            Some(Said::Client(_, Told::Waits(_) | Told::Done { previous: Some(_), .. })) => false,
            Some(Said::Client(client, told)) => {
                self.completion = Some((client, told));
                true
            }
            None => false,
        }
    }
}

/// Takes the entry apart that `bytes` begin with, at `offset` of all that has come. Checks all that can be checked without a partition: each record's
/// place, kind, lengths and checksum. Returns what is behind it, too.
///
/// # Errors
/// [`ApplyError::Malformed`] or [`ApplyError::Checksum`], whichever comes first.
pub(super) fn checked_entry(
    bytes: &[u8],
    offset: usize,
) -> Result<(EntryParts<'_>, &[u8]), ApplyError> {
    let (record, mut rest) = checked_record(bytes, offset)?;
    let version = record.version();
    let mut entry = EntryParts { version, change: None, completion: None };
    if !entry.add(record) {
        return Err(ApplyError::Malformed { offset });
    }
    if Record::parse(rest).is_some_and(|next| next.version() == version) {
        let offset = offset + bytes.len() - rest.len();
        let (record, behind) = checked_record(rest, offset)?;
        if !entry.add(record) {
            return Err(ApplyError::Malformed { offset });
        }
        rest = behind;
    }
    Ok((entry, rest))
}

/// Each entry's version and bytes, in their order, of entries that were applied or made here. Ends early at bytes that are none.
pub fn split_entries(bytes: &[u8]) -> impl Iterator<Item = (Version, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let start = rest;
        let (record, behind) = Record::split(start)?;
        let version = record.version();
        rest = match Record::parse(behind) {
            Some(next) if next.version() == version => Record::split(behind)?.1,
            _ => behind,
        };
        Some((version, &start[..start.len() - rest.len()]))
    })
}

/// Of which key an entry is whose bytes begin with an object's record, as it seems: they were not checked yet, and nothing but speed may depend
/// on it.
pub fn key_of_entry(bytes: &[u8]) -> Option<(TableId, &[u8])> {
    let (record, _) = Record::split(bytes)?;
    match record.kind()? {
        Kind::Object | Kind::Tombstone => Some((record.table(), record.key())),
        Kind::Tables | Kind::Completion => None,
    }
}

/// Whether an entry of version `next` can come behind one of version `last`.
pub(super) fn follows(last: Version, next: Version) -> bool {
    next.epoch() >= last.epoch() && last.sequence() + 1 == next.sequence()
}

/// The record that `bytes` begin with, at `offset` of all that has come, and what is behind it.
#[inline]
pub(super) fn checked_record(
    bytes: &[u8],
    offset: usize,
) -> Result<(Record<'_>, &[u8]), ApplyError> {
    let (record, rest) = Record::split(bytes).ok_or(ApplyError::Malformed { offset })?;
    if !record.is_intact() {
        return Err(ApplyError::Checksum { offset });
    }
    Ok((record, rest))
}

/// What a record that is all there says, or nothing if it says nothing that this release knows.
#[inline]
pub(super) fn said(record: Record<'_>) -> Option<Said<'_>> {
    let (table, key, value) = (record.table(), record.key(), record.value());
    let is_plain = record.expiry_ms().is_none();
    Some(match record.kind()? {
        Kind::Object if value.len() <= VALUE_BYTES_MAX => Said::Change(Change::Object(record)),
        Kind::Tombstone if is_plain && value.is_empty() => Said::Change(Change::Tombstone(record)),
        Kind::Tables if is_plain && key.is_empty() => {
            Said::Change(Change::Tables(table, TableChange::decode(value)?))
        }
        Kind::Completion if is_plain && table == TableId::DEFAULT => {
            let client: [u8; completion::CLIENT_BYTES] = key.try_into().ok()?;
            let client = u64::from_le_bytes(client);
            Said::Client(client, completion::decode(client, record.version(), value)?)
        }
        Kind::Object | Kind::Tombstone | Kind::Tables | Kind::Completion => return None,
    })
}
