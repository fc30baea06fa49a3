//! Reads records that are all equally long, one behind the other in a file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::text_file::{InputError, open_regular};
use crate::worker::Worker;

/// Bytes that one system call asks for, about.
const READ_BYTES: usize = 1 << 20;

/// A file of records of `N` bytes. It can be read many times, also at once from several threads.
#[derive(Debug)]
pub struct RecordFile<const N: usize> {
    path: PathBuf,
    file: File,
    records: u64,
}

/// See [`RecordFile::records`].
#[derive(Debug)]
pub struct FileRecords<'f, const N: usize> {
    file: &'f RecordFile<N>,
    range: Range<u64>,
    bytes_read: &'f AtomicU64,
}

impl<const N: usize> RecordFile<N> {
    /// Opens the file.
    ///
    /// # Errors
    /// [`InputError::CannotOpen`] if there is no such file, it may not be read, or it is a folder or a pipe; [`InputError::PartialRecord`] if it does
    /// not end with a record.
    pub fn open(path: &Path) -> Result<RecordFile<N>, InputError> {
        let (file, file_bytes) = open_regular(path)
            .map_err(|source| InputError::CannotOpen { path: path.to_owned(), source })?;
        if file_bytes % N as u64 != 0 {
            let path = path.to_owned();
            return Err(InputError::PartialRecord { path, file_bytes, record_bytes: N });
        }
        Ok(RecordFile { path: path.to_owned(), file, records: file_bytes / N as u64 })
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Which of the records are one worker's, `index` of `of`: one range after the other, and as many for each but for one.
    pub fn share(&self, index: usize, of: usize) -> Range<u64> {
        let start = |index: usize| (u128::from(self.records) * index as u128 / of as u128) as u64;
        start(index)..start(index + 1)
    }

    /// The records of a range, in the order of the file. Adds to `bytes_read` what is read, as it is read.
    pub fn records<'f>(
        &'f self,
        range: Range<u64>,
        bytes_read: &'f AtomicU64,
    ) -> FileRecords<'f, N> {
        FileRecords { file: self, range, bytes_read }
    }

    /// Calls `each` with the records of a range.
    ///
    /// # Errors
    /// [`InputError::CannotRead`], and what `each` fails with.
    pub fn each<E: From<InputError>>(
        &self,
        range: Range<u64>,
        bytes_read: &AtomicU64,
        mut each: impl FnMut(&[u8; N]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at_once = (READ_BYTES / N).max(1) as u64;
        let mut buffer = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + at_once);
            buffer.resize((end - at) as usize * N, 0);
            self.file
                .read_exact_at(&mut buffer, at * N as u64)
                .map_err(|source| InputError::CannotRead { path: self.path.clone(), source })?;
            bytes_read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            let (records, _) = buffer.as_chunks::<N>();
            records.iter().try_for_each(&mut each)?;
            at = end;
        }
        Ok(())
    }
}

impl<const N: usize> Dataset for FileRecords<'_, N> {
    type Item = [u8; N];

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut([u8; N]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        worker.has_read(&self.file.path);
        self.file.each(self.range, self.bytes_read, |record| sink(*record))
    }
}
