//! Reads a graph, in the text format of SNAP or as numbers, one worker's share of it at a time.
//!
//! How a text is shared out is `text_file`'s; `docs/shuffle.md` says what is accepted.

pub(crate) mod binary;
mod line;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::AtomicU64;

use weft_object::Pair;

use self::binary::BinaryEdges;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::text_file::{CHUNK_BYTES, Chunk, Cut, InputError, LineProblem, Share, TextFile};
use crate::worker::Worker;

/// Far more than two numbers need, and room for the columns that some graphs add. A longer line is
/// hardly one of an edge list.
const LINE_BYTES_MAX: usize = 64 << 10;

const CUT: Cut = Cut { chunk_bytes: CHUNK_BYTES, line_bytes_max: LINE_BYTES_MAX };

/// How Matrix Market's files begin.
const MATRIX_MARKET: &[u8] = b"%%MatrixMarket";

/// As much of a text as tells a file of Matrix Market, and more than a message shows of a line.
const HEAD_BYTES: u64 = 64;

/// A file of edges, each a source vertex and a target vertex: one a line, in decimal, or all as numbers of 32 or 64
/// bits (`docs/shuffle.md` draws that format). The first bytes of the file tell which it is.
///
/// It can be read many times, also at once from several threads.
#[derive(Debug)]
pub struct EdgeList {
    edges: Form,
}

#[derive(Debug)]
enum Form {
    Text(TextFile),
    Binary(BinaryEdges),
}

/// See [`EdgeList::records`].
#[derive(Debug)]
pub struct Edges<'f> {
    list: &'f EdgeList,
    share: Share,
    file_bytes_read: &'f AtomicU64,
}

/// What was read for one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Edges of the share.
    pub edges: u64,
    /// Lines of the share: edges, comments, blank ones, and malformed ones that were skipped. A binary file has none.
    pub lines: u64,
}

impl EdgeList {
    /// Opens the file; see [`TextFile::open`].
    ///
    /// # Errors
    /// Those of [`TextFile::open`], and [`InputError::MalformedBinary`] if the file begins as a binary edge list does, and is not one
    /// to its end.
    pub fn open(path: &Path) -> Result<EdgeList, InputError> {
        let edges = match BinaryEdges::open(path)? {
            Some(edges) => Form::Binary(edges),
            None => Form::Text(TextFile::open(path)?),
        };
        Ok(EdgeList { edges })
    }

    fn path(&self) -> &Path {
        match &self.edges {
            Form::Text(text) => text.path(),
            Form::Binary(edges) => edges.path(),
        }
    }

    /// The same file, of which up to `limit` malformed lines are skipped and counted; see
    /// [`TextFile::skip_malformed`]. The first line of a Matrix Market file is never skipped, and of a binary file there is nothing that
    /// could be.
    #[must_use]
    pub fn skip_malformed(self, limit: u64) -> EdgeList {
        let edges = match self.edges {
            Form::Text(text) => Form::Text(text.skip_malformed(limit)),
            Form::Binary(edges) => Form::Binary(edges),
        };
        EdgeList { edges }
    }

    /// Malformed lines that were skipped so far, in all that was read through this value.
    pub fn skipped(&self) -> u64 {
        match &self.edges {
            Form::Text(text) => text.skipped(),
            Form::Binary(_) => 0,
        }
    }

    /// Malformed lines that all workers have skipped, an exchange; see [`TextFile::skipped_in_all`].
    ///
    /// # Errors
    /// Those of [`TextFile::skipped_in_all`].
    pub fn skipped_in_all(&self, worker: &Worker) -> Result<u64, JobError> {
        match &self.edges {
            Form::Text(text) => text.skipped_in_all(worker),
            // An exchange all the same: who finds another file by the name has one.
            Form::Binary(_) => Ok(worker.gather(0_u64)?.iter().sum()),
        }
    }

    /// What the counters given to [`edges`](Self::edges) by `workers` workers grow by together; see
    /// [`TextFile::bytes_to_read`]. Of a binary file, the bytes of its edges.
    pub fn bytes_to_read(&self, workers: usize) -> u64 {
        match &self.edges {
            Form::Text(text) => text.bytes_to_read(workers),
            Form::Binary(edges) => edges.bytes(),
        }
    }

    /// Calls `each` with source and target of every edge of the share, in the order of the file.
    ///
    /// Adds to `file_bytes_read` what is read of the file, as it is read, so that another thread can
    /// draw how far it is: the counters of all shares together grow by
    /// [`bytes_to_read`](Self::bytes_to_read).
    ///
    /// # Errors
    /// [`InputError::CannotRead`] if the disk fails or the file is cut off or damaged, and
    /// [`InputError::MalformedLine`] if a line is no edge and may not be
    /// [skipped](Self::skip_malformed); a line is looked at by the worker that it belongs to. `each` has
    /// then been called for the edges before.
    pub fn edges(
        &self,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Summary, InputError> {
        self.edges_cut(CUT, share, file_bytes_read, |source, target| {
            each(source, target);
            Ok(())
        })
    }

    /// The edges of the share as records, whose keys are the sources; see [`edges`](Self::edges).
    pub fn records<'f>(&'f self, share: Share, file_bytes_read: &'f AtomicU64) -> Edges<'f> {
        Edges { list: self, share, file_bytes_read }
    }

    fn edges_cut<E: From<InputError>>(
        &self,
        cut: Cut,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let text = match &self.edges {
            Form::Text(text) => text,
            Form::Binary(edges) => {
                let edges = edges.each(share, file_bytes_read, each)?;
                return Ok(Summary { edges, lines: 0 });
            }
        };
        let head = text.head(HEAD_BYTES)?;
        if head.starts_with(MATRIX_MARKET) {
            return Err(text.malformed(0, 0, LineProblem::MatrixMarket, &head).into());
        }
        let mut edges = 0;
        let lines = text.each_chunk(cut, share, file_bytes_read, |chunk| {
            let Chunk { bytes, begin } = chunk;
            let skip = |lines_of_chunk, problem, line: &[u8]| {
                Ok(text.pass_over(begin, lines_of_chunk, problem, line)?)
            };
            let parsed = line::parse(bytes, cut.line_bytes_max, &mut each, skip)?;
            edges += parsed.edges;
            Ok::<_, E>(parsed.lines)
        })?;
        Ok(Summary { edges, lines })
    }
}

impl Dataset for Edges<'_> {
    type Item = Pair<u64, u64>;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(Pair<u64, u64>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        worker.has_read(self.list.path());
        let Edges { list, share, file_bytes_read } = self;
        let read =
            list.edges_cut(CUT, share, file_bytes_read, |key, value| sink(Pair { key, value }));
        read.map(drop)
    }
}
