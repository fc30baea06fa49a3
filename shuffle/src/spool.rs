//! Records that wait for their turn, first in, first out: in memory as long as the budget has room, and behind that in a file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_object::Record;

use crate::budget::Taken;
use crate::chunk::{CHUNK_BYTES, Chunk};
use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

/// The least bytes of a chunk where several spools share what one would take: what a file is written and read by.
const CHUNK_BYTES_MIN: usize = 256 << 10;

/// Records, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Spool<R> {
    spilling: Spilling,
    chunk_bytes: usize,
    /// What it has in full chunks, and those that fill at the same time: all together at most a share of the budget.
    kept_bytes: Arc<AtomicU64>,
    chunks: VecDeque<Chunk<R>>,
    /// What came when memory was full. From then on everything goes there, so that the order stays.
    file: SpillFile<R>,
    runs: VecDeque<Run>,
    /// A chunk that is written when it is full.
    last: Option<Chunk<R>>,
}

impl<R: Record> Spool<R> {
    pub(crate) fn new(spilling: Spilling) -> Spool<R> {
        Spool::sharing(spilling, CHUNK_BYTES, Arc::default())
    }

    /// As many as that, which fill at the same time and share the memory that one would have.
    pub(crate) fn several(spilling: &Spilling, count: usize) -> Vec<Spool<R>> {
        let chunk_bytes = (CHUNK_BYTES / count.max(1)).max(CHUNK_BYTES_MIN);
        let kept_bytes = Arc::default();
        let one = || Spool::sharing(spilling.clone(), chunk_bytes, Arc::clone(&kept_bytes));
        std::iter::repeat_with(one).take(count).collect()
    }

    fn sharing(spilling: Spilling, chunk_bytes: usize, kept_bytes: Arc<AtomicU64>) -> Spool<R> {
        let (file, chunks) = (SpillFile::new(spilling.clone()), VecDeque::new());
        let (runs, last) = (VecDeque::new(), None);
        Spool { spilling, chunk_bytes, kept_bytes, chunks, file, runs, last }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: R) -> Result<(), JobError> {
        match &mut self.last {
            Some(chunk) if chunk.has_room() => {
                chunk.push(record);
                Ok(())
            }
            _ => self.push_to_next(record),
        }
    }

    #[cold]
    fn push_to_next(&mut self, record: R) -> Result<(), JobError> {
        let taken = match self.last.take() {
            None => self.spilling.budget.take_anyway(self.chunk_bytes as u64),
            Some(chunk) => match self.take() {
                Some(taken) => {
                    self.kept_bytes.fetch_add(chunk.bytes(), Ordering::Relaxed);
                    self.chunks.push_back(chunk);
                    taken
                }
                None => {
                    self.write(chunk.records())?;
                    chunk.into_taken()
                }
            },
        };
        self.last.insert(Chunk::new(taken)).push(record);
        Ok(())
    }

    /// Memory for one more chunk, if there is any for those that wait.
    fn take(&self) -> Option<Taken> {
        let has_room = self.runs.is_empty()
            && self.kept_bytes.load(Ordering::Relaxed) < self.spilling.budget.share();
        has_room.then(|| self.spilling.budget.take(self.chunk_bytes as u64)).flatten()
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    fn write(&mut self, records: &[R]) -> Result<(), JobError> {
        let mut run = self.file.begin();
        records.iter().try_for_each(|record| run.push(record))?;
        self.runs.push_back(run.finish()?);
        Ok(())
    }

    /// Whether some of its records lie in its file.
    #[cfg(test)]
    pub(crate) fn has_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Shows all of them, in order, and keeps them.
    pub(crate) fn for_each(
        &self,
        mut show: impl FnMut(&R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.for_each_part(|records| records.iter().try_for_each(&mut show))
    }

    /// The same in the parts that they lie in.
    pub(crate) fn for_each_part(
        &self,
        mut show: impl FnMut(&[R]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.chunks.iter().map(Chunk::records).try_for_each(&mut show)?;
        for run in &self.runs {
            let mut reader = self.file.read(run.clone());
            while let Some(records) = reader.next_part()? {
                show(&records)?;
            }
        }
        self.last.iter().map(Chunk::records).try_for_each(show)
    }

    /// Gives all of them to `each`, in order. Memory is given back as they go.
    pub(crate) fn drain(
        mut self,
        mut each: impl FnMut(R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        while let Some(chunk) = self.chunks.pop_front() {
            let (mut records, _taken) = chunk.into_parts();
            records.try_for_each(&mut each)?;
        }
        while let Some(run) = self.runs.pop_front() {
            let mut reader = self.file.read(run);
            while let Some(record) = reader.next()? {
                each(record)?;
            }
        }
        match self.last.take() {
            Some(chunk) => {
                let (mut records, _taken) = chunk.into_parts();
                records.try_for_each(each)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_object::Types;

    use super::*;
    use crate::chunk::chunk_len;

    /// With room for so many chunks.
    fn spilling(chunks: usize) -> Spilling {
        Spilling::with_room((2 * chunks * CHUNK_BYTES) as u64, Types::new().with::<u64>())
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

    /// What one of them keeps, the others have no room for.
    #[test]
    fn several_share_the_memory_of_one_and_each_keeps_its_order() {
        for (chunks, is_spilled) in [(16, false), (2, true), (0, true)] {
            let spilling = spilling(chunks);
            let mut spools = Spool::several(&spilling, 3);
            let count = 5 * chunk_len::<u64>() as u64;
            for number in 0..count {
                spools[(number % 7 % 3) as usize].push(number).unwrap();
            }
            assert_eq!(spools.iter().any(Spool::has_spilled), is_spilled, "{chunks}");
            let kept = spools.iter().map(|spool| spool.chunks.len()).sum::<usize>() as u64;
            let most = spilling.budget.share().div_ceil(spools[0].chunk_bytes as u64);
            assert!(kept <= most, "{kept} chunks, {most} at most");
            let mut shown = 0;
            for (lane, spool) in (0..).zip(spools) {
                let mut expected = (0..count).filter(|number| number % 7 % 3 == lane);
                let drained = spool.drain(|number| {
                    assert_eq!(Some(number), expected.next());
                    shown += 1;
                    Ok(())
                });
                drained.unwrap();
            }
            assert_eq!(shown, count);
        }
    }
}
