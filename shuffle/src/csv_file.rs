//! Reads comma-separated values, a record a line, one worker's share of them at a time.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use csv::StringRecord;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter};
use serde::de::DeserializeOwned;

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::text_file::{CHUNK_BYTES, Chunk, Cut, InputError, LineProblem, Share, TextFile};
use crate::worker::Worker;

/// What a line may have, its line end not counted.
const CUT: Cut = Cut { chunk_bytes: CHUNK_BYTES, line_bytes_max: CHUNK_BYTES - 1 };

/// The longest line of names: more than any program writes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// A file of comma-separated values: plain, gzip or zstd, and shared out as [`TextFile`] says.
///
/// A line is a record. Fields may be quoted as RFC 4180 has it, and then have commas and quotes, but **no line breaks**: lines are read by several
/// workers, none of which knows what another one's line began. A record with one is malformed. Blank lines are skipped.
#[derive(Debug)]
pub struct CsvFile {
    text: TextFile,
    /// What the fields are called, if the first line says that.
    names: Option<StringRecord>,
}

/// See [`CsvFile::records`].
#[derive(Debug)]
pub struct CsvRecords<'f, T> {
    file: &'f CsvFile,
    share: Share,
    file_bytes_read: &'f AtomicU64,
    of: PhantomData<fn() -> T>,
}

impl CsvFile {
    /// Opens a file whose first line says what the fields are called: records become structs with fields of these names, in whatever
    /// order, or tuples.
    ///
    /// # Errors
    /// Those of [`TextFile::open`]; [`InputError::MalformedLine`] if the first line is none of such names, of at most 64 KiB, which is never skipped.
    pub fn open(path: &Path) -> Result<CsvFile, InputError> {
        let text = TextFile::open(path)?;
        let head = text.head(HEADER_BYTES_MAX as u64 + 1)?;
        let line = &head[..memchr(b'\n', &head).unwrap_or(head.len())];
        let mut names = StringRecord::new();
        let parsed = match line.len() {
            0..=HEADER_BYTES_MAX => Splitter::new().split(line, &mut names),
            _ => Err(LineProblem::TooLong { limit: HEADER_BYTES_MAX }),
        };
        parsed.map_err(|problem| text.malformed(0, 0, problem, line))?;
        Ok(CsvFile { text, names: Some(names) })
    }

    /// Opens a file whose first line is a record as the others are: records become tuples, or structs with as many fields in the same order.
    ///
    /// # Errors
    /// Those of [`TextFile::open`].
    pub fn open_without_names(path: &Path) -> Result<CsvFile, InputError> {
        Ok(CsvFile { text: TextFile::open(path)?, names: None })
    }

    /// The same file, of which up to `limit` malformed lines are skipped and counted; see [`TextFile::skip_malformed`].
    #[must_use]
    pub fn skip_malformed(self, limit: u64) -> CsvFile {
        CsvFile { text: self.text.skip_malformed(limit), ..self }
    }

    /// Malformed lines that were skipped so far, in all that was read through this value.
    pub fn skipped(&self) -> u64 {
        self.text.skipped()
    }

    /// Malformed lines that all workers have skipped, an exchange; see [`TextFile::skipped_in_all`].
    ///
    /// # Errors
    /// Those of [`TextFile::skipped_in_all`].
    pub fn skipped_in_all(&self, worker: &Worker) -> Result<u64, JobError> {
        self.text.skipped_in_all(worker)
    }

    /// See [`TextFile::bytes_to_read`].
    pub fn bytes_to_read(&self, workers: usize) -> u64 {
        self.text.bytes_to_read(workers)
    }

    /// The records of the share, in the order of the file, each made into a `T` by serde. What is read is added to `file_bytes_read`, as
    /// [`TextFile::lines`] does.
    ///
    /// The plan fails with [`InputError::CannotRead`] if the disk fails or the file is cut off or damaged, and with [`InputError::MalformedLine`] if a line may not be
    /// [skipped](Self::skip_malformed) that is no UTF-8, ends within quotes, has not as many fields as there are names, or is no `T`.
    pub fn records<'f, T: DeserializeOwned>(
        &'f self,
        share: Share,
        file_bytes_read: &'f AtomicU64,
    ) -> CsvRecords<'f, T> {
        CsvRecords { file: self, share, file_bytes_read, of: PhantomData }
    }

    fn each<T: DeserializeOwned, E: From<InputError>>(
        &self,
        cut: Cut,
        share: Share,
        file_bytes_read: &AtomicU64,
        mut each: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut splitter, mut fields) = (Splitter::new(), StringRecord::new());
        let read = self.text.each_chunk(cut, share, file_bytes_read, |Chunk { bytes, begin }| {
            let (mut start, mut lines) = (0, 0);
            for end in memchr_iter(b'\n', bytes) {
                let line = &bytes[start..end];
                let has_names = begin == 0 && start == 0 && self.names.is_some();
                if !has_names && !matches!(line, b"" | b"\r") {
                    let split = splitter.split(line, &mut fields);
                    match split.and_then(|()| self.record(&fields)) {
                        Ok(record) => each(record)?,
                        Err(problem) => {
                            self.text.pass_over(begin, lines, problem, &bytes[start..])?;
                        }
                    }
                }
                (start, lines) = (end + 1, lines + 1);
            }
            Ok::<_, E>(lines)
        });
        read.map(drop)
    }

    fn record<T: DeserializeOwned>(&self, fields: &StringRecord) -> Result<T, LineProblem> {
        if let Some(expected) = self.names.as_ref().map(StringRecord::len)
            && fields.len() != expected
        {
            return Err(LineProblem::OtherFieldCount { found: fields.len(), expected });
        }
        fields.deserialize(self.names.as_ref()).map_err(|error| {
            let field = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => err.field(),
                _ => None,
            };
            LineProblem::NotTheRecord { field: field.map(|index| index + 1) }
        })
    }
}

impl<T: DeserializeOwned> Dataset for CsvRecords<'_, T> {
    type Item = T;

    fn run(
        self,
        worker: &Worker,
        sink: impl FnMut(T) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        worker.has_read(self.file.text.path());
        self.file.each(CUT, self.share, self.file_bytes_read, sink)
    }
}

/// Splits lines into fields.
struct Splitter {
    reader: Reader,
    /// The fields, one behind the other, without quotes.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Splitter {
    fn new() -> Splitter {
        // A carriage return that ends no line is part of its field.
        let reader = ReaderBuilder::new().terminator(Terminator::Any(b'\n')).build();
        Splitter { reader, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Has `fields` be those of a line, of which the line end is left away.
    fn split(&mut self, line: &[u8], fields: &mut StringRecord) -> Result<(), LineProblem> {
        fields.clear();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        self.reader.reset();
        // Neither can be more than that.
        self.bytes.resize((line.len() + 2).max(self.bytes.len()), 0);
        self.ends.resize((line.len() + 2).max(self.ends.len()), 0);
        let (mut byte_count, mut end_count, mut is_whole) = (0, 0, false);
        // What ends the record is the line's end, unless quotes are open still.
        for input in [line, b"\n"] {
            let (result, _, bytes, ends) = self.reader.read_record(
                input,
                &mut self.bytes[byte_count..],
                &mut self.ends[end_count..],
            );
            (byte_count, end_count) = (byte_count + bytes, end_count + ends);
            is_whole = matches!(result, ReadRecordResult::Record);
        }
        if !is_whole {
            return Err(LineProblem::LineBreakInQuotes);
        }
        let mut start = 0;
        for end in &self.ends[..end_count] {
            let field = str::from_utf8(&self.bytes[start..*end]);
            fields.push_field(field.map_err(|_| LineProblem::NotUtf8)?);
            start = *end;
        }
        Ok(())
    }
}
