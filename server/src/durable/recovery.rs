//! What a node finds of its log when it starts: reads all files, and says of each partition how complete it is.
//!
//! **Torn or damaged.** A crash may leave any part of what was not synced, so a frame that is not intact is no damage by itself, not even with
//! intact ones behind it. But frames say how far their file was synced when they were written. If one behind says that the broken one
//! was synced, or there is a later file, then the disk lost what it had: the partitions that may have had something there
//! are incomplete. Otherwise the frame was never acknowledged, and the log ends before it.
//!
//! Nothing is changed here: the log goes on in a new file, which says where the one before it ends.

use weft_protocol::{PartitionId, Version};
use weft_transport::NodeId;

use super::completeness::{Completeness, Incomplete};
use super::disk::{Disk, DiskError, file_name, file_number};
use super::file_header::{FILE_HEADER_BYTES, FileHeader, HeaderError, Identity, Mode};
use super::frame::{FrameHeader, FrameKind};
use super::holdings::{Holdings, Position};
use super::log::Settings;
use super::planted::{Plant, Planted};
use super::roster;
use super::scan::{Found, Scanner};

/// Why a log is not opened. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A file of another cluster, node or mode.
    #[error(
        "{name} is of {found_node} of cluster {found_cluster:032x} ({found_mode:?}), not of {node} of cluster {cluster:032x} ({mode:?}): \
         is this the right data directory?"
    )]
    Foreign {
        /// The file.
        name: String,
        /// Whose it is.
        found_node: NodeId,
        /// Of which cluster.
        found_cluster: u128,
        /// Of which log.
        found_mode: Mode,
        /// Who we are.
        node: NodeId,
        /// Of which cluster.
        cluster: u128,
        /// Which log was opened.
        mode: Mode,
    },
    /// A file of a format that this release does not know.
    #[error(
        "{name} has format {format}, which this release does not read: run the release that wrote it, or a later one"
    )]
    Format {
        /// The file.
        name: String,
        /// Its format.
        format: u32,
    },
    /// A file that was renamed.
    #[error("{name} says that it is file {file:016x}.log: it was renamed")]
    Misnamed {
        /// The file.
        name: String,
        /// What it says.
        file: u64,
    },
    /// The disk cannot be read.
    #[error("cannot read the log: {0}")]
    Disk(#[from] DiskError),
}

/// What was found of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFound {
    /// Which.
    pub partition: PartitionId,
    /// Its last entry that there is.
    pub last: Version,
    /// It takes nothing of a lower epoch.
    pub epoch: u32,
    /// Whether all of it is there.
    pub completeness: Completeness,
}

/// What was found.
#[derive(Debug)]
pub struct Recovery {
    identity: Identity,
    holdings: Holdings,
    files: Vec<FoundFile>,
    is_clean: bool,
}

/// A file, and how far it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundFile {
    pub(super) number: u64,
    /// Where its frames end; 0 if it has none.
    pub(super) end: u64,
}

/// Reads the log of `identity` on `disk`.
///
/// # Errors
/// [`OpenError`]. Damage is none: it is said of the partitions that it concerns.
pub fn recover(
    disk: &mut impl Disk,
    identity: Identity,
    settings: &Settings,
) -> Result<Recovery, OpenError> {
    let mut numbers: Vec<u64> = disk.names()?.iter().filter_map(|name| file_number(name)).collect();
    numbers.sort_unstable();
    let mut headers = Vec::with_capacity(numbers.len());
    for number in &numbers {
        disk.settle(&file_name(*number))?;
        headers.push(read_header(disk, identity, *number)?);
    }
    let oldest = numbers.first().copied().unwrap_or(0);
    let (holdings, files) = (Holdings::default(), Vec::new());
    let recovery = Recovery { identity, holdings, files, is_clean: false };
    let mut reading = Reading { recovery, oldest, plant: settings.plant() };
    for (index, number) in numbers.iter().enumerate() {
        // A file behind that has no header was being made when the node went down: nothing was ever acknowledged that is in it.
        let next = headers[index + 1..].iter().flatten().next();
        reading.file(disk, *number, headers[index].as_ref(), next)?;
    }
    let Reading { mut recovery, plant, .. } = reading;
    let is_enough = recovery.is_clean || plant.has(Planted::ForgiveUnclean);
    if identity.mode == Mode::Disk && !is_enough {
        recovery.holdings.break_all(&Incomplete::NotClosed);
    }
    Ok(recovery)
}

/// A file's header; `None` if it is not intact.
fn read_header(
    disk: &mut impl Disk,
    identity: Identity,
    number: u64,
) -> Result<Option<FileHeader>, OpenError> {
    let name = file_name(number);
    let mut bytes = [0; FILE_HEADER_BYTES];
    let read = disk.read_at(&name, 0, &mut bytes)?;
    let header = match FileHeader::decode(&bytes[..read]) {
        Ok(header) => header,
        Err(HeaderError::Damaged) => return Ok(None),
        Err(HeaderError::Format(format)) => return Err(OpenError::Format { name, format }),
    };
    if header.identity != identity {
        let Identity { cluster: found_cluster, node: found_node, mode: found_mode } =
            header.identity;
        let Identity { cluster, node, mode } = identity;
        return Err(OpenError::Foreign {
            name,
            found_node,
            found_cluster,
            found_mode,
            node,
            cluster,
            mode,
        });
    }
    if header.file == number {
        Ok(Some(header))
    } else {
        Err(OpenError::Misnamed { name, file: header.file })
    }
}

/// A recovery under way.
struct Reading {
    recovery: Recovery,
    oldest: u64,
    plant: Plant,
}

impl Reading {
    /// Reads a file. `next` is the header of the next one that has one, and knows where this one ends.
    fn file(
        &mut self,
        disk: &mut impl Disk,
        number: u64,
        header: Option<&FileHeader>,
        next: Option<&FileHeader>,
    ) -> Result<(), OpenError> {
        let Recovery { identity, holdings, files, is_clean } = &mut self.recovery;
        if let Some(last) = files.last() {
            let framed = files.iter().rev().find(|file| file.end > 0);
            let framed = framed.map_or(0, |file| file.number);
            let (before, expected) = match header {
                Some(header) => (framed, header.previous_file),
                // It cannot say. One that was being made when the node went down may follow on another such.
                None => (last.number, number - 1),
            };
            if before != expected {
                holdings.break_all(&Incomplete::MissingFile { file: expected });
            }
        }
        files.push(FoundFile { number, end: 0 });
        if next.is_some_and(|next| next.previous_file < number) {
            return Ok(());
        }
        let is_followed = next.is_some();
        let previous_end = next.filter(|next| next.previous_file == number);
        let previous_end = previous_end.map(|next| next.previous_end);
        let name = file_name(number);
        let mut read_at = |offset: u64, into: &mut [u8]| disk.read_at(&name, offset, into);
        let limit = previous_end.unwrap_or(u64::MAX);
        let mut scanner = Scanner::new(&mut read_at, identity.seed(number), limit);
        if header.is_none() {
            let is_torn = !is_followed && !scanner.is_synced_behind(0, None)?;
            if is_torn || self.plant.has(Planted::CutAtCorruption) {
                return Ok(());
            }
            holdings.break_all(&Incomplete::Corrupt { file: number, offset: 0 });
        }
        *is_clean = false;
        let mut end = loop {
            match scanner.next()? {
                Found::Frame { at, header, body } => {
                    *is_clean = header.kind == FrameKind::Close;
                    if header.kind == FrameKind::Roster {
                        match roster::decode(body) {
                            Some(roster) => holdings.apply_roster(&roster, number, self.oldest),
                            None => holdings
                                .break_all(&Incomplete::Corrupt { file: number, offset: at }),
                        }
                    }
                    holdings.apply(&header, Position { file: number, offset: at });
                }
                Found::End { at } => break at,
                Found::Damage { at, header } => {
                    *is_clean = false;
                    if self.plant.has(Planted::CutAtCorruption)
                        || !(is_followed || scanner.is_synced_behind(at, header.as_ref())?)
                    {
                        break at;
                    }
                    mark_damage(holdings, number, at, header.as_ref());
                    if !scanner.resume(at, header.as_ref())? {
                        break at;
                    }
                }
            }
        };
        if let Some(previous_end) = previous_end {
            if end < previous_end && !self.plant.has(Planted::CutAtCorruption) {
                holdings.break_all(&Incomplete::Corrupt { file: number, offset: end });
            }
            end = previous_end;
        }
        if let Some(file) = files.last_mut() {
            file.end = end;
        }
        Ok(())
    }
}

/// Something that was synced is not intact. If its header is, that tells whose it was; otherwise it may have been anybody's.
fn mark_damage(holdings: &mut Holdings, file: u64, offset: u64, header: Option<&FrameHeader>) {
    let reason = Incomplete::Corrupt { file, offset };
    match header {
        Some(header) if header.kind.is_of_partition() => {
            holdings.apply(header, Position { file, offset });
            holdings.break_one(header.partition, reason);
        }
        _ => holdings.break_all(&reason),
    }
}

impl Recovery {
    /// All partitions that the log knows, in order.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionFound> {
        self.holdings.iter().map(|(partition, _)| self.partition(partition))
    }

    /// One partition, whether the log knows it or not.
    pub fn partition(&self, partition: PartitionId) -> PartitionFound {
        let Some(held) = self.holdings.get(partition) else {
            let completeness = Completeness::Incomplete { reason: Incomplete::Unknown };
            return PartitionFound { partition, last: Version::NONE, epoch: 0, completeness };
        };
        let completeness = match &held.broken {
            Some(reason) => Completeness::Incomplete { reason: (**reason).clone() },
            None if self.is_clean => Completeness::CompleteClean,
            None => Completeness::CompleteFsync,
        };
        // Who took an entry of an epoch takes none of a lower one, whether it was fenced or not.
        let epoch = held.epoch.max(held.last.epoch());
        PartitionFound { partition, last: held.last, epoch, completeness }
    }

    /// Whether the log was closed in good order.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Whose log it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    pub(super) fn found_files(&self) -> &[FoundFile] {
        &self.files
    }

    /// Number and bytes of each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.iter().map(|file| (file.number, file.end))
    }

    /// The newest file's number; 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.files.last().map_or(0, |file| file.number)
    }

    /// The newest file that has frames, and where they end; zeroes if there is none.
    pub(super) fn previous(&self) -> (u64, u64) {
        let framed = self.files().filter(|(_, end)| *end > 0);
        framed.last().unwrap_or((0, 0))
    }
}
