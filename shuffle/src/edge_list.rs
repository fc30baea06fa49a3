//! Reads a graph in the text format of SNAP, one worker's share of it at a time.
//!
//! The text is cut into chunks that end at line ends, and chunk k belongs to worker k modulo the
//! number of workers. A compressed stream has no middle to start from, so every worker reads all of
//! it; but it parses its own chunks only, which is what costs, and counts the lines of the others, so
//! that an error names the line. `docs/shuffle.md` says what is accepted.

mod chunks;
mod error;
mod gzip_members;
mod line;
mod source;
#[cfg(test)]
mod tests;
mod zstd_frames;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use memchr::memchr_iter;

use self::chunks::{Chunks, CutError};
use self::line::Malformed;
use self::source::{CountedFile, Decoder, Format};

pub use self::error::{InputError, LineProblem};

/// Few enough bytes to stay in a core's cache and to spread a small graph over the workers; enough that
/// a system call for each does not matter.
const CHUNK_BYTES: usize = 1 << 20;

/// Far more than two numbers need, and room for the columns that some graphs add. A longer line is
/// hardly one of an edge list.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How Matrix Market's files begin.
const MATRIX_MARKET: &[u8] = b"%%MatrixMarket";

/// A file with an edge a line: a source vertex and a target vertex, in decimal.
///
/// It can be read many times, also at once from several threads.
#[derive(Debug)]
pub struct EdgeList {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    format: Format,
}

/// Which of the chunks of a text a worker parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: usize,
    of: usize,
}

/// What was read for one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Edges of the share.
    pub edges: u64,
    /// Lines of the share: edges, comments and blank ones.
    pub lines: u64,
    /// Bytes of the whole text, decompressed; the same for every share.
    pub bytes: u64,
}

/// How the text is cut; tests cut finer.
#[derive(Clone, Copy, Debug)]
struct Cut {
    chunk_bytes: usize,
    line_bytes_max: usize,
}

impl EdgeList {
    /// Opens the file and looks at its first bytes, which say how it is compressed: plain text, gzip or
    /// zstd. The name says nothing.
    ///
    /// # Errors
    /// [`InputError::CannotOpen`] if there is no such file, it may not be read, or it is a folder or a
    /// pipe; [`InputError::CannotRead`] if its first bytes cannot be had.
    pub fn open(path: &Path) -> Result<EdgeList, InputError> {
        let (file, file_bytes) = open_regular(path)
            .map_err(|source| InputError::CannotOpen { path: path.to_owned(), source })?;
        let format = Format::of(&file)
            .map_err(|source| InputError::CannotRead { path: path.to_owned(), source })?;
        Ok(EdgeList { path: path.to_owned(), file, file_bytes, format })
    }

    /// Bytes of the file as it lies on disk, compressed or not: what the counter given to
    /// [`edges`](Self::edges) grows by in a whole run.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Calls `each` with source and target of every edge of the share, in the order of the file.
    ///
    /// Adds to `file_bytes_read` what is read of the file, as it is read, so that another thread can
    /// draw how far it is: workers that share a counter have read all when it has grown by
    /// [`file_bytes`](Self::file_bytes) times the number of them.
    ///
    /// # Errors
    /// [`InputError::CannotRead`] if the disk fails or the file is cut off or damaged, and
    /// [`InputError::MalformedLine`] if a line is no edge; a line is looked at by the worker that it
    /// belongs to. `each` has then been called for the edges before.
    pub fn edges(
        &self,
        share: Share,
        file_bytes_read: &AtomicU64,
        each: impl FnMut(u64, u64),
    ) -> Result<Summary, InputError> {
        let cut = Cut { chunk_bytes: CHUNK_BYTES, line_bytes_max: LINE_BYTES_MAX };
        self.edges_cut(cut, share, file_bytes_read, each)
    }

    fn edges_cut(
        &self,
        cut: Cut,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Summary, InputError> {
        let source = Decoder::new(self.format, CountedFile::new(&self.file, file_bytes_read));
        let mut chunks = Chunks::new(source, cut.chunk_bytes);
        let mut summary = Summary::default();
        let mut lines_before = 0;
        let mut owner = 0;
        loop {
            let chunk = match chunks.next() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(CutError::Read(source)) => {
                    return Err(InputError::CannotRead { path: self.path.clone(), source });
                }
                Err(CutError::NoLineEnd { head }) => {
                    let limit = cut.line_bytes_max;
                    let problem = LineProblem::TooLong { limit };
                    return Err(self.malformed(lines_before, problem, head));
                }
            };
            if lines_before == 0 && chunk.starts_with(MATRIX_MARKET) {
                return Err(self.malformed(0, LineProblem::MatrixMarket, chunk));
            }
            if owner == share.index {
                let parsed = line::parse(chunk, cut.line_bytes_max, &mut each).map_err(
                    |Malformed { lines_before: in_chunk, problem, line }| {
                        self.malformed(lines_before + in_chunk, problem, line)
                    },
                )?;
                summary.edges += parsed.edges;
                summary.lines += parsed.lines;
                lines_before += parsed.lines;
            } else {
                lines_before += memchr_iter(b'\n', chunk).count() as u64;
            }
            owner = (owner + 1) % share.of;
        }
        summary.bytes = chunks.bytes();
        Ok(summary)
    }

    fn malformed(&self, lines_before: u64, problem: LineProblem, line: &[u8]) -> InputError {
        let found = error::excerpt(line);
        InputError::MalformedLine {
            path: self.path.clone(),
            line: lines_before + 1,
            found,
            problem,
        }
    }
}

impl Share {
    /// All of the file.
    pub const WHOLE: Share = Share { index: 0, of: 1 };

    /// The share of worker `index`, counted from 0, among `of` workers; none unless `index < of`.
    pub fn new(index: usize, of: usize) -> Option<Share> {
        (index < of).then_some(Share { index, of })
    }
}

/// The file, if it is one that every worker can read from its beginning, and its size in bytes. Looks
/// before it opens, because opening a pipe waits for a writer.
#[expect(clippy::disallowed_methods, reason = "the shell that reads the input")]
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((File::open(path)?, metadata.len()))
}
