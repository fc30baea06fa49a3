//! The lines of a text, as a dataset.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use memchr::memchr_iter;

use super::valid::each_text;
use super::{Chunk, Cut, InputError, Share, TextFile};
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::worker::Worker;

/// See [`TextFile::lines`].
#[derive(Debug)]
pub struct Lines<'f> {
    pub(super) text: &'f TextFile,
    pub(super) cut: Cut,
    pub(super) share: Share,
    pub(super) file_bytes_read: &'f AtomicU64,
}

/// A line of a text, without its line end.
///
/// It shares the chunk that it was read in, of up to 2 MiB, with the other lines of that: to keep it is
/// to keep them all, so who keeps a few of many copies these (`to_owned`).
pub struct Line {
    chunk: Rc<String>,
    start: usize,
    end: usize,
}

impl Deref for Line {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        &self.chunk[self.start..self.end]
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Dataset for Lines<'_> {
    type Item = Line;

    fn run(
        self,
        worker: &Worker,
        sink: impl FnMut(Line) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        worker.has_read(&self.text.path);
        self.each(sink)
    }
}

impl Lines<'_> {
    /// Calls `each` with the lines, in the order of the file.
    pub(super) fn each<E: From<InputError>>(
        self,
        mut each: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let Lines { text, cut, share, file_bytes_read } = self;
        let read = text.each_chunk(cut, share, file_bytes_read, |chunk| {
            let Chunk { bytes, begin } = chunk;
            match String::from_utf8(mem::take(bytes)) {
                Ok(lines) => {
                    let (count, lines) = each_line(lines, &mut each)?;
                    // Where a line is kept, the next chunk gets memory of its own.
                    *bytes = lines.map_or_else(Vec::new, String::into_bytes);
                    Ok(count)
                }
                Err(error) => {
                    *bytes = error.into_bytes();
                    // Copied, as they are no string where they are.
                    let each = |lines: &str| Ok(each_line(lines.to_owned(), &mut each)?.0);
                    each_text(text, begin, bytes, each)
                }
            }
        });
        read.map(|_| ())
    }
}

/// Calls `each` with the lines of `lines`, each of which has its line end. Returns how many they are, and
/// the string unless a line is kept.
#[inline]
fn each_line<E>(
    lines: String,
    each: &mut impl FnMut(Line) -> Result<(), E>,
) -> Result<(u64, Option<String>), E> {
    let chunk = Rc::new(lines);
    let (mut start, mut count) = (0, 0);
    for line_end in memchr_iter(b'\n', chunk.as_bytes()) {
        let has_return = chunk.as_bytes()[start..line_end].ends_with(b"\r");
        let end = line_end - usize::from(has_return);
        each(Line { chunk: Rc::clone(&chunk), start, end })?;
        start = line_end + 1;
        count += 1;
    }
    Ok((count, Rc::into_inner(chunk)))
}
