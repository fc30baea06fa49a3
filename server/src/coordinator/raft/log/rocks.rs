//! A log in RocksDB, in a folder of its own.
//!
//! A batch is one write of RocksDB's, so it is one record of its write-ahead log: after a crash it is there or not. RocksDB's default is not
//! to sync, and to open a damaged write-ahead log up to the damage, in silence; a member that forgot a vote or an entry in either way would
//! break the promise it gave, so batches are synced when they say so, and damage before the last record fails the opening.

use std::path::Path;

use rocksdb::{
    DB, DBCompressionType, DBRecoveryMode, ErrorKind, IteratorMode, Options, WriteBatch,
    WriteOptions,
};

use super::record::{Change, changes};
use super::{Batch, LogError, RaftLog, Recovered, recovery};

/// The memory that RocksDB collects writes in before it makes a file of them. The log of a coordinator is small.
const WRITE_BUFFER_BYTES: usize = 16 << 20;
/// RocksDB's own diary: how much of it, and how many old ones.
const DIARY_BYTES: usize = 1 << 20;
const DIARIES_KEPT: usize = 2;

/// A member's log on a real disk.
pub struct RocksLog {
    place: String,
    db: DB,
    is_poisoned: bool,
}

impl std::fmt::Debug for RocksLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RocksLog { place, db: _, is_poisoned } = self;
        f.debug_struct("RocksLog").field("place", place).field("is_poisoned", is_poisoned).finish()
    }
}

impl RocksLog {
    /// Opens the log in `folder`.
    ///
    /// # Errors
    /// [`LogError::Missing`] if there is none, [`LogError::InUse`], [`LogError::Corrupt`], [`LogError::Open`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        let place = folder.display().to_string();
        if !holds_database(folder) {
            return Err(LogError::Missing { place });
        }
        let db = DB::open(&options(false), folder).map_err(|error| opening(&place, &error))?;
        Ok(RocksLog { place, db, is_poisoned: false })
    }

    /// Makes a log in `folder`, with `first`, which is one of [`Batch::founding`] and [`Batch::joining`]. A crash leaves a log or none.
    ///
    /// # Errors
    /// [`LogError::Occupied`] if anything was written there before; else what [`open`](Self::open) and [`write`](RaftLog::write) have.
    pub fn create(folder: &Path, first: &Batch) -> Result<Self, LogError> {
        let place = folder.display().to_string();
        let db = DB::open(&options(true), folder).map_err(|error| opening(&place, &error))?;
        if db.iterator(IteratorMode::Start).next().is_some() {
            return Err(LogError::Occupied { place });
        }
        let mut log = RocksLog { place, db, is_poisoned: false };
        log.write(first)?;
        Ok(log)
    }
}

impl RaftLog for RocksLog {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        let mut records = Vec::new();
        for record in self.db.iterator(IteratorMode::Start) {
            let (key, value) = record.map_err(|error| opening(&self.place, &error))?;
            records.push((key.into_vec(), value.into_vec()));
        }
        recovery::recover(&self.place, records.into_iter())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        if self.is_poisoned {
            return Err(LogError::Poisoned { place: self.place.clone() });
        }
        let mut write = WriteBatch::default();
        for change in changes(batch) {
            match change {
                Change::Put(key, value) => write.put(key, value),
                Change::Remove(from, to) => write.delete_range(from, to),
            }
        }
        let mut how = WriteOptions::default();
        how.set_sync(batch.must_sync);
        self.db.write_opt(write, &how).map_err(|error| {
            self.is_poisoned = true;
            let detail = error.to_string();
            let is_full = detail.contains("No space left");
            LogError::Write { place: self.place.clone(), detail, is_full }
        })
    }
}

/// Whether RocksDB has ever made a database there: it names its files in this one.
fn holds_database(folder: &Path) -> bool {
    #[expect(clippy::disallowed_methods, reason = "this is the shell that owns the folder")]
    folder.join("CURRENT").exists()
}

fn options(create: bool) -> Options {
    let mut options = Options::default();
    options.create_if_missing(create);
    options.set_paranoid_checks(true);
    // A record that a crash cut short at the end was never acknowledged; anything else is damage.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_compression_type(DBCompressionType::None);
    options.set_max_log_file_size(DIARY_BYTES);
    options.set_keep_log_file_num(DIARIES_KEPT);
    options
}

fn opening(place: &str, error: &rocksdb::Error) -> LogError {
    let (place, detail) = (place.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::Corruption => LogError::Corrupt { place, detail },
        ErrorKind::IOError if detail.contains("LOCK") || detail.contains("lock") => {
            LogError::InUse { place, detail }
        }
        // RocksDB says so of files that it names and cannot find.
        ErrorKind::IOError if detail.contains("No such file") => {
            LogError::Corrupt { place, detail }
        }
        _ => LogError::Open { place, detail },
    }
}
