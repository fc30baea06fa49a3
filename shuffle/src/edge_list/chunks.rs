//! Cuts a text into chunks that end at line ends, the same for everybody who reads it.

use std::io::{self, Read};

use memchr::memrchr;

/// Where the cuts are depends on the bytes of the text only, not on how many of them a read gives:
/// a chunk is as many whole lines as fit.
pub(super) struct Chunks<R> {
    source: R,
    /// The chunk, what of the next one is read already, and a byte for a line end that is missing.
    buffer: Vec<u8>,
    chunk_end: usize,
    filled: usize,
    ended: bool,
    bytes: u64,
}

/// Why there is no next chunk.
#[derive(Debug)]
pub(super) enum CutError<'a> {
    /// The text cannot be read.
    Read(io::Error),
    /// No line ends in as many bytes as a chunk has.
    NoLineEnd { head: &'a [u8] },
}

impl<R: Read> Chunks<R> {
    /// The chunks of `source`, each of at most `chunk_bytes`.
    pub(super) fn new(source: R, chunk_bytes: usize) -> Chunks<R> {
        let buffer = vec![0; chunk_bytes + 1];
        Chunks { source, buffer, chunk_end: 0, filled: 0, ended: false, bytes: 0 }
    }

    /// The next chunk, which ends with a line end even if the text does not.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, CutError<'_>> {
        self.buffer.copy_within(self.chunk_end..self.filled, 0);
        self.filled -= self.chunk_end;
        self.chunk_end = 0;
        self.fill().map_err(CutError::Read)?;
        if self.filled == 0 {
            return Ok(None);
        }
        let text = &self.buffer[..self.filled];
        let last = memrchr(b'\n', text).ok_or(CutError::NoLineEnd { head: text })?;
        self.chunk_end = last + 1;
        Ok(Some(&text[..=last]))
    }

    /// Bytes of the text read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads until the buffer is full or the text ends, and ends the last line.
    fn fill(&mut self) -> io::Result<()> {
        let end = self.buffer.len() - 1;
        while self.filled < end && !self.ended {
            match self.source.read(&mut self.buffer[self.filled..end]) {
                Ok(count) => {
                    self.ended = count == 0;
                    self.filled += count;
                    self.bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.buffer[..self.filled].last().is_some_and(|byte| *byte != b'\n') {
            self.buffer[self.filled] = b'\n';
            self.filled += 1;
        }
        Ok(())
    }
}
