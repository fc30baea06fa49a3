//! Gives what the log has of its partitions, in the order in which it was appended.

use std::collections::BTreeMap;

use weft_protocol::{PartitionId, Version};

use super::disk::{Disk, DiskError, file_name};
use super::frame::FrameKind;
use super::holdings::{Held, Position};
use super::recovery::Recovery;
use super::scan::{Found, Scanner};

/// What a partition is to be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed<'a> {
    /// The partition's last whole snapshot begins here, or the partition, empty. It is told first, of one that is complete.
    Base {
        /// Whose.
        partition: PartitionId,
        /// The entry as of which it begins.
        last: Version,
    },
    /// Records of its snapshot, as whoever appended them took them in.
    Piece {
        /// Whose.
        partition: PartitionId,
        /// Records one after the other.
        records: &'a [u8],
    },
    /// All pieces of the snapshot were told.
    BaseEnd {
        /// Whose.
        partition: PartitionId,
    },
    /// Entries that follow on each other.
    Entries {
        /// Whose.
        partition: PartitionId,
        /// The first one's version.
        first: Version,
        /// The last one's.
        last: Version,
        /// Entries one after the other.
        entries: &'a [u8],
    },
}

/// Why a replay ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// What recovery has read is not there any more.
    #[error("file {file:016x}.log has changed at byte {offset} while it was read")]
    Changed {
        /// The file's number.
        file: u64,
        /// Where.
        offset: u64,
    },
    /// The disk cannot be read.
    #[error("cannot read the log: {0}")]
    Disk(#[from] DiskError),
}

impl Recovery {
    /// Reads the files again and shows all that `wants` asks for, complete or not, one frame at a time: pieces of the last whole snapshot
    /// and all entries since it began. Of a partition that is complete that is all that it had; followed in this order, a record in it is
    /// never older than one of the same key before it. Of one that is incomplete it is what is left.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(
        &self,
        disk: &mut impl Disk,
        wants: &mut dyn FnMut(PartitionId) -> bool,
        visit: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<(), ReplayError> {
        let wanted = self.holdings().iter().filter(|(partition, _)| wants(*partition));
        let wanted: BTreeMap<PartitionId, &Held> = wanted.collect();
        let Some(oldest) = wanted.values().map(|held| held.base.file).min() else { return Ok(()) };
        for found in self.found_files().iter().filter(|file| file.number >= oldest) {
            let name = file_name(found.number);
            let mut read_at = |offset: u64, into: &mut [u8]| disk.read_at(&name, offset, into);
            let seed = self.identity().seed(found.number);
            let mut scanner = Scanner::new(&mut read_at, seed, found.end);
            loop {
                match scanner.next()? {
                    Found::End { .. } => break,
                    Found::Damage { at, header } => {
                        let place = Position { file: found.number, offset: at };
                        // Damage that recovery has seen has broken all whom it concerns, but who was written anew behind it.
                        let of = header.filter(|header| header.kind.is_of_partition());
                        let concerns = |partition: PartitionId, held: &Held| {
                            of.is_none_or(|of| of.partition == partition)
                                && held.broken.is_none()
                                && held.base < place
                        };
                        if wanted.iter().any(|(partition, held)| concerns(*partition, held)) {
                            return Err(ReplayError::Changed { file: found.number, offset: at });
                        }
                        if !scanner.resume(at, header.as_ref())? {
                            break;
                        }
                    }
                    Found::Frame { at, header, body } => {
                        let partition = header.partition;
                        let Some(held) = wanted.get(&partition) else { continue };
                        let place = Position { file: found.number, offset: at };
                        let is_needed = place >= held.base;
                        // Of a snapshot that never ended, what was told may be incomplete, but entries tell all.
                        let is_of_base = place < held.base_end || held.broken.is_some();
                        match header.kind {
                            FrameKind::SnapshotBegin | FrameKind::AnewBegin
                                if place == held.base =>
                            {
                                visit(Replayed::Base { partition, last: header.last });
                            }
                            FrameKind::SnapshotEnd if place == held.base_end => {
                                visit(Replayed::BaseEnd { partition });
                            }
                            FrameKind::Entries if is_needed => visit(Replayed::Entries {
                                partition,
                                first: header.first,
                                last: header.last,
                                entries: body,
                            }),
                            FrameKind::SnapshotPiece if is_needed && is_of_base => {
                                visit(Replayed::Piece { partition, records: body });
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
