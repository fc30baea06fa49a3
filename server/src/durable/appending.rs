//! A file that is appended to: how its bytes get to the disk.
//!
//! What is long goes there from where it lies, if that suits the disk. Through the system's memory of files it would be copied, pages would be got, written and
//! given back for it, and that took three fifths of the time of the thread of a log that is written behind, on cores that others serve on.
#![expect(clippy::disallowed_methods, reason = "the shell of the log: its files are here")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Advice, OFlags};

use crate::limits::{DIRECT_ALIGN, DIRECT_MIN};

/// When so many bytes were synced, the system is told that nobody will read them: only a node that starts does. So what it remembers of a log
/// stays small, and memory that is at hand is used again and again; memory that it has to get first, of the machine's host maybe, makes a
/// write several times slower.
const FORGET_BYTES: u64 = 1 << 20;

/// The system forgets whole pages; this is a multiple of their size, wherever Linux runs.
const PAGE_BYTES: u64 = 64 << 10;

/// A file that is appended to.
#[derive(Debug)]
pub(super) struct Appending {
    file: File,
    /// The same file, for what goes to the disk from where it lies; nothing if its file system cannot do that.
    direct: Option<File>,
    /// Its bytes.
    len: u64,
    /// How many of them the system was told that nobody will read.
    forgotten: u64,
}

impl Appending {
    /// `file`, which was opened for appending at `path`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(file: File, path: &Path) -> io::Result<Appending> {
        let len = file.metadata()?.len();
        let flags = OFlags::DIRECT.bits() as i32;
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).ok();
        Ok(Appending { file, direct, len, forgotten: 0 })
    }

    /// Writes `bytes` behind all that the file has.
    ///
    /// # Errors
    /// The system's: any part of them may be in the file.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match direct_part(self.len, bytes) {
            Some(part) if self.direct.is_some() => {
                self.append_cached(&bytes[..part.start])?;
                self.append_direct(&bytes[part.clone()])?;
                self.append_cached(&bytes[part.end..])
            }
            _ => self.append_cached(bytes),
        }
    }

    fn append_cached(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn append_direct(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(direct) = &self.direct else { return self.append_cached(bytes) };
            match direct.write_at(bytes, self.len) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.len += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Not in this file system, or not from memory such as this, or not from here on.
                Err(error) if error.kind() == ErrorKind::InvalidInput => self.direct = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes what was appended survive a crash.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.forget();
        Ok(())
    }

    /// What was synced need not be remembered.
    fn forget(&mut self) {
        // The last page is written to next, and would have to be read for that.
        let end = self.len - self.len % PAGE_BYTES;
        let len = end.saturating_sub(self.forgotten);
        if len >= FORGET_BYTES {
            // Only advice.
            let _ = rustix::fs::fadvise(
                &self.file,
                self.forgotten,
                NonZero::new(len),
                Advice::DontNeed,
            );
            self.forgotten = end;
        }
    }
}

/// Which part of `bytes`, that are to be written at `offset`, the disk can take from where it lies: whole blocks, if they are worth a write of their
/// own and lie in memory as they will in the file.
fn direct_part(offset: u64, bytes: &[u8]) -> Option<Range<usize>> {
    let align = DIRECT_ALIGN as u64;
    let start = (offset.next_multiple_of(align) - offset) as usize;
    let len = bytes.len().checked_sub(start)? / DIRECT_ALIGN * DIRECT_ALIGN;
    let is_aligned = bytes[start..].as_ptr().align_offset(DIRECT_ALIGN) == 0;
    (len >= DIRECT_MIN && is_aligned).then_some(start..start + len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of memory that starts `shift` behind a multiple of what a disk needs.
    fn shifted(memory: &mut Vec<u8>, shift: usize, content: &[u8]) -> Range<usize> {
        memory.reserve(content.len() + 3 * DIRECT_ALIGN);
        let start = memory.as_ptr().align_offset(DIRECT_ALIGN) + shift;
        memory.resize(start, 0);
        memory.extend_from_slice(content);
        start..start + content.len()
    }

    #[test]
    fn whole_blocks_that_lie_as_in_the_file_go_from_where_they_lie() {
        let mut memory = Vec::new();
        let at = shifted(&mut memory, 1000, &vec![1; DIRECT_MIN + 2 * DIRECT_ALIGN]);
        let bytes = &memory[at];
        let first = DIRECT_ALIGN - 1000;
        let blocks = (bytes.len() - first) / DIRECT_ALIGN * DIRECT_ALIGN;
        let offset = 7 * DIRECT_ALIGN as u64 + 1000;
        assert_eq!(direct_part(offset, bytes), Some(first..first + blocks));
        assert_eq!(direct_part(offset + 8, bytes), None);
        assert_eq!(direct_part(offset, &bytes[..DIRECT_MIN]), None);
        assert_eq!(direct_part(offset, &bytes[..first - 1]), None);
        assert_eq!(direct_part(0, &[]), None);
    }

    /// A disk refuses it; a file system in memory does not.
    #[test]
    fn what_cannot_go_from_where_it_lies_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut appending = Appending::new(file, &path).unwrap();
        let content: Vec<u8> = (0..DIRECT_MIN).map(|at| at as u8).collect();
        appending.append_direct(&content[1..1000]).unwrap();
        appending.append_direct(&content[1000..]).unwrap();
        assert_eq!(appending.len, content.len() as u64 - 1);
        assert!(std::fs::read(&path).unwrap() == content[1..]);
    }

    proptest! {
        #[test]
        fn a_file_has_what_was_appended_however_it_got_there(
            pieces in prop::collection::vec(
                (0_usize..3 * DIRECT_MIN, any::<bool>(), any::<u8>(), any::<bool>()),
                1..12,
            ),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let open = || OpenOptions::new().append(true).create(true).open(&path);
            let mut appending = Appending::new(open().unwrap(), &path).unwrap();
            let mut expected = Vec::new();
            for (len, is_aligned, first, is_synced) in pieces {
                let content: Vec<u8> = (0..len).map(|at| first.wrapping_add(at as u8)).collect();
                let mut memory = Vec::new();
                let shift = expected.len() + usize::from(!is_aligned) * 8;
                let at = shifted(&mut memory, shift % DIRECT_ALIGN, &content);
                appending.append(&memory[at]).unwrap();
                expected.extend_from_slice(&content);
                if is_synced {
                    appending.sync().unwrap();
                    // As by a node that starts again.
                    appending = Appending::new(open().unwrap(), &path).unwrap();
                }
                prop_assert_eq!(appending.len, expected.len() as u64);
            }
            prop_assert!(std::fs::read(&path).unwrap() == expected);
        }
    }
}
