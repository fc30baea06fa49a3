//! What may be appended to a log, and what it becomes there.

use weft_protocol::{PartitionId, Version};
use weft_transport::Time;

use crate::durable::completeness::Incomplete;
use crate::durable::frame::{FrameHeader, FrameKind, frame_len};
use crate::durable::holdings::{Held, Position};
use crate::durable::planted::Planted;
use crate::limits::{FRAME_BODY_MAX, LOG_FRAME_BYTES};

use super::{Log, Poisoned, State};

/// The longest body that joins others under one header.
const BODY_MAX: usize = FRAME_BODY_MAX - LOG_FRAME_BYTES;

/// What a snapshot is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// What this replica holds: it is complete, and is written anew so that older files can go. A crash before it has ended leaves
    /// what the log had.
    Own,
    /// What another replica holds: all that the log has of the partition is void. A crash before it has ended leaves the partition incomplete.
    Anew {
        /// The partition's fence epoch.
        epoch: u32,
        /// The entry up to which others tell by the snapshot; the next one is appended.
        last: Version,
    },
}

/// Why something was not appended. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The log failed.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// It is not open yet.
    #[error("the log is still being opened")]
    Opening,
    /// It is being closed.
    #[error("the log is closed")]
    Closed,
    /// Too much waits to be written.
    #[error("{bytes} bytes wait for the log: the disk is too slow for what is written, or full")]
    Backlog {
        /// How much.
        bytes: usize,
    },
    /// The entry is longer than a frame can be.
    #[error("an entry of {len} bytes is longer than the {BODY_MAX} that the log takes")]
    TooLong {
        /// Its bytes.
        len: usize,
    },
    /// The log does not have the partition: create it, or begin a snapshot anew.
    #[error("{partition} is not in the log")]
    Unknown {
        /// The partition.
        partition: PartitionId,
    },
    /// The log has only a part of the partition: begin a snapshot anew, or forget it.
    #[error("{partition} is incomplete in the log: {reason}")]
    Broken {
        /// The partition.
        partition: PartitionId,
        /// Why.
        reason: Incomplete,
    },
    /// Entries do not follow on the last one.
    #[error("{partition} has entries up to {last} in the log, and {first} does not follow")]
    Gap {
        /// The partition.
        partition: PartitionId,
        /// Its last entry.
        last: Version,
        /// The one that was to be appended.
        first: Version,
    },
    /// A snapshot's piece or end without its begin.
    #[error("no snapshot of {partition} has begun")]
    NoSnapshot {
        /// The partition.
        partition: PartitionId,
    },
}

impl Log {
    /// Has a new, empty partition, which takes nothing of a lower epoch.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn create(
        &mut self,
        partition: PartitionId,
        epoch: u32,
        now: Time,
    ) -> Result<(), AppendError> {
        self.begin_snapshot(partition, Snapshot::Anew { epoch, last: Version::NONE }, now)?;
        self.end_snapshot(partition, now)
    }

    /// Appends entries, from `first` to `last`, whose bytes are `entries` one after the other.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append(
        &mut self,
        partition: PartitionId,
        first: Version,
        last: Version,
        entries: &[&[u8]],
        now: Time,
    ) -> Result<(), AppendError> {
        self.takes(entries)?;
        self.append_taken(partition, first, last, entries, now)
    }

    /// Appends an entry that was answered when it was made, with room that was [promised](Self::promise) or was to be left. It is taken though as much waits as
    /// may: who makes such entries has looked whether there is room for more. What of the promise is for it is taken from `promised_bytes`.
    ///
    /// # Errors
    /// [`AppendError`].
    pub(crate) fn append_made(
        &mut self,
        partition: PartitionId,
        version: Version,
        entry: &[&[u8]],
        promised_bytes: &mut u64,
        now: Time,
    ) -> Result<(), AppendError> {
        let len = self.is_open_for(entry)?;
        let bytes = (*promised_bytes).min(frame_len(len) as u64);
        *promised_bytes -= bytes;
        self.give_back(bytes);
        if !self.has_room_at_last(len) {
            return Err(AppendError::Backlog { bytes: self.pending.bytes() });
        }
        self.append_taken(partition, version, version, entry, now)
    }

    fn append_taken(
        &mut self,
        partition: PartitionId,
        first: Version,
        last: Version,
        entries: &[&[u8]],
        now: Time,
    ) -> Result<(), AppendError> {
        let held = self.known(partition)?;
        if let (Some(reason), None) = (&held.broken, &held.begun) {
            return Err(AppendError::Broken { partition, reason: (**reason).clone() });
        }
        if !held.is_next(first) || last.sequence() < first.sequence() || last < first {
            return Err(AppendError::Gap { partition, last: held.last, first });
        }
        self.group.add(last.sequence() - first.sequence() + 1);
        let header = FrameHeader { first, last, ..FrameHeader::new(FrameKind::Entries, partition) };
        self.push(header, entries, now);
        Ok(())
    }

    /// Has the partition take nothing of a lower epoch, which holds once [`Event::Fenced`](super::Event::Fenced) tells so.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn fence(
        &mut self,
        partition: PartitionId,
        epoch: u32,
        now: Time,
    ) -> Result<(), AppendError> {
        self.takes(&[])?;
        self.known(partition)?;
        self.push(FrameHeader { epoch, ..FrameHeader::new(FrameKind::Fence, partition) }, &[], now);
        Ok(())
    }

    /// Begins a snapshot. Entries may be appended meanwhile; a piece says what the partition holds when it is appended, so that
    /// whoever follows the log needs no rule for which is newer. Beginning once more ends the one before without effect.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn begin_snapshot(
        &mut self,
        partition: PartitionId,
        snapshot: Snapshot,
        now: Time,
    ) -> Result<(), AppendError> {
        self.takes(&[])?;
        let (kind, epoch, last) = match snapshot {
            Snapshot::Own => {
                let held = self.known(partition)?;
                if let Some(reason) = &held.broken {
                    return Err(AppendError::Broken { partition, reason: (**reason).clone() });
                }
                (FrameKind::SnapshotBegin, held.epoch, held.last)
            }
            Snapshot::Anew { epoch, last } => {
                let fenced = self.given.get(partition).map_or(0, |held| held.epoch);
                (FrameKind::AnewBegin, epoch.max(fenced), last)
            }
        };
        self.push(FrameHeader { epoch, last, ..FrameHeader::new(kind, partition) }, &[], now);
        Ok(())
    }

    /// Appends records of the snapshot that was begun last.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append_piece(
        &mut self,
        partition: PartitionId,
        records: &[&[u8]],
        now: Time,
    ) -> Result<(), AppendError> {
        self.takes(records)?;
        let first = self.pieces(partition)?;
        let kind = FrameKind::SnapshotPiece;
        self.push(FrameHeader { first, ..FrameHeader::new(kind, partition) }, records, now);
        Ok(())
    }

    /// Ends the snapshot that was begun last.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn end_snapshot(&mut self, partition: PartitionId, now: Time) -> Result<(), AppendError> {
        self.takes(&[])?;
        let first = self.pieces(partition)?;
        let kind = FrameKind::SnapshotEnd;
        self.push(FrameHeader { first, ..FrameHeader::new(kind, partition) }, &[], now);
        Ok(())
    }

    /// The node no longer holds the partition. One that the log does not have is forgotten already.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn forget(&mut self, partition: PartitionId, now: Time) -> Result<(), AppendError> {
        self.takes(&[])?;
        if self.given.get(partition).is_some() {
            self.push(FrameHeader::new(FrameKind::Forgotten, partition), &[], now);
        }
        Ok(())
    }

    /// Whether anything may be appended, that can wait if not.
    fn takes(&mut self, pieces: &[&[u8]]) -> Result<(), AppendError> {
        let len = self.is_open_for(pieces)?;
        let bytes = self.pending.bytes();
        if bytes > self.settings.backlog_bytes || !self.has_room_for(len) {
            return Err(AppendError::Backlog { bytes });
        }
        Ok(())
    }

    /// Whether anything may be appended, but for the room that it needs. Returns how long it is.
    fn is_open_for(&self, pieces: &[&[u8]]) -> Result<usize, AppendError> {
        match &self.state {
            State::Open | State::Full => {}
            State::Opening if self.settings.plant.has(Planted::AppendWhileOpening) => {}
            State::Opening => return Err(AppendError::Opening),
            State::Closing | State::Closed => return Err(AppendError::Closed),
            State::Poisoned(poisoned) => return Err(AppendError::Poisoned(poisoned.clone())),
        }
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if len > BODY_MAX { Err(AppendError::TooLong { len }) } else { Ok(len) }
    }

    fn known(&self, partition: PartitionId) -> Result<&Held, AppendError> {
        self.given.get(partition).ok_or(AppendError::Unknown { partition })
    }

    /// How many pieces the snapshot that was begun last has.
    fn pieces(&self, partition: PartitionId) -> Result<Version, AppendError> {
        let begun = self.known(partition)?.begun.as_ref();
        begun.map(|begun| Version(begun.pieces)).ok_or(AppendError::NoSnapshot { partition })
    }

    fn push(&mut self, header: FrameHeader, pieces: &[&[u8]], now: Time) {
        // Where it will stand is not known yet, and not asked of what was given.
        self.given.apply(&header, Position { file: u64::MAX, offset: 0 });
        self.pending.push(header, pieces);
        self.ends_waiting += usize::from(header.kind == FrameKind::SnapshotEnd);
        self.waiting_since.get_or_insert(now);
    }
}
