//! The system's files, as the log uses them.
#![expect(clippy::disallowed_methods, reason = "the shell of the log: its files are here")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::appending::Appending;
use super::disk::{Disk, DiskError};

/// A directory of log files, which nobody else uses meanwhile.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The directory itself: locked, and synced after a file was made.
    itself: File,
    /// The file that was appended to last.
    open: Option<(String, Appending)>,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process has it, or another log of this one.
    #[error("{path} is used by another process: does this node run already?")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses it.
    #[error("cannot use {path} for the log: {error}")]
    Refused {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Directory {
    /// Opens a directory, which is made if it is not there, and locks it.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn open(path: &Path) -> Result<Directory, DirectoryError> {
        let refused = |error| DirectoryError::Refused { path: path.to_owned(), error };
        if !path.is_dir() {
            fs::create_dir_all(path).map_err(refused)?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent).and_then(|parent| parent.sync_all()).map_err(refused)?;
            }
        }
        let itself = File::open(path).map_err(refused)?;
        match rustix::fs::flock(&itself, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(DirectoryError::InUse { path: path.to_owned() });
            }
            Err(error) => return Err(refused(error.into())),
        }
        Ok(Directory { path: path.to_owned(), itself, open: None })
    }

    /// The file, to be appended to and synced.
    fn file(&mut self, what: &'static str, name: &str) -> Result<&mut Appending, DiskError> {
        let open = match self.open.take() {
            Some(open) if open.0 == name => open,
            _ => {
                let path = self.path.join(name);
                let file = OpenOptions::new().append(true).open(&path);
                let file = file.and_then(|file| Appending::new(file, &path));
                (name.to_owned(), file.map_err(|error| failed(what, name, &error))?)
            }
        };
        Ok(&mut self.open.insert(open).1)
    }

    /// A new file, with room on the disk for so many bytes.
    fn make(&self, name: &str, reserve_bytes: u64) -> io::Result<Appending> {
        let path = self.path.join(name);
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        // The file stays as long as what is written to it: an end that was never written is no end.
        let made = match rustix::fs::fallocate(
            &file,
            FallocateFlags::KEEP_SIZE,
            0,
            reserve_bytes.max(1),
        ) {
            // Some file systems cannot; then a full disk is met by a write, and is final.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Appending::new(file, &path),
            Err(error) => Err(error.into()),
        };
        if made.is_err() {
            fs::remove_file(&path)?;
        }
        made
    }
}

impl Disk for Directory {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        let entries = fs::read_dir(&self.path);
        let entries = entries.and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        let entries = entries.map_err(|error| failed("list", ".", &error))?;
        // What is no UTF-8 is none of ours.
        Ok(entries.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError> {
        let file = self.make(name, reserve_bytes).map_err(|error| failed("make", name, &error))?;
        self.open = Some((name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let file = self.file("write", name)?;
        file.append(bytes).map_err(|error| failed("write", name, &error))
    }

    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        let file = self.file("sync", name)?;
        file.sync().map_err(|error| failed("sync", name, &error))
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.itself.sync_all().map_err(|error| failed("sync", ".", &error))
    }

    fn trim(&mut self, name: &str) -> Result<(), DiskError> {
        let file = OpenOptions::new().append(true).open(self.path.join(name));
        file.and_then(|file| trim(&file)).map_err(|error| failed("trim", name, &error))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        fs::remove_file(self.path.join(name)).map_err(|error| failed("remove", name, &error))
    }

    fn settle(&mut self, name: &str) -> Result<(), DiskError> {
        let settle = || {
            let file = OpenOptions::new().append(true).open(self.path.join(name))?;
            trim(&file)?;
            file.sync_data()?;
            // Only advice: file systems in memory have nothing else to read from.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            Ok(())
        };
        settle().map_err(|error| failed("sync", name, &error))
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let read = || {
            let file = File::open(self.path.join(name))?;
            let mut filled = 0;
            while filled < into.len() {
                match file.read_at(&mut into[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        };
        let mut read = read;
        read().map_err(|error| failed("read", name, &error))
    }
}

/// Room that was kept behind a file's end is given back.
fn trim(file: &File) -> io::Result<()> {
    file.set_len(file.metadata()?.len())
}

fn failed(what: &'static str, name: &str, error: &io::Error) -> DiskError {
    let name = name.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            DiskError::Full
        }
        ErrorKind::AlreadyExists => DiskError::Exists { name },
        ErrorKind::NotFound => DiskError::Missing { name },
        _ => DiskError::Failed { what, name, error: error.to_string() },
    }
}
