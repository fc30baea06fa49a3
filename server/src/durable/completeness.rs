//! How much of a partition its log still has.

use weft_protocol::Version;

/// Whether a replica has all that it ever told anybody to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// All that was synced is there, in a log of [`Mode::Fsync`](super::Mode::Fsync): every entry that was acknowledged.
    CompleteFsync,
    /// The log was closed in good order, and all of it is there.
    CompleteClean,
    /// Something is missing, or may be: the replica keeps no place in the in-sync set.
    Incomplete {
        /// What.
        reason: Incomplete,
    },
}

/// Why a replica is not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// Bytes that were synced are not what was written.
    #[error("file {file:016x}.log is damaged at byte {offset}")]
    Corrupt {
        /// The file's number.
        file: u64,
        /// Where the damage begins.
        offset: u64,
    },
    /// A file is gone that is needed.
    #[error("file {file:016x}.log is missing")]
    MissingFile {
        /// Its number.
        file: u64,
    },
    /// Entries are missing between two that are there.
    #[error("entries are missing after {after} at byte {offset} of file {file:016x}.log")]
    Gap {
        /// The file's number.
        file: u64,
        /// Where the frame stands that does not fit.
        offset: u64,
        /// The last entry that fits.
        after: Version,
    },
    /// The replica was being given what it lacked when the log ended.
    #[error("it was still being given what it lacked")]
    Unfinished,
    /// A log of [`Mode::Disk`](super::Mode::Disk) was not closed in good order: what was written last may be missing.
    #[error("the log was not closed in good order")]
    NotClosed,
    /// It was incomplete at an earlier start, and has not begun anew since.
    #[error("it was incomplete when the node started before")]
    Earlier,
    /// The log has all of it, and this node could not take it in: for want of memory, or because this release contradicts the one that wrote it.
    #[error("it cannot be taken in: {error}")]
    NotTakenIn {
        /// Why.
        error: String,
    },
    /// The log says nothing of it: it is another node's, or all that told of it is gone.
    #[error("the log does not know it")]
    Unknown,
}

impl Completeness {
    /// Whether it is either kind of complete.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Completeness::Incomplete { .. })
    }
}
