//! Reads a text, plain or compressed, one worker's share of its lines at a time.
//!
//! The text is cut into chunks of whole lines, and chunk k belongs to worker k modulo the number of
//! workers. Of a plain text each worker reads its own chunks only. A compressed stream has no middle to
//! start from, so every worker reads all of it, but looks at its own chunks only. `docs/shuffle.md` says
//! what is accepted.

pub(crate) mod block;
mod chunks;
mod error;
mod gzip_members;
mod lines;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod valid;
mod words;
mod zstd_frames;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr_iter;

use self::chunks::{Chunks, Content};
use self::source::{Decoder, Format};
use crate::error::JobError;
use crate::worker::Worker;

pub use self::error::{BinaryProblem, InputError, LineProblem};
pub use self::lines::{Line, Lines};
pub use self::words::Words;

/// Few enough bytes to stay in a core's cache and to spread a small text over the workers; enough that
/// the system calls for each do not matter.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// A file with a text, of which workers read shares.
///
/// It can be read many times, also at once from several threads.
#[derive(Debug)]
pub struct TextFile {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    format: Format,
    skip_limit: u64,
    skipped: AtomicU64,
}

/// Which of the chunks of a text a worker looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: usize,
    of: usize,
}

/// How a text is cut; tests cut finer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) chunk_bytes: usize,
    /// The longest line that is accepted, without its line end; shorter than a chunk.
    pub(crate) line_bytes_max: usize,
}

/// A chunk of a share.
pub(crate) struct Chunk<'c> {
    /// Whole lines, each with its line end. Who takes the buffer away leaves another one.
    pub(crate) bytes: &'c mut Vec<u8>,
    /// Where in the text it begins, in bytes.
    pub(crate) begin: u64,
}

impl TextFile {
    /// Opens the file and looks at its first bytes, which say how it is compressed: plain text, gzip or
    /// zstd. The name says nothing.
    ///
    /// # Errors
    /// [`InputError::CannotOpen`] if there is no such file, it may not be read, or it is a folder or a
    /// pipe; [`InputError::CannotRead`] if its first bytes cannot be had.
    pub fn open(path: &Path) -> Result<TextFile, InputError> {
        let (file, file_bytes) = open_regular(path)
            .map_err(|source| InputError::CannotOpen { path: path.to_owned(), source })?;
        let format = Format::of(&file)
            .map_err(|source| InputError::CannotRead { path: path.to_owned(), source })?;
        let (path, skipped) = (path.to_owned(), AtomicU64::new(0));
        Ok(TextFile { path, file, file_bytes, format, skip_limit: 0, skipped })
    }

    /// The same file, of which up to `limit` malformed lines are skipped and counted before the next one
    /// is an error. They are counted over all that is read through this value: where every worker opens
    /// the file, over a worker's share, and [`skipped_in_all`](Self::skipped_in_all) holds the job to
    /// the limit. A file that is damaged is an error in any case.
    #[must_use]
    pub fn skip_malformed(self, limit: u64) -> TextFile {
        TextFile { skip_limit: limit, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Malformed lines that were skipped so far, in all that was read through this value.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Malformed lines that all workers have skipped. An exchange, once each has read its share through a
    /// value of its own; `u64` has to be one of the job's types.
    ///
    /// # Errors
    /// [`InputError::TooManyMalformed`] if they are more than may be skipped, and what an exchange fails
    /// with.
    pub fn skipped_in_all(&self, worker: &Worker) -> Result<u64, JobError> {
        let found = worker.gather(self.skipped())?.iter().sum();
        if found > self.skip_limit {
            let (path, limit) = (self.path.clone(), self.skip_limit);
            return Err(InputError::TooManyMalformed { path, found, limit }.into());
        }
        Ok(found)
    }

    /// Bytes of the file as it lies on disk that are read when `workers` workers have each read their
    /// share: of a plain text what it has, of a compressed one that once for each.
    pub fn bytes_to_read(&self, workers: usize) -> u64 {
        match self.format {
            Format::Plain => self.file_bytes,
            Format::Gzip | Format::Zstd => self.file_bytes * workers as u64,
        }
    }

    /// The lines of the share, in the order of the file. A line has up to 1,048,575 bytes of UTF-8 and
    /// ends with `\n` or `\r\n`; the last one of the file may lack that.
    ///
    /// Adds to `file_bytes_read` what is read of the file, as it is read, so that another thread can
    /// draw how far it is: the counters of all shares together grow by
    /// [`bytes_to_read`](Self::bytes_to_read).
    ///
    /// The plan fails with [`InputError::CannotRead`] if the disk fails or the file is cut off or
    /// damaged, and with [`InputError::MalformedLine`] if a line is no text or too long and may not be
    /// [skipped](Self::skip_malformed); a line is looked at by the worker that it belongs to.
    pub fn lines<'f>(&'f self, share: Share, file_bytes_read: &'f AtomicU64) -> Lines<'f> {
        let cut = Cut { chunk_bytes: CHUNK_BYTES, line_bytes_max: CHUNK_BYTES - 1 };
        Lines { text: self, cut, share, file_bytes_read }
    }

    /// The words of a share: what is between white space as Unicode has it, as [`str::split_whitespace`] says, as keys. Lines are malformed where those of
    /// [`lines`](Self::lines) are, and end words as other white space does.
    pub fn words<'f>(&'f self, share: Share, file_bytes_read: &'f AtomicU64) -> Words<'f> {
        let Lines { text, cut, share, file_bytes_read } = self.lines(share, file_bytes_read);
        Words { text, cut, share, file_bytes_read }
    }

    /// Up to `bytes` bytes from the beginning of the text, which count as read by nobody.
    pub(crate) fn head(&self, bytes: u64) -> Result<Vec<u8>, InputError> {
        let mut head = Vec::new();
        let text = self.decoder(&AtomicU64::new(0)).take(bytes).read_to_end(&mut head);
        text.map(|_| head).map_err(|source| self.cannot_read(source))
    }

    /// Calls `each` with the chunks of the share, in the order of the file; it returns how many lines the
    /// chunk has. Returns how many the share has, malformed ones included.
    pub(crate) fn each_chunk<E: From<InputError>>(
        &self,
        cut: Cut,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(Chunk<'_>) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let mut chunks = Chunks::new(self.decoder(file_bytes_read), cut, share);
        let mut bytes = Vec::new();
        let mut lines = 0;
        while let Some(content) =
            chunks.next(&mut bytes).map_err(|source| self.cannot_read(source))?
        {
            let Content { begin, long_line } = content;
            let before =
                if bytes.is_empty() { 0 } else { each(Chunk { bytes: &mut bytes, begin })? };
            lines += before;
            if let Some(line) = long_line {
                let problem = LineProblem::TooLong { limit: cut.line_bytes_max };
                self.pass_over(begin, before, problem, &line)?;
                lines += 1;
            }
        }
        Ok(lines)
    }

    /// Skips a malformed line, if one more may be skipped: the one that comes `lines` lines behind what begins at `begin` of the text; `line` may have more behind it.
    #[cold]
    pub(crate) fn pass_over(
        &self,
        begin: u64,
        lines: u64,
        problem: LineProblem,
        line: &[u8],
    ) -> Result<(), InputError> {
        let one_more = |skipped| (skipped < self.skip_limit).then_some(skipped + 1);
        let counted = self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(drop).map_err(|_| self.malformed(begin, lines, problem, line))
    }

    /// The error that a malformed line is. Reads the text before it once more, to say which line it is: nobody else has to count lines.
    pub(crate) fn malformed(
        &self,
        begin: u64,
        lines: u64,
        problem: LineProblem,
        line: &[u8],
    ) -> InputError {
        let before = match self.lines_before(begin) {
            Ok(before) => before,
            Err(source) => return self.cannot_read(source),
        };
        let (path, found) = (self.path.clone(), error::excerpt(line));
        let skipped = self.skipped();
        InputError::MalformedLine { path, line: before + lines + 1, found, problem, skipped }
    }

    /// Line ends in the first `bytes` bytes of the text.
    fn lines_before(&self, bytes: u64) -> io::Result<u64> {
        let nobody = AtomicU64::new(0);
        let text = self.decoder(&nobody).take(bytes);
        let mut text = BufReader::with_capacity(CHUNK_BYTES, text);
        let mut lines = 0;
        loop {
            let part = text.fill_buf()?;
            if part.is_empty() {
                return Ok(lines);
            }
            lines += memchr_iter(b'\n', part).count() as u64;
            let read = part.len();
            text.consume(read);
        }
    }

    fn cannot_read(&self, source: io::Error) -> InputError {
        InputError::CannotRead { path: self.path.clone(), source }
    }

    fn decoder<'f>(&'f self, file_bytes_read: &'f AtomicU64) -> Decoder<'f> {
        Decoder::new(self.format, &self.file, self.file_bytes, file_bytes_read)
    }
}

impl Share {
    /// All of the file.
    pub const WHOLE: Share = Share { index: 0, of: 1 };

    /// The share of worker `index`, counted from 0, among `of` workers; none unless `index < of`.
    pub fn new(index: usize, of: usize) -> Option<Share> {
        (index < of).then_some(Share { index, of })
    }

    /// Which of `count` things are in the share, where each has a range of them: as many for each but for one.
    pub(crate) fn of_count(self, count: u64) -> Range<u64> {
        let start = |index: usize| (u128::from(count) * index as u128 / self.of as u128) as u64;
        start(self.index)..start(self.index + 1)
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
