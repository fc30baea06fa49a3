//! Records in order, though memory may not have room for all of them: sorted runs, which are merged.

use std::cmp::Ordering;

use weft_object::Record;

use super::merge::{Merge, Source};
use crate::chunk::{CHUNK_BYTES, Chunk};
use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

/// How many runs of a file are merged at once: each takes half a megabyte while it is read.
const RUNS_MAX: usize = 64;

/// Takes records, and gives them back in order. Those that are equal come in any order.
#[derive(Debug)]
pub(crate) struct Sorter<R, F> {
    spilling: Spilling,
    compare: F,
    filling: Option<Chunk<R>>,
    /// Sorted, each for itself.
    chunks: Vec<Chunk<R>>,
    file: SpillFile<R>,
    runs: Vec<Run>,
}

impl<R: Record, F: Fn(&R, &R) -> Ordering + Copy> Sorter<R, F> {
    pub(crate) fn new(spilling: Spilling, compare: F) -> Sorter<R, F> {
        let file = SpillFile::new(spilling.clone());
        Sorter { spilling, compare, filling: None, chunks: Vec::new(), file, runs: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: R) -> Result<(), JobError> {
        match &mut self.filling {
            Some(chunk) if chunk.has_room() => {
                chunk.push(record);
                Ok(())
            }
            _ => self.push_to_next(record),
        }
    }

    #[cold]
    fn push_to_next(&mut self, record: R) -> Result<(), JobError> {
        self.end_chunk();
        let taken = match self.spilling.budget.take(CHUNK_BYTES as u64) {
            Some(taken) => taken,
            None => {
                self.spill()?;
                self.spilling.budget.take_anyway(CHUNK_BYTES as u64)
            }
        };
        self.filling.insert(Chunk::new(taken)).push(record);
        Ok(())
    }

    /// Leaves the rest of the memory to somebody else who needs it at the same time.
    pub(crate) fn keep_at_most(&mut self, bytes: u64) -> Result<(), JobError> {
        self.end_chunk();
        let kept_bytes = self.chunks.iter().map(Chunk::bytes).sum::<u64>();
        if kept_bytes > bytes { self.spill() } else { Ok(()) }
    }

    fn end_chunk(&mut self) {
        if let Some(mut chunk) = self.filling.take() {
            chunk.records_mut().sort_unstable_by(self.compare);
            self.chunks.push(chunk);
        }
    }

    /// Writes what is in memory as a run.
    fn spill(&mut self) -> Result<(), JobError> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        if self.runs.len() == RUNS_MAX {
            self.merge_runs()?;
        }
        let chunks = std::mem::take(&mut self.chunks);
        let merge = Merge::new(chunks.into_iter().map(Source::of_chunk), self.compare)?;
        self.runs.push(write(&mut self.file, merge)?);
        Ok(())
    }

    /// Makes one run of all of them, in a file of its own.
    fn merge_runs(&mut self) -> Result<(), JobError> {
        let sources = std::mem::take(&mut self.runs).into_iter();
        let sources = sources.map(|run| Source::Run(self.file.read(run)));
        let merge = Merge::new(sources, self.compare)?;
        let mut file = SpillFile::new(self.spilling.clone());
        self.runs.push(write(&mut file, merge)?);
        self.file = file;
        Ok(())
    }

    /// An empty one that sorts alike.
    pub(crate) fn another(&self) -> Sorter<R, F> {
        Sorter::new(self.spilling.clone(), self.compare)
    }

    /// Shows all of them, in no order, and keeps them.
    pub(crate) fn for_each(
        &mut self,
        mut show: impl FnMut(&R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.end_chunk();
        self.chunks.iter().flat_map(Chunk::records).try_for_each(&mut show)?;
        for run in &self.runs {
            let mut reader = self.file.read(run.clone());
            while let Some(record) = reader.next()? {
                show(&record)?;
            }
        }
        Ok(())
    }

    /// All of them, in order.
    pub(crate) fn finish(self) -> Result<Merge<R, F>, JobError> {
        let compare = self.compare;
        Merge::new(self.into_sources(), compare)
    }

    /// All of both, in order.
    pub(crate) fn finish_with(self, other: Sorter<R, F>) -> Result<Merge<R, F>, JobError> {
        let compare = self.compare;
        Merge::new(self.into_sources().chain(other.into_sources()), compare)
    }

    fn into_sources(mut self) -> impl Iterator<Item = Source<R>> {
        self.end_chunk();
        let Sorter { chunks, file, runs, .. } = self;
        let chunks = chunks.into_iter().map(Source::of_chunk);
        chunks.chain(runs.into_iter().map(move |run| Source::Run(file.read(run))))
    }
}

fn write<R: Record, F: Fn(&R, &R) -> Ordering>(
    file: &mut SpillFile<R>,
    mut merge: Merge<R, F>,
) -> Result<Run, JobError> {
    let mut run = file.begin();
    while let Some(record) = merge.next()? {
        run.push(&record)?;
    }
    run.finish()
}

#[cfg(test)]
mod tests {
    use weft_object::Types;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::budget::Budget;
    use crate::chunk::chunk_len;

    /// A record that makes a chunk of few.
    type Long = [u64; 512];

    fn by_first(one: &Long, other: &Long) -> Ordering {
        one[0].cmp(&other[0])
    }

    fn sorted(count: u64, memory_chunks: usize) -> (Vec<u64>, u64) {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let bytes = memory.account().resident_bytes + (memory_chunks * CHUNK_BYTES) as u64;
        let types = Types::new().with::<Long>();
        let budget = Budget::new(memory.clone(), bytes);
        let spilling = Spilling::new("/tmp".into(), memory, types, budget);
        let mut sorter = Sorter::new(spilling.clone(), by_first);
        for number in 0..count {
            let mut record = [0; 512];
            // Each of the numbers once, in no order, as the factor has no divisor in common with any count here.
            record[0] = number * 1_000_003 % count;
            sorter.push(record).unwrap();
        }
        let mut merge = sorter.finish().unwrap();
        let mut found = Vec::new();
        while let Some(record) = merge.next().unwrap() {
            found.push(record[0]);
        }
        (found, spilling.bytes_spilled())
    }

    /// A chunk is a run where memory has room for no more; so there are more runs than are merged at once.
    #[test]
    fn however_many_runs_there_are_they_are_merged() {
        let chunk = chunk_len::<Long>() as u64;
        let many = (RUNS_MAX as u64 + 3) * chunk + 1;
        for (count, memory_chunks) in [(0, 1), (1, 1), (3 * chunk, 4), (3 * chunk, 1), (many, 1)] {
            let (found, spilled) = sorted(count, memory_chunks);
            assert_eq!(found, (0..count).collect::<Vec<_>>());
            assert_eq!(
                spilled > 0,
                count > memory_chunks as u64 * chunk,
                "{count}, {memory_chunks}"
            );
        }
    }
}
