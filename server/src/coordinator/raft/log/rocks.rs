//! A log in RocksDB, in a folder of its own.
//!
//! A batch is one write of RocksDB's, so it is one record of its write-ahead log: after a crash it is there or not. RocksDB's default is not
//! to sync, and no mode of its recovery tells the end of a write that the power cut short from the same bytes damaged later; a member that forgot a
//! vote or an entry in either way would break the promise it gave. So batches are synced when they say so, each has a number, and the log has to
//! reach the one in the [extent](super::extent). All of it is read and checked before RocksDB is let write: it would remove what it cannot read.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rocksdb::{
    DB, DBCompressionType, DBRecoveryMode, ErrorKind as RocksErrorKind, IteratorMode, LogLevel,
    Options, WriteBatch, WriteOptions,
};

use super::extent::{Extent, sync_folder};
use super::record::{Change, NUMBER_KEY, changes, seal, unseal};
use super::{Batch, LogError, RaftLog, Recovered, recovery, says_full};

/// The memory that RocksDB collects writes in before it makes a file of them, for which it takes as much room on the disk beforehand. The log of a coordinator is small.
const WRITE_BUFFER_BYTES: usize = 2 << 20;
/// Room that is taken on the disk when RocksDB's list of its files is made: it has a few hundred bytes.
const MANIFEST_BYTES: usize = 64 << 10;
/// How many of RocksDB's diaries are kept, which are empty.
const DIARIES_KEPT: usize = 2;

/// A log in a folder as it was left there: read and checked, kept from others for as long as this lives, and not changed. RocksDB writes as soon as it
/// is [let](Self::open), whether anything is written by it or not, so whatever may refuse the log goes before.
#[derive(Debug)]
pub struct StoredLog {
    folder: PathBuf,
    extent: Extent,
    /// The number of the last batch.
    number: u64,
    recovered: Recovered,
}

/// A member's log on a real disk.
pub struct RocksLog {
    place: String,
    db: DB,
    extent: Extent,
    /// The number of the last batch.
    number: u64,
    is_poisoned: bool,
}

impl std::fmt::Debug for RocksLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RocksLog { place, db: _, extent, number, is_poisoned } = self;
        f.debug_struct("RocksLog")
            .field("place", place)
            .field("extent", extent)
            .field("number", number)
            .field("is_poisoned", is_poisoned)
            .finish()
    }
}

impl StoredLog {
    /// Reads the log in `folder`.
    ///
    /// # Errors
    /// [`LogError::Missing`] if there is none, [`LogError::InUse`], [`LogError::Corrupt`], [`LogError::Format`], [`LogError::Open`].
    pub fn read(folder: &Path) -> Result<Self, LogError> {
        let place = folder.display().to_string();
        // It locks the folder, too.
        let extent = Extent::open(folder)?;
        let acknowledged = extent.as_ref().map_or(0, Extent::acknowledged);
        if !holds_database(folder) {
            return Err(if acknowledged == 0 {
                LogError::Missing { place }
            } else {
                let detail =
                    format!("{acknowledged} batches were acknowledged, and there is no database");
                LogError::Corrupt { place, detail }
            });
        }
        let reader = DB::open_for_read_only(&options(false), folder, false);
        let reader = reader.map_err(|error| opening(&place, &error))?;
        let (number, recovered) = read(&reader, &place, acknowledged)?;
        let Some(extent) = extent else {
            let detail = "the file that says how much of it was acknowledged is missing".to_owned();
            return Err(LogError::Corrupt { place, detail });
        };
        Ok(StoredLog { folder: folder.to_owned(), extent, number, recovered })
    }

    /// What it holds.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Has it written from now on.
    ///
    /// # Errors
    /// [`LogError::InUse`], [`LogError::Open`], [`LogError::Corrupt`].
    pub fn open(self) -> Result<RocksLog, LogError> {
        let StoredLog { folder, extent, number, recovered } = self;
        let place = recovered.place;
        let db = DB::open(&options(false), &folder).map_err(|error| opening(&place, &error))?;
        Ok(RocksLog { place, db, extent, number, is_poisoned: false })
    }
}

impl RocksLog {
    /// Opens the log in `folder`. What cannot be used is left as it is.
    ///
    /// # Errors
    /// Those of [`StoredLog::read`] and [`StoredLog::open`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        StoredLog::read(folder)?.open()
    }

    /// Makes a log in `folder`, with `first`, which is one of [`Batch::founding`] and [`Batch::joining`]. A crash leaves a log or none.
    ///
    /// # Errors
    /// [`LogError::Occupied`] if there is a log; else what [`open`](Self::open) and [`write`](RaftLog::write) have.
    pub fn create(folder: &Path, first: &Batch) -> Result<Self, LogError> {
        let place = folder.display().to_string();
        match Self::open(folder) {
            Ok(_) => return Err(LogError::Occupied { place }),
            // What a crash left of one that was being made, or nothing at all.
            Err(LogError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        make_folder(folder).map_err(|error| LogError::opening(place.clone(), error.to_string()))?;
        let extent = Extent::create(folder)?;
        let db = DB::open(&options(true), folder).map_err(|error| opening(&place, &error))?;
        let mut log = RocksLog { place, db, extent, number: 0, is_poisoned: false };
        log.write(first)?;
        Ok(log)
    }

    /// Puts the log in `folder` aside, as `FOLDER.removed`, in the place of what was put there before: the member that it was is none any more, and what it
    /// promised binds nobody. Where a crash comes between, it is still where it was.
    ///
    /// # Errors
    /// [`LogError::InUse`] if it is open; [`LogError::Open`].
    pub fn put_away(folder: &Path) -> Result<(), LogError> {
        if !holds_database(folder) {
            return Ok(());
        }
        // It is nobody's else until it has gone.
        let _extent = Extent::open(folder)?;
        let aside = aside(folder);
        moved(folder, &aside).map_err(|error| {
            let detail = format!("put it aside as {}: {error}", aside.display());
            LogError::opening(folder.display().to_string(), detail)
        })
    }

    fn failed(&mut self, detail: String) -> LogError {
        self.is_poisoned = true;
        let is_full = says_full(&detail);
        LogError::Write { place: self.place.clone(), detail, is_full }
    }
}

impl RaftLog for RocksLog {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        read(&self.db, &self.place, self.extent.acknowledged()).map(|(_, recovered)| recovered)
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        if self.is_poisoned {
            return Err(LogError::Poisoned { place: self.place.clone() });
        }
        self.number += 1;
        let mut write = WriteBatch::default();
        write.put(NUMBER_KEY, seal(NUMBER_KEY, &self.number.to_le_bytes()));
        for change in changes(batch) {
            match change {
                Change::Put(key, value) => write.put(key, value),
                Change::Remove(from, to) => write.delete_range(from, to),
            }
        }
        let mut how = WriteOptions::default();
        how.set_sync(batch.must_sync);
        self.db.write_opt(write, &how).map_err(|error| self.failed(error.to_string()))?;
        if batch.must_sync {
            let advanced = self.extent.advance(self.number);
            advanced.map_err(|error| self.failed(format!("the extent: {error}")))?;
        }
        Ok(())
    }
}

/// Everything that there is, and the number of the last batch, if all that was acknowledged is among it.
fn read(db: &DB, place: &str, acknowledged: u64) -> Result<(u64, Recovered), LogError> {
    let corrupt = |detail| LogError::Corrupt { place: place.to_owned(), detail };
    let mut records = Vec::new();
    let mut number = None;
    for record in db.iterator(IteratorMode::Start) {
        let (key, value) = record.map_err(|error| opening(place, &error))?;
        if *key == *NUMBER_KEY {
            let bytes = unseal(&key, &value).and_then(|bytes| bytes.try_into().ok());
            let unread = || corrupt("the number of its last batch cannot be read".to_owned());
            number = Some(u64::from_le_bytes(bytes.ok_or_else(unread)?));
        } else {
            records.push((key.into_vec(), value.into_vec()));
        }
    }
    let shorter = || {
        let reached = number.unwrap_or_default();
        corrupt(format!(
            "batches up to number {acknowledged} were acknowledged, and those after number {reached} cannot be read"
        ))
    };
    let recovered = match recovery::recover(place, records.into_iter()) {
        Err(LogError::Missing { .. }) if acknowledged > 0 => return Err(shorter()),
        recovered => recovered?,
    };
    let number =
        number.ok_or_else(|| corrupt("the number of its last batch is missing".to_owned()))?;
    if number < acknowledged {
        return Err(shorter());
    }
    Ok((number, recovered))
}

/// Makes a folder that a loss of power does not take.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the folder")]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        std::fs::create_dir_all(folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent)?;
        }
    }
    Ok(())
}

/// Where a log is put that is of no use any more.
fn aside(folder: &Path) -> PathBuf {
    let mut aside = folder.as_os_str().to_owned();
    aside.push(".removed");
    aside.into()
}

/// A folder takes the place of another, for good.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the folder")]
fn moved(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => fs::rename(from, to)?,
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), sync_folder)
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
    // Up to what cannot be read, whether the power cut it short or it was damaged: the extent says whether that was acknowledged. The other modes guess by how it
    // looks, and what a loss of power leaves of several pages may look like damage.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_manifest_preallocation_size(MANIFEST_BYTES);
    options.set_compression_type(DBCompressionType::None);
    // RocksDB goes on writing its diary after a write of that has failed, and takes that for a bug of its own: where assertions are built in, it aborts. So nothing is
    // written into it. A limit of its length would have it begin with the options all the same.
    options.set_log_level(LogLevel::Header);
    options.set_keep_log_file_num(DIARIES_KEPT);
    options
}

fn opening(place: &str, error: &rocksdb::Error) -> LogError {
    let (place, detail) = (place.to_owned(), error.to_string());
    match error.kind() {
        // First, as the path that is named may be called anything.
        _ if says_full(&detail) => LogError::opening(place, detail),
        RocksErrorKind::Corruption => LogError::Corrupt { place, detail },
        RocksErrorKind::IOError if detail.contains("LOCK") || detail.contains("lock") => {
            LogError::InUse { place, detail }
        }
        // RocksDB says so of files that it names and cannot find.
        RocksErrorKind::IOError if detail.contains("No such file") => {
            LogError::Corrupt { place, detail }
        }
        _ => LogError::opening(place, detail),
    }
}
