//! How much of a log was acknowledged, written down beside it.
//!
//! RocksDB cannot tell damage from a loss of power: where the end of its write-ahead log cannot be read, it opens without that end. What was
//! synced before that may have been promised to others, so the number of the last batch that was synced stands in a file of its own, and a
//! log that has fewer is damaged. The file is written after the batch and before anybody is told that it is durable: it is never ahead of the
//! log, whenever the power goes.
//!
//! The file, `extent`, has two slots, 4096 bytes apart, which are written in turn: one that was torn was told to nobody, and the other says what was told
//! before it. It has both from the beginning: it is made as `extent.next` and named `extent` when it is whole. A slot is 20 bytes, little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `weft-ext` |
//! | 8..16 | the number of a batch that was synced, 0 before the first |
//! | 16..20 | CRC32C of the 16 bytes before |
#![expect(clippy::disallowed_methods, reason = "this is a part of the shell that owns the folder")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::LogError;

const NAME: &str = "extent";
const NEXT_NAME: &str = "extent.next";
const MAGIC: [u8; 8] = *b"weft-ext";
const SLOT_BYTES: usize = 20;
/// A disk that writes a slot touches no other within so many bytes.
const SLOT_DISTANCE: u64 = 4096;

/// The file, which is this process's alone while it is open.
#[derive(Debug)]
pub(super) struct Extent {
    file: File,
    /// The number that the log has to have reached.
    acknowledged: u64,
    /// The slot that is not the newest.
    next_slot: u64,
}

impl Extent {
    /// Makes the file for a log that is about to be made, or takes that of one that never was. It is durable when this returns, and whenever
    /// the process ends or the power goes before, it is there whole or not at all.
    pub(super) fn create(folder: &Path) -> Result<Extent, LogError> {
        if let Some(extent) = Self::open(folder)? {
            return Ok(extent);
        }
        let failed = |error| opening(folder, &error);
        let mut options = OpenOptions::new();
        let file = open_locked(folder, NEXT_NAME, options.create(true).truncate(false))?;
        // Who had the lock before may have been done.
        if folder.join(NAME).exists() {
            return Err(in_use(folder, NAME));
        }
        for slot in [0, 1] {
            file.write_all_at(&encode(0), slot * SLOT_DISTANCE).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        fs::rename(folder.join(NEXT_NAME), folder.join(NAME)).map_err(failed)?;
        sync_folder(folder).map_err(failed)?;
        Ok(Extent { file, acknowledged: 0, next_slot: 0 })
    }

    /// Opens the file, without changing anything; `None` if there is none.
    pub(super) fn open(folder: &Path) -> Result<Option<Extent>, LogError> {
        if !folder.join(NAME).exists() {
            return Ok(None);
        }
        let file = open_locked(folder, NAME, &mut OpenOptions::new())?;
        let slots = [0, 1].map(|slot| read_slot(&file, slot));
        let [first, second] = slots;
        let (first, second) = (
            first.map_err(|error| opening(folder, &error))?,
            second.map_err(|error| opening(folder, &error))?,
        );
        // A slot that cannot be read was being written when the power went, after a batch that is therefore in the log; or it has been damaged, and may
        // have been the newer one. A log that has not more than the other slot says is no proof of the former.
        let (acknowledged, next_slot) = match (first, second) {
            (Some(first), Some(second)) => (first.max(second), u64::from(second < first)),
            (Some(readable), None) => (readable.saturating_add(1), 1),
            (None, Some(readable)) => (readable.saturating_add(1), 0),
            (None, None) => {
                let detail = format!("neither of the two numbers in the file {NAME} can be read");
                return Err(LogError::Corrupt { place: folder.display().to_string(), detail });
            }
        };
        Ok(Some(Extent { file, acknowledged, next_slot }))
    }

    /// The number of the last batch that may have been acknowledged: a log that has fewer is not whole.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Writes down that the batches up to `number` are synced. They may be acknowledged when this returns.
    pub(super) fn advance(&mut self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&encode(number), self.next_slot * SLOT_DISTANCE)?;
        self.file.sync_data()?;
        self.acknowledged = number;
        self.next_slot = 1 - self.next_slot;
        Ok(())
    }
}

/// Has the entries of a folder survive a loss of power.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn open_locked(folder: &Path, name: &str, options: &mut OpenOptions) -> Result<File, LogError> {
    let failed = |error| opening(folder, &error);
    let file = options.read(true).write(true).open(folder.join(name)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use(folder, name)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn in_use(folder: &Path, name: &str) -> LogError {
    let detail = format!("the file {name} is locked");
    LogError::InUse { place: folder.display().to_string(), detail }
}

fn opening(folder: &Path, error: &io::Error) -> LogError {
    let detail = format!("the file {NAME}: {error}");
    LogError::opening(folder.display().to_string(), detail)
}

fn encode(number: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&MAGIC);
    slot[8..16].copy_from_slice(&number.to_le_bytes());
    let checksum = crc32c::crc32c(&slot[..16]);
    slot[16..].copy_from_slice(&checksum.to_le_bytes());
    slot
}

/// The number in a slot, if it was written like that.
fn read_slot(file: &File, slot: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; SLOT_BYTES];
    match file.read_exact_at(&mut bytes, slot * SLOT_DISTANCE) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[8..16]);
    let number = u64::from_le_bytes(number);
    Ok((bytes == encode(number)).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(folder: &Path) -> Option<u64> {
        Extent::open(folder).unwrap().map(|extent| extent.acknowledged())
    }

    #[test]
    fn the_latest_number_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(acknowledged(folder.path()), None);
        drop(Extent::create(folder.path()).unwrap());
        for number in [1, 2, 5, 6, 1 << 40] {
            Extent::open(folder.path()).unwrap().unwrap().advance(number).unwrap();
            assert_eq!(acknowledged(folder.path()), Some(number));
        }
        let mut extent = Extent::open(folder.path()).unwrap().unwrap();
        extent.advance(1 << 41).unwrap();
        extent.advance(1 << 42).unwrap();
        drop(extent);
        assert_eq!(acknowledged(folder.path()), Some(1 << 42));
    }

    /// Of a slot that was torn at any byte the other one says what was acknowledged, and that a batch more is in the log.
    #[test]
    fn a_torn_slot_leaves_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut extent = Extent::create(folder.path()).unwrap();
        for number in 1..8 {
            let before = fs::read(folder.path().join(NAME)).unwrap();
            extent.advance(number).unwrap();
            let after = fs::read(folder.path().join(NAME)).unwrap();
            let changed: Vec<usize> =
                (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
            let (from, to) = (changed[0], changed[changed.len() - 1]);
            for cut in from + 1..to {
                let torn = [&after[..cut], &before[cut..]].concat();
                if torn == before || torn == after {
                    continue;
                }
                let other = tempfile::tempdir().unwrap();
                fs::write(other.path().join(NAME), torn).unwrap();
                assert_eq!(acknowledged(other.path()), Some(number), "torn at {cut}");
            }
        }
    }

    /// Whatever an attempt to make the file had written when it ended, the next one makes it.
    #[test]
    fn an_attempt_that_was_cut_off_is_made_again() {
        let whole = {
            let folder = tempfile::tempdir().unwrap();
            drop(Extent::create(folder.path()).unwrap());
            fs::read(folder.path().join(NAME)).unwrap()
        };
        for cut in [0, 1, SLOT_BYTES, SLOT_DISTANCE as usize, whole.len()] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(NEXT_NAME), &whole[..cut]).unwrap();
            assert_eq!(acknowledged(folder.path()), None, "cut at {cut}");
            drop(Extent::create(folder.path()).unwrap());
            assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), whole, "cut at {cut}");
            assert!(!folder.path().join(NEXT_NAME).exists());
        }
    }

    #[test]
    fn without_a_slot_that_can_be_read_nothing_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        Extent::create(folder.path()).unwrap().advance(3).unwrap();
        for bytes in [&b""[..], &[0; 8192], b"weft-ext\x03\0\0\0\0\0\0\0\0\0\0\0"] {
            fs::write(folder.path().join(NAME), bytes).unwrap();
            let error = Extent::open(folder.path()).unwrap_err();
            assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
            assert_eq!(fs::read(folder.path().join(NAME)).unwrap(), bytes);
        }
    }

    #[test]
    fn it_is_for_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Extent::create(folder.path()).unwrap();
        for second in
            [Extent::open(folder.path()).map(drop), Extent::create(folder.path()).map(drop)]
        {
            assert!(matches!(second, Err(LogError::InUse { .. })), "{second:?}");
        }
        drop(first);
        assert_eq!(acknowledged(folder.path()), Some(0));
    }
}
