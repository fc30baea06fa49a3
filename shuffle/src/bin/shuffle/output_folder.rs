//! A folder with a file of each worker, which is there whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use weft_shuffle::WorkerId;

/// The folder, by the name that it is asked for.
pub(crate) struct OutputFolder<'p>(pub(crate) &'p Path);

impl OutputFolder<'_> {
    /// Makes the folder that workers write into, which is another one until it is whole.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        if self.0.symlink_metadata().is_ok() {
            bail!("{} is there already: give another name", self.0.display());
        }
        let part = self.part();
        fs::create_dir(&part).with_context(|| match part.exists() {
            true => format!(
                "{}: another job is writing there, or one was killed: remove it",
                part.display()
            ),
            false => format!("cannot make {}", part.display()),
        })
    }

    /// The output gets its name when it is whole, and is removed if it will not be.
    pub(crate) fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        let part = self.part();
        let named = match is_whole {
            // What was made there meanwhile is somebody else's.
            true => renameat_with(CWD, &part, CWD, self.0, RenameFlags::NOREPLACE),
            false => Ok(()),
        };
        if !is_whole || named.is_err() {
            // Why the job failed is told; this is of no use to anybody.
            let _ = fs::remove_dir_all(&part);
        }
        named.with_context(|| format!("cannot name {}", self.0.display()))
    }

    /// The file of a worker.
    pub(crate) fn file_of(&self, worker: WorkerId) -> PathBuf {
        self.part().join(format!("part-{:05}", worker.0))
    }

    /// Where the output is made.
    fn part(&self) -> PathBuf {
        // Without a slash at its end.
        let output: PathBuf = self.0.components().collect();
        let mut name = OsString::from(output);
        name.push(".part");
        name.into()
    }
}
