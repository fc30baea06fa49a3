//! Records that memory has no room for, in a file that has no name.
//!
//! They lie there as they are sent: segments, written from where the records were put. Whoever is killed leaves nothing, as the system
//! gives a file without a name back with the last process that has it open.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_object::{AlignedBytes, Record, Segment, Types, View};
use weft_transport::Memory;

use crate::budget::{Budget, Taken};
use crate::error::JobError;
use crate::filling::{Fill as _, Filling, records_of};

/// Bytes of the records of a segment: what is read at once of each of the runs that are merged.
const SEGMENT_BYTES: usize = 256 << 10;

/// Length and checksum of a segment, ahead of it.
const FRAME_BYTES: usize = 16;

/// Where what a worker spills goes, and what it needs for that.
#[derive(Clone, Debug)]
pub(crate) struct Spilling {
    folder: PathBuf,
    memory: Memory,
    types: Types,
    pub(crate) budget: Budget,
    bytes_spilled: Arc<AtomicU64>,
}

/// A file of runs, made when the first is written.
#[derive(Debug)]
pub(crate) struct SpillFile<R> {
    spilling: Spilling,
    file: Option<Arc<File>>,
    end: u64,
    records: PhantomData<R>,
}

/// Records that were written one behind the other.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    file: Arc<File>,
    start: u64,
    end: u64,
}

/// Writes a run.
pub(crate) struct RunWriter<'f, R: Record> {
    into: &'f mut SpillFile<R>,
    start: u64,
    filling: Filling<R>,
}

/// Reads a run, a segment at a time.
#[derive(Debug)]
pub(crate) struct RunReader<R> {
    spilling: Spilling,
    run: Run,
    records: std::vec::IntoIter<R>,
    /// For two segments: as it lies in the file, and its records.
    _taken: Taken,
}

impl Spilling {
    pub(crate) fn new(folder: PathBuf, memory: Memory, types: Types, budget: Budget) -> Spilling {
        Spilling { folder, memory, types, budget, bytes_spilled: Arc::default() }
    }

    /// With room for so many bytes beside registered memory, and for as many, or 4 MiB, of what is required.
    #[cfg(test)]
    pub(crate) fn with_room(bytes: u64, types: Types) -> Spilling {
        let limit_bytes = 64 << 20;
        let memory = Memory::new(weft_transport::MemoryConfig { limit_bytes }).unwrap();
        let budget = Budget::new(memory.clone(), memory.account().resident_bytes + bytes)
            .with_process_limit(bytes.max(4 << 20));
        Spilling::new("/tmp".into(), memory, types, budget)
    }

    /// The same in another folder, and counted apart.
    pub(crate) fn elsewhere(&self, folder: PathBuf) -> Spilling {
        Spilling { folder, bytes_spilled: Arc::default(), ..self.clone() }
    }

    /// What segments are made of, and what they may hold.
    pub(crate) fn memory_and_types(&self) -> (Memory, Types) {
        (self.memory.clone(), self.types.clone())
    }

    /// Bytes that were written so far.
    pub(crate) fn bytes_spilled(&self) -> u64 {
        self.bytes_spilled.load(Ordering::Relaxed)
    }

    /// What counts them.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_spilled)
    }

    fn failed(&self, error: io::Error) -> JobError {
        JobError::Spill { folder: self.folder.clone(), error }
    }

    pub(crate) fn damaged(&self) -> JobError {
        let text = "what was written there is not what is read now";
        self.failed(io::Error::new(ErrorKind::InvalidData, text))
    }
}

impl<R: Record> SpillFile<R> {
    pub(crate) fn new(spilling: Spilling) -> SpillFile<R> {
        SpillFile { spilling, file: None, end: 0, records: PhantomData }
    }

    /// One that has a name.
    pub(crate) fn of_file(spilling: Spilling, file: Arc<File>) -> SpillFile<R> {
        SpillFile { spilling, file: Some(file), end: 0, records: PhantomData }
    }

    /// Begins a run behind the others.
    pub(crate) fn begin(&mut self) -> RunWriter<'_, R> {
        RunWriter { start: self.end, into: self, filling: Filling::new() }
    }

    /// The records of a run, in their order.
    pub(crate) fn read(&self, run: Run) -> RunReader<R> {
        let taken = self.spilling.budget.take_anyway(2 * SEGMENT_BYTES as u64);
        let (spilling, records) = (self.spilling.clone(), Vec::new().into_iter());
        RunReader { spilling, run, records, _taken: taken }
    }

    fn file(&mut self) -> Result<Arc<File>, JobError> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = tempfile::tempfile_in(&self.spilling.folder);
        let file = Arc::new(file.map_err(|error| self.spilling.failed(error))?);
        Ok(Arc::clone(self.file.insert(file)))
    }

    /// Changes a byte of it.
    #[cfg(test)]
    pub(crate) fn damage(&self, at: u64) {
        let (file, mut byte) = (self.file.as_ref().unwrap(), [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    }

    fn append_segment(&mut self, segment: &Segment) -> Result<(), JobError> {
        let (head, pages) = (segment.head(), segment.pages());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(head), pages);
        let mut frame = [0; FRAME_BYTES];
        frame[..8].copy_from_slice(&((head.len() + pages.len()) as u64).to_le_bytes());
        frame[8..12].copy_from_slice(&checksum.to_le_bytes());
        self.append(&[&frame, head].concat())?;
        self.append(pages)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let file = self.file()?;
        file.write_all_at(bytes, self.end).map_err(|error| self.spilling.failed(error))?;
        self.end += bytes.len() as u64;
        self.spilling.bytes_spilled.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Run {
    /// What a file has from its beginning up to `end`.
    pub(crate) fn up_to(file: Arc<File>, end: u64) -> Run {
        Run { file, start: 0, end }
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

impl<R: Record> RunWriter<'_, R> {
    #[inline]
    pub(crate) fn push(&mut self, record: &R) -> Result<(), JobError> {
        if self.filling.push(record) { Ok(()) } else { self.push_to_next(record) }
    }

    /// The run, which is whole.
    pub(crate) fn finish(mut self) -> Result<Run, JobError> {
        self.write()?;
        let file = self.into.file()?;
        Ok(Run { file, start: self.start, end: self.into.end })
    }

    #[cold]
    fn push_to_next(&mut self, record: &R) -> Result<(), JobError> {
        self.write()?;
        let Spilling { memory, types, .. } = &self.into.spilling;
        self.filling.begin(record, memory, types, SEGMENT_BYTES)
    }

    fn write(&mut self) -> Result<(), JobError> {
        match self.filling.take() {
            Some(segment) => self.into.append_segment(&segment),
            None => Ok(()),
        }
    }
}

impl<R: Record> RunReader<R> {
    /// The next record, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<R>, JobError> {
        match self.records.next() {
            Some(record) => Ok(Some(record)),
            None => self.read(),
        }
    }

    /// Appends some of the next records, up to `count`, to `into`. Returns how many: none only if there are no more.
    pub(crate) fn read_some(&mut self, count: usize, into: &mut Vec<R>) -> Result<usize, JobError>
    where
        R: Copy,
    {
        if self.records.as_slice().is_empty()
            && let Some(records) = self.next_part()?
        {
            self.records = records.into_iter();
        }
        let ready = self.records.as_slice();
        let read = count.min(ready.len());
        into.extend_from_slice(&ready[..read]);
        if let Some(last) = read.checked_sub(1) {
            self.records.nth(last);
        }
        Ok(read)
    }

    /// The records of the next segment, if there is one, whatever was read of the one before.
    pub(crate) fn next_part(&mut self) -> Result<Option<Vec<R>>, JobError> {
        let Run { file, start, end } = &mut self.run;
        if start == end {
            return Ok(None);
        }
        let read = |bytes: &mut [u8], at| {
            file.read_exact_at(bytes, at).map_err(|error| self.spilling.failed(error))
        };
        let mut frame = [0; FRAME_BYTES];
        read(&mut frame, *start)?;
        let [a, b, c, d, e, f, g, h, rest @ ..] = frame;
        let len = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let begin = *start + FRAME_BYTES as u64;
        // A length that is none would ask for any amount of memory.
        if end.checked_sub(begin).is_none_or(|left| len > left) {
            return Err(self.spilling.damaged());
        }
        let mut bytes = vec![0; len as usize];
        read(&mut bytes, begin)?;
        if rest[..4] != crc32c::crc32c(&bytes).to_le_bytes() {
            return Err(self.spilling.damaged());
        }
        *start = begin + len;
        let view = View::validate(AlignedBytes::copied(&bytes), &self.spilling.types);
        let view = view.map_err(|_| self.spilling.damaged())?;
        drop(bytes);
        Ok(Some(records_of(&view).collect()))
    }

    #[cold]
    fn read(&mut self) -> Result<Option<R>, JobError> {
        let Some(records) = self.next_part()? else { return Ok(None) };
        self.records = records.into_iter();
        Ok(self.records.next())
    }
}

/// Whether files can be made in a folder.
///
/// # Errors
/// [`JobError::Spill`].
pub fn check_spill_folder(folder: &Path) -> Result<(), JobError> {
    let failed = |error| JobError::Spill { folder: folder.to_owned(), error };
    tempfile::tempfile_in(folder).map(drop).map_err(failed)
}
