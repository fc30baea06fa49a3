//! Numbers of rows in a file, where memory has no room for them.

use std::ops::Range;

use weft_object::Wire;

use crate::error::JobError;
use crate::spill::{Run, RunReader, SpillFile, Spilling};

/// Numbers one behind the other, in runs that are read from their beginning.
#[derive(Debug)]
pub(super) struct Written<T> {
    spilling: Spilling,
    file: SpillFile<T>,
    /// Each with the place of its first number.
    runs: Vec<(u64, Run)>,
    len: u64,
}

/// Reads numbers in their order.
struct Reader<'w, T> {
    written: &'w Written<T>,
    next_run: usize,
    reader: Option<RunReader<T>>,
}

impl<T: Wire> Written<T> {
    /// Numbers of a run: a segment's.
    pub(super) const LEN: usize = (256 << 10) / size_of::<T>();

    pub(super) fn new(spilling: &Spilling) -> Written<T> {
        let file = SpillFile::new(spilling.clone());
        Written { spilling: spilling.clone(), file, runs: Vec::new(), len: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes numbers behind the others.
    pub(super) fn append(&mut self, numbers: &[T]) -> Result<(), JobError> {
        for numbers in numbers.chunks(Self::LEN) {
            let mut run = self.file.begin();
            numbers.iter().try_for_each(|number| run.push(number))?;
            self.runs.push((self.len, run.finish()?));
            self.len += numbers.len() as u64;
        }
        Ok(())
    }

    /// Goes through some rows in order, which begin and end where `offsets` says.
    pub(super) fn for_each(
        &self,
        offsets: &[u64],
        rows: Range<usize>,
        each: &mut impl FnMut(usize, &[T]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let offsets = &offsets[rows.start..=rows.end];
        let lens = || offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        // A row has no more numbers than there are vertices, of which more is in memory than that.
        let longest = lens().max().unwrap_or(0);
        let longest_bytes = (longest * size_of::<T>()) as u64;
        let _taken = self.spilling.budget.take_anyway(longest_bytes);
        let mut numbers = Vec::with_capacity(longest);
        let mut reader = Reader::from(self, offsets[0])?;
        for (row, len) in rows.zip(lens()) {
            numbers.clear();
            reader.read(len, &mut numbers)?;
            each(row, &numbers)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn damage(&self, at: u64) {
        self.file.damage(at);
    }
}

impl<'w, T: Wire> Reader<'w, T> {
    /// From the number at a place on.
    fn from(written: &'w Written<T>, place: u64) -> Result<Reader<'w, T>, JobError> {
        let next_run = written.runs.partition_point(|(first, _)| *first <= place);
        let next_run = next_run.saturating_sub(1);
        let first = written.runs.get(next_run).map_or(place, |(first, _)| *first);
        let mut reader = Reader { written, next_run, reader: None };
        reader.read((place - first) as usize, &mut Vec::new())?;
        Ok(reader)
    }

    /// Appends the next `count` numbers to `into`.
    fn read(&mut self, count: usize, into: &mut Vec<T>) -> Result<(), JobError> {
        let mut missing = count;
        while missing > 0 {
            let read = match &mut self.reader {
                Some(reader) => reader.read_some(missing, into)?,
                None => 0,
            };
            missing -= read;
            if read == 0 {
                let run = self.written.runs.get(self.next_run);
                let (_, run) = run.ok_or_else(|| self.written.spilling.damaged())?;
                self.reader = Some(self.written.file.read(run.clone()));
                self.next_run += 1;
            }
        }
        Ok(())
    }
}
