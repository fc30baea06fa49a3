//! Cuts a text into chunks of whole lines, the same for everybody who reads it.

use std::io::{self, Read as _};

use memchr::{memchr, memrchr};

use super::source::Decoder;
use super::{Cut, Share};

/// What is read at once to find the end of a line, in bytes: most lines are much shorter.
const PIECE_BYTES: usize = 4 << 10;

/// As much of a line that is too long as is given, in bytes: more than a message shows.
const LONG_LINE_BYTES: usize = 64;

/// The chunks of a share, one after the other.
///
/// Chunk k has the lines that begin in the k-th `chunk_bytes` of the text, so that who has a file that can be entered anywhere finds its chunks without a look
/// at those of the others; the last line of a chunk may end in the next.
pub(super) struct Chunks<'f> {
    source: Decoder<'f>,
    cut: Cut,
    share: Share,
    /// Which chunk is next.
    index: u64,
    /// Where in the text the source goes on.
    position: u64,
    /// What the source gave last, of which the next chunk may need something.
    ahead: Vec<u8>,
    ended: bool,
}

/// What a chunk has besides its lines.
#[derive(Debug)]
pub(super) struct Content {
    /// Where in the text its lines begin, in bytes.
    pub(super) begin: u64,
    /// The beginning of its last line where that is too long; nobody gets the rest of it.
    pub(super) long_line: Option<Vec<u8>>,
}

impl<'f> Chunks<'f> {
    /// The chunks of `share` among those of `source`, cut as `cut` says.
    pub(super) fn new(source: Decoder<'f>, cut: Cut, share: Share) -> Chunks<'f> {
        let index = share.index as u64;
        Chunks { source, cut, share, index, position: 0, ahead: Vec::new(), ended: false }
    }

    /// Puts the lines of the next chunk that has some into `lines`, whatever was in it, each with its line end; the last one of the text gets one if it lacks
    /// that. `None` at the end of the text.
    pub(super) fn next(&mut self, lines: &mut Vec<u8>) -> io::Result<Option<Content>> {
        loop {
            let chunk_bytes = self.cut.chunk_bytes as u64;
            let first = self.index.saturating_mul(chunk_bytes);
            let last = first.saturating_add(chunk_bytes - 1);
            self.index += self.share.of as u64;
            let begin = self.enter(first, last, lines)?;
            let content = match begin {
                Some(begin) => Some(Content { begin, long_line: self.take(begin, last, lines)? }),
                None => None,
            };
            self.source.count_chunk(first, chunk_bytes);
            match content {
                Some(content) if !lines.is_empty() || content.long_line.is_some() => {
                    return Ok(Some(content));
                }
                // Also where the lines of the text end just before.
                _ if self.ended && self.ahead.is_empty() => return Ok(None),
                _ => {}
            }
        }
    }

    /// Goes to the first line that begins from `first` to `last`, if one does: where that is. `lines` has what is read of it.
    fn enter(&mut self, first: u64, last: u64, lines: &mut Vec<u8>) -> io::Result<Option<u64>> {
        // A line begins behind a line end, or where the text does.
        let from = first.saturating_sub(1);
        self.go_to(from)?;
        lines.clear();
        lines.append(&mut self.ahead);
        if first == 0 {
            return Ok(Some(0));
        }
        let before_last = (last - from) as usize;
        let mut searched = 0;
        loop {
            let end = lines.len().min(before_last);
            if let Some(at) = memchr(b'\n', &lines[searched..end]) {
                let line_start = searched + at + 1;
                lines.drain(..line_start);
                return Ok(Some(from + line_start as u64));
            }
            searched = end;
            if searched == before_last {
                // It is all part of a line that began before, and the next chunk may begin behind its last byte.
                self.ahead.extend_from_slice(&lines[searched.min(lines.len())..]);
                lines.clear();
                return Ok(None);
            }
            if self.read(lines, PIECE_BYTES)? == 0 {
                lines.clear();
                return Ok(None);
            }
        }
    }

    /// Reads the lines that begin from `begin` to `last`, of which `lines` may have the beginning. Returns the last one if it is too long.
    fn take(&mut self, begin: u64, last: u64, lines: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let before_last = (last - begin) as usize;
        while lines.len() <= before_last && self.read(lines, before_last + 1 - lines.len())? > 0 {}
        let mut searched = before_last.min(lines.len());
        let line_start = memrchr(b'\n', &lines[..searched]).map_or(0, |end| end + 1);
        let line_end = loop {
            if let Some(at) = memchr(b'\n', &lines[searched..]) {
                break Some(searched + at);
            }
            searched = lines.len();
            let is_long = searched - line_start > self.cut.line_bytes_max;
            if is_long || self.read(lines, PIECE_BYTES)? == 0 {
                break None;
            }
        };
        self.ahead.extend_from_slice(&lines[before_last.min(lines.len())..]);
        lines.truncate(line_end.unwrap_or(lines.len()));
        let line = &lines[line_start..];
        if line.len() > self.cut.line_bytes_max {
            let long_line = line[..line.len().min(LONG_LINE_BYTES)].to_vec();
            lines.truncate(line_start);
            return Ok(Some(long_line));
        }
        if line_end.is_some() || !line.is_empty() {
            lines.push(b'\n');
        }
        Ok(None)
    }

    /// Has `ahead` begin at `position` of the text, or the source go on there.
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        let ahead_begins = self.position - self.ahead.len() as u64;
        let passed = position.saturating_sub(ahead_begins).min(self.ahead.len() as u64);
        self.ahead.drain(..passed as usize);
        let between = position.saturating_sub(self.position);
        if between > 0 && !self.ended {
            let skipped = self.source.skip(between)?;
            self.position += skipped;
            self.ended = skipped < between;
        }
        Ok(())
    }

    /// Reads up to `bytes_max` more into `lines`: how many it was, none at the end of the text.
    fn read(&mut self, lines: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let filled = lines.len();
        lines.resize(filled + bytes_max, 0);
        let count = loop {
            match self.source.read(&mut lines[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        lines.truncate(filled + count);
        self.position += count as u64;
        self.ended = count == 0;
        Ok(count)
    }
}
