//! What the log needs of a disk, and what it asks of it.

use super::sealing::Bytes;

/// Append-only files in one directory.
///
/// Two implement it: [`Directory`](super::Directory), of the system's files, and the simulator's disk, which forgets and tears what was
/// not synced. It is public because the second is in a crate of its own; there is no use in a third.
pub trait Disk {
    /// The names of all files, in any order.
    ///
    /// # Errors
    /// [`DiskError`].
    fn names(&mut self) -> Result<Vec<String>, DiskError>;

    /// Makes an empty file, and keeps room on the disk for `reserve_bytes` if it can. Its name survives a crash after
    /// [`sync_names`](Self::sync_names). When this fails, there is no file.
    ///
    /// # Errors
    /// [`DiskError::Exists`], [`DiskError::Full`] if there is no room, or another.
    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError>;

    /// Writes `bytes` behind all that the file has.
    ///
    /// # Errors
    /// [`DiskError`]; any part of `bytes` may then be in the file.
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes what was appended to a file survive a crash.
    ///
    /// # Errors
    /// [`DiskError`]: what was not synced before may be lost, whatever a later sync says.
    fn sync(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes the names of files survive a crash, and their absence.
    ///
    /// # Errors
    /// [`DiskError`].
    fn sync_names(&mut self) -> Result<(), DiskError>;

    /// Gives back the room that was kept for a file and is not used: nothing more is written to it.
    ///
    /// # Errors
    /// [`DiskError`].
    fn trim(&mut self, name: &str) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes sure that what is read from now on is what the disk has: syncs what this or an earlier process wrote, and forgets what
    /// the system remembers of it. After a failed sync the system may show bytes that never reached the disk.
    ///
    /// # Errors
    /// [`DiskError`].
    fn settle(&mut self, name: &str) -> Result<(), DiskError>;

    /// Reads from `offset` on: fewer bytes than `into` has room for only at the end of the file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError>;
}

/// What a disk did not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// No room is left (`ENOSPC`, `EDQUOT`), or a file may not become this long (`EFBIG`).
    #[error("the disk is full: free some of it, or move other data away")]
    Full,
    /// There is a file of this name already.
    #[error("file {name} exists already: another process may be using this directory")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such file.
    #[error("file {name} is gone")]
    Missing {
        /// The name.
        name: String,
    },
    /// Anything else, such as `EIO`.
    #[error("cannot {what} {name}: {error}")]
    Failed {
        /// What was to be done.
        what: &'static str,
        /// Of which file.
        name: String,
        /// The system's words.
        error: String,
    },
}

/// What the log wants done, one thing at a time.
#[derive(Debug)]
pub enum Effect {
    /// See [`Disk::create`].
    Create {
        /// The file's number.
        file: u64,
        /// Room to be kept for it.
        reserve_bytes: u64,
    },
    /// See [`Disk::append`].
    Write {
        /// The file's number.
        file: u64,
        /// Whole frames.
        bytes: Bytes,
    },
    /// See [`Disk::sync`].
    Sync {
        /// The file's number.
        file: u64,
    },
    /// See [`Disk::sync_names`].
    SyncNames,
    /// See [`Disk::trim`].
    Trim {
        /// The file's number.
        file: u64,
    },
    /// See [`Disk::remove`].
    Remove {
        /// The file's number.
        file: u64,
    },
}

/// Does on `disk` what the log asked for. It is then to be told by [`Log::done`](super::Log::done).
///
/// # Errors
/// The disk's.
pub fn perform(disk: &mut impl Disk, effect: &mut Effect) -> Result<(), DiskError> {
    match effect {
        Effect::Create { file, reserve_bytes } => disk.create(&file_name(*file), *reserve_bytes),
        Effect::Write { file, bytes } => disk.append(&file_name(*file), bytes.get()),
        Effect::Sync { file } => disk.sync(&file_name(*file)),
        Effect::SyncNames => disk.sync_names(),
        Effect::Trim { file } => disk.trim(&file_name(*file)),
        Effect::Remove { file } => disk.remove(&file_name(*file)),
    }
}

/// What ends the name of a file of the log.
const SUFFIX: &str = ".log";

/// The name of a file, which sorts by its number.
pub(super) fn file_name(number: u64) -> String {
    format!("{number:016x}{SUFFIX}")
}

/// The number of a file of the log; `None` if it is none.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (file_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_number_and_others_tell_none() {
        for number in [0, 1, 255, u64::MAX] {
            assert_eq!(file_number(&file_name(number)), Some(number));
        }
        for name in ["", ".log", "1.log", "lost+found", "+000000000000001.log", "LOCK"] {
            assert_eq!(file_number(name), None, "{name}");
        }
    }
}
