//! A folder with a file of each worker, which is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use weft_shuffle::{JobError, WorkerId};

use crate::args::Common;
use crate::part_name::{made, part_name};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The folder, by the name that it is asked for.
pub(crate) struct OutputFolder<'p> {
    path: &'p Path,
    /// Of which attempt, where several could be under way.
    attempt: Option<&'p str>,
}

/// The file of one worker.
pub(crate) struct PartFile {
    path: PathBuf,
    out: BufWriter<File>,
}

impl<'p> OutputFolder<'p> {
    pub(crate) fn new(path: &'p Path, common: &'p Common) -> OutputFolder<'p> {
        OutputFolder { path, attempt: common.part.as_deref() }
    }

    /// Makes the folder that workers write into, which is another one until it is whole.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        if self.path.symlink_metadata().is_ok() {
            bail!("{} is there already: give another name", self.path.display());
        }
        let part = part_name(self.path, self.attempt);
        made(&part, fs::create_dir(&part))
    }

    /// The output gets its name when it is whole, and is removed if it will not be.
    pub(crate) fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        let part = part_name(self.path, self.attempt);
        let named = match is_whole {
            // What was made there meanwhile is somebody else's.
            true => renameat_with(CWD, &part, CWD, self.path, RenameFlags::NOREPLACE),
            false => Ok(()),
        };
        if !is_whole || named.is_err() {
            // Why the job failed is told; this is of no use to anybody.
            let _ = fs::remove_dir_all(&part);
        }
        let path = self.path.display();
        if named == Err(Errno::EXIST) {
            bail!(
                "{path} was made by another while the job ran, and stays as it is; what the job made is removed: give another name, or remove that one, and run the job again"
            );
        }
        named.with_context(|| format!("cannot name {path}"))
    }

    /// Makes the file of a worker.
    pub(crate) fn create(&self, worker: WorkerId) -> anyhow::Result<PartFile> {
        let path = part_name(self.path, self.attempt).join(format!("part-{:05}", worker.0));
        let file = File::create_new(&path).with_context(|| cannot_write(&path))?;
        Ok(PartFile { path, out: BufWriter::with_capacity(WRITE_BYTES, file) })
    }
}

impl PartFile {
    /// Has `write` write something.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), JobError> {
        write(&mut self.out)
            .map_err(|error| JobError::Job(format!("{}: {error}", cannot_write(&self.path))))
    }

    /// All was written.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush().with_context(|| cannot_write(&self.path))
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
