//! States in files of a folder.

#![expect(clippy::disallowed_methods, reason = "the shell that keeps states in files")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_object::Record;

use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

/// A folder in which a state is a file.
pub(super) struct Folder {
    path: PathBuf,
    spilling: Spilling,
}

impl Folder {
    pub(super) fn new(path: PathBuf, spilling: &Spilling) -> Folder {
        let spilling = spilling.elsewhere(path.clone());
        Folder { path, spilling }
    }

    /// The names of what is there.
    pub(super) fn names(&self) -> Result<Vec<String>, JobError> {
        let entries = fs::read_dir(&self.path).map_err(|error| self.failed(error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.failed(error))?;
            names.extend(entry.file_name().into_string().ok());
        }
        Ok(names)
    }

    pub(super) fn write<R: Record>(&self, name: &str, records: &[R]) -> Result<(), JobError> {
        let path = self.path.join(name);
        // Until it is whole, it has a name that is none.
        let part = path.with_extension("part");
        self.write_to(&part, records).map_err(|error| self.of_file(error))?;
        fs::rename(&part, &path).map_err(|error| self.failed(error))
    }

    pub(super) fn read<R: Record>(&self, name: &str) -> Result<Vec<R>, JobError> {
        let path = self.path.join(name);
        let file = Arc::new(File::open(path).map_err(|error| self.failed(error))?);
        let damaged = || self.failed(io::ErrorKind::InvalidData.into());
        let bytes = file.metadata().map_err(|error| self.failed(error))?.len();
        let mut count = [0; size_of::<u64>()];
        let end = bytes.checked_sub(count.len() as u64).ok_or_else(damaged)?;
        file.read_exact_at(&mut count, end).map_err(|error| self.failed(error))?;
        let spilled = SpillFile::of_file(self.spilling.clone(), Arc::clone(&file));
        let mut run = spilled.read(Run::up_to(file, end));
        let mut records = Vec::new();
        while let Some(record) = run.next()? {
            records.push(record);
        }
        let is_whole = records.len() as u64 == u64::from_le_bytes(count);
        if is_whole { Ok(records) } else { Err(damaged()) }
    }

    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }

    fn write_to<R: Record>(&self, path: &Path, records: &[R]) -> Result<(), JobError> {
        let file = Arc::new(File::create(path).map_err(|error| self.failed(error))?);
        let mut spilled = SpillFile::of_file(self.spilling.clone(), Arc::clone(&file));
        let mut run = spilled.begin();
        records.iter().try_for_each(|record| run.push(record))?;
        let run = run.finish()?;
        // Behind it, how many records there are: a file that was cut off has fewer.
        let count = records.len() as u64;
        file.write_all_at(&count.to_le_bytes(), run.bytes()).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> JobError {
        JobError::Checkpoint { folder: self.path.clone(), error }
    }

    /// The same of a file's own errors.
    fn of_file(&self, error: JobError) -> JobError {
        match error {
            JobError::Spill { error, .. } => self.failed(error),
            other => other,
        }
    }
}
