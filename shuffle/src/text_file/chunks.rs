//! Cuts a text into chunks that end at line ends, the same for everybody who reads it.

use std::io::{self, Read};

use memchr::{memchr, memrchr};

/// Where the cuts are depends on the bytes of the text only, not on how many of them a read gives:
/// a chunk is as many whole lines as fit.
pub(super) struct Chunks<R> {
    source: R,
    chunk_bytes: usize,
    /// What of the next chunk is read already.
    ahead: Vec<u8>,
    /// Whether the last chunk was the beginning of a line, of which the rest is still to come.
    in_long_line: bool,
    ended: bool,
    bytes: u64,
}

/// What a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Whole lines, each with its line end; the last one gets one if the text lacks it.
    Lines,
    /// The beginning of a line that is longer than a chunk. Nobody gets the rest of it.
    LongLine,
}

impl<R: Read> Chunks<R> {
    /// The chunks of `source`, each of at most `chunk_bytes`.
    pub(super) fn new(source: R, chunk_bytes: usize) -> Chunks<R> {
        let ahead = Vec::new();
        Chunks { source, chunk_bytes, ahead, in_long_line: false, ended: false, bytes: 0 }
    }

    /// Puts the next chunk into `chunk`, whatever was in it; `None` at the end of the text.
    pub(super) fn next(&mut self, chunk: &mut Vec<u8>) -> io::Result<Option<Content>> {
        // Of a buffer that had a chunk, only what that lacked is cleared.
        chunk.resize(self.chunk_bytes, 0);
        if self.in_long_line {
            self.end_line(chunk)?;
        }
        let mut filled = self.ahead.len();
        chunk[..filled].copy_from_slice(&self.ahead);
        self.ahead.clear();
        while filled < chunk.len() && !self.ended {
            filled += self.read(&mut chunk[filled..])?;
        }
        chunk.truncate(filled);
        if self.ended && chunk.last().is_some_and(|byte| *byte != b'\n') {
            chunk.push(b'\n');
        }
        if chunk.is_empty() {
            return Ok(None);
        }
        let Some(last) = memrchr(b'\n', chunk) else {
            self.in_long_line = true;
            return Ok(Some(Content::LongLine));
        };
        self.ahead.extend_from_slice(&chunk[last + 1..]);
        chunk.truncate(last + 1);
        Ok(Some(Content::Lines))
    }

    /// Bytes of the text read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes to the end of the line that is longer than a chunk.
    fn end_line(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while self.in_long_line && !self.ended {
            let count = self.read(buffer)?;
            if let Some(end) = memchr(b'\n', &buffer[..count]) {
                self.ahead.extend_from_slice(&buffer[end + 1..count]);
                self.in_long_line = false;
            }
        }
        Ok(())
    }

    /// Reads something, or nothing at the end of the text.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.source.read(buffer) {
                Ok(count) => {
                    self.ended = count == 0;
                    self.bytes += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
