//! Records that wait for their turn, first in, first out: in memory as long as the budget has room, and behind that in a file.

use std::collections::VecDeque;

use weft_object::Wire;

use crate::budget::Taken;
use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

/// Bytes of records that are taken from the budget at once.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Records of one chunk.
pub(crate) fn chunk_len<R>() -> usize {
    (CHUNK_BYTES / size_of::<R>().max(1)).max(1)
}

/// Records, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Spool<R> {
    spilling: Spilling,
    chunks: VecDeque<(Vec<R>, Taken)>,
    /// What came when memory was full. From then on everything goes there, so that the order stays.
    file: SpillFile<R>,
    runs: VecDeque<Run>,
    /// A chunk that is written when it is full.
    last: Option<(Vec<R>, Taken)>,
}

impl<R: Wire> Spool<R> {
    pub(crate) fn new(spilling: Spilling) -> Spool<R> {
        let file = SpillFile::new(spilling.clone());
        Spool { spilling, chunks: VecDeque::new(), file, runs: VecDeque::new(), last: None }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: R) -> Result<(), JobError> {
        match &mut self.last {
            Some((chunk, _)) if chunk.len() < chunk_len::<R>() => chunk.push(record),
            _ => self.push_to_next(record)?,
        }
        Ok(())
    }

    #[cold]
    fn push_to_next(&mut self, record: R) -> Result<(), JobError> {
        let budget = &self.spilling.budget;
        let taken = match self.last.take() {
            None => budget.take_anyway(CHUNK_BYTES as u64),
            Some((chunk, taken)) if !self.runs.is_empty() => {
                self.write(&chunk)?;
                taken
            }
            Some((chunk, taken)) => match budget.take(CHUNK_BYTES as u64) {
                Some(more) if self.chunks.len() as u64 * (CHUNK_BYTES as u64) < budget.share() => {
                    self.chunks.push_back((chunk, taken));
                    more
                }
                _ => {
                    self.write(&chunk)?;
                    taken
                }
            },
        };
        let mut chunk = Vec::with_capacity(chunk_len::<R>());
        chunk.push(record);
        self.last = Some((chunk, taken));
        Ok(())
    }

    fn write(&mut self, chunk: &[R]) -> Result<(), JobError> {
        let mut run = self.file.begin();
        chunk.iter().try_for_each(|record| run.push(record))?;
        self.runs.push_back(run.finish()?);
        Ok(())
    }

    /// Bytes of records that lie in its file.
    #[cfg(test)]
    pub(crate) fn has_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Shows all of them, in order, and keeps them.
    pub(crate) fn for_each(
        &self,
        mut show: impl FnMut(&R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.chunks.iter().flat_map(|(chunk, _)| chunk).try_for_each(&mut show)?;
        for run in &self.runs {
            let mut reader = self.file.read(run.clone());
            while let Some(record) = reader.next()? {
                show(&record)?;
            }
        }
        self.last.iter().flat_map(|(chunk, _)| chunk).try_for_each(show)
    }

    /// Gives all of them to `each`, in order. Memory is given back as they go.
    pub(crate) fn drain(
        mut self,
        mut each: impl FnMut(R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        while let Some((chunk, _taken)) = self.chunks.pop_front() {
            chunk.into_iter().try_for_each(&mut each)?;
        }
        while let Some(run) = self.runs.pop_front() {
            let mut reader = self.file.read(run);
            while let Some(record) = reader.next()? {
                each(record)?;
            }
        }
        match self.last.take() {
            Some((chunk, _taken)) => chunk.into_iter().try_for_each(each),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_object::Types;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;
    use crate::budget::Budget;

    /// With room for so many chunks.
    fn spilling(chunks: usize) -> Spilling {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let bytes = memory.account().resident_bytes + (2 * chunks * CHUNK_BYTES) as u64;
        let types = Types::new().with::<u64>();
        Spilling::new("/tmp".into(), memory.clone(), types, Budget::new(memory, bytes))
    }

    #[test]
    fn what_comes_first_goes_first_whether_memory_has_room_or_not() {
        let chunk = chunk_len::<u64>() as u64;
        for (chunks, is_spilled) in [(8, false), (1, true), (0, true)] {
            for count in [0, 1, chunk, 5 * chunk, 5 * chunk + 7] {
                let mut spool = Spool::new(spilling(chunks));
                (0..count).for_each(|number| spool.push(number).unwrap());
                assert_eq!(
                    spool.has_spilled(),
                    is_spilled && count > 2 * chunk,
                    "{chunks} {count}"
                );
                for _ in 0..2 {
                    let mut shown = 0;
                    let all = spool.for_each(|number| {
                        assert_eq!(*number, shown);
                        shown += 1;
                        Ok(())
                    });
                    all.unwrap();
                    assert_eq!(shown, count);
                }
                let mut next = 0;
                let drained = spool.drain(|number| {
                    assert_eq!(number, next);
                    next += 1;
                    Ok(())
                });
                drained.unwrap();
                assert_eq!(next, count);
            }
        }
    }
}
