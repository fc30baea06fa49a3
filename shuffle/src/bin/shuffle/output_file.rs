//! A file that is there whole, or as it was before.

use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::args::Common;
use crate::part_name::{made, part_name};

/// The file, by the name that it is asked for.
pub(crate) struct OutputFile<'p> {
    path: &'p Path,
    /// Of which attempt, where several could be under way.
    attempt: Option<&'p str>,
}

/// What is written to.
enum Place {
    /// Another file beside the one that is meant, and gets its name when it is whole.
    Beside { part: PathBuf, output: PathBuf },
    /// What is no file, such as a pipe, and cannot be another one meanwhile.
    Itself,
}

impl<'p> OutputFile<'p> {
    pub(crate) fn new(path: &'p Path, common: &'p Common) -> OutputFile<'p> {
        Self::of_attempt(path, common.part.as_deref())
    }

    /// The same of an attempt, where several could be under way.
    pub(crate) fn of_attempt(path: &'p Path, attempt: Option<&'p str>) -> OutputFile<'p> {
        OutputFile { path, attempt }
    }

    /// What no single path can show: what `flag` gives must not be what `other` gives, an input, under whatever name.
    pub(crate) fn check_input(&self, flag: &str, other: &str, input: &Path) -> Result<(), String> {
        let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let Some(input_file) = identity(input) else { return Ok(()) };
        let mut written = vec![self.path.to_owned()];
        if let Place::Beside { part, .. } = self.place() {
            written.push(part);
        }
        match written.iter().find(|path| identity(path) == Some(input_file)) {
            Some(path) => Err(format!(
                "{flag} {}: {} is the same file as {other} {}: the one would replace the other",
                self.path.display(),
                path.display(),
                input.display(),
            )),
            None => Ok(()),
        }
    }

    /// The file that is made, unless it is written to as it is.
    pub(crate) fn made(&self) -> Option<PathBuf> {
        match self.place() {
            Place::Beside { output, .. } => Some(output),
            Place::Itself => None,
        }
    }

    /// Looks whether it can be written to, and makes what is written until it is whole.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        match self.place() {
            Place::Beside { part, output } => {
                if output.exists() {
                    self.open()?;
                }
                let file =
                    made(&part, File::create_new(&part)).with_context(|| self.cannot_write())?;
                if let Ok(metadata) = output.metadata() {
                    // Who may read the file that it takes the place of may read this one.
                    file.set_permissions(metadata.permissions())
                        .with_context(|| self.cannot_write())?;
                }
                Ok(())
            }
            // Who reads from a pipe would take this for its end.
            Place::Itself if is_pipe(self.path) => Ok(()),
            Place::Itself => self.open().map(drop),
        }
    }

    /// What was written gets the name when it is whole, and is removed if it will not be.
    pub(crate) fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        let Place::Beside { part, output } = self.place() else { return Ok(()) };
        let named = match is_whole {
            true => fs::rename(&part, &output),
            false => Ok(()),
        };
        if !is_whole || named.is_err() {
            // Why the job failed is told; this is of no use to anybody.
            let _ = fs::remove_file(&part);
        }
        named.with_context(|| self.cannot_write())
    }

    /// What is to be written.
    pub(crate) fn create(&self) -> anyhow::Result<BufWriter<File>> {
        let file = match self.place() {
            // It is there, but for what an earlier attempt has written.
            Place::Beside { part, .. } => {
                File::create(part).with_context(|| self.cannot_write())?
            }
            Place::Itself => self.open()?,
        };
        Ok(BufWriter::new(file))
    }

    pub(crate) fn cannot_write(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    fn open(&self) -> anyhow::Result<File> {
        let opened = OpenOptions::new().append(true).open(self.path);
        opened.with_context(|| self.cannot_write())
    }

    fn place(&self) -> Place {
        // Where a link leads to, so that it leads there still.
        let output =
            fs::canonicalize(self.path).unwrap_or_else(|_| match fs::read_link(self.path) {
                Ok(target) => {
                    self.path.parent().map_or(target.clone(), |folder| folder.join(target))
                }
                Err(_) => self.path.to_owned(),
            });
        // What ends with a slash is a folder, if it is anything.
        let is_folder = output.as_os_str().as_encoded_bytes().ends_with(b"/");
        match output.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => Place::Itself,
            Err(_) if is_folder => Place::Itself,
            _ => Place::Beside { part: part_name(&output, self.attempt), output },
        }
    }
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}
