//! Many sorted sources as one.

use std::cmp::Ordering;

use weft_object::Record;

use crate::budget::Taken;
use crate::chunk::Chunk;
use crate::error::JobError;
use crate::spill::RunReader;

/// Sorted records.
#[derive(Debug)]
pub(crate) enum Source<R> {
    /// In memory.
    Chunk(
        std::vec::IntoIter<R>,
        #[expect(dead_code, reason = "given back with the records")] Taken,
    ),
    /// In a file.
    Run(RunReader<R>),
}

/// The records of all sources, in order: a heap of the sources that have any left, by what they have next.
#[derive(Debug)]
pub(crate) struct Merge<R, F> {
    sources: Vec<(R, Source<R>)>,
    heap: Vec<usize>,
    compare: F,
}

impl<R: Record> Source<R> {
    pub(crate) fn of_chunk(chunk: Chunk<R>) -> Source<R> {
        let (records, taken) = chunk.into_parts();
        Source::Chunk(records, taken)
    }

    #[inline]
    fn next(&mut self) -> Result<Option<R>, JobError> {
        match self {
            Source::Chunk(records, _) => Ok(records.next()),
            Source::Run(reader) => reader.next(),
        }
    }
}

impl<R: Record, F: Fn(&R, &R) -> Ordering> Merge<R, F> {
    pub(crate) fn new(
        given: impl Iterator<Item = Source<R>>,
        compare: F,
    ) -> Result<Merge<R, F>, JobError> {
        let mut sources = Vec::new();
        for mut source in given {
            if let Some(first) = source.next()? {
                sources.push((first, source));
            }
        }
        let mut merge = Merge { heap: (0..sources.len()).collect(), sources, compare };
        (0..merge.heap.len() / 2).rev().for_each(|place| merge.sift_down(place));
        Ok(merge)
    }

    /// The next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<R>, JobError> {
        let Some(first) = self.heap.first() else { return Ok(None) };
        let (next, source) = &mut self.sources[*first];
        let record = match source.next()? {
            Some(following) => std::mem::replace(next, following),
            None => self.take_last(),
        };
        self.sift_down(0);
        Ok(Some(record))
    }

    /// The record of the first source, which has no more and goes.
    #[cold]
    fn take_last(&mut self) -> R {
        let first = self.heap.swap_remove(0);
        let (record, _) = self.sources.swap_remove(first);
        // Its place is that of the one that was the last.
        let moved = self.sources.len();
        self.heap.iter_mut().filter(|source| **source == moved).for_each(|source| *source = first);
        record
    }

    /// Puts the source at a place of the heap behind those below that come before it.
    #[inline]
    fn sift_down(&mut self, mut place: usize) {
        let Merge { sources, heap, compare } = self;
        let is_before = |one: usize, other: usize| {
            compare(&sources[one].0, &sources[other].0) == Ordering::Less
        };
        while let Some(left) = heap.get(2 * place + 1).copied() {
            let right = heap.get(2 * place + 2).copied();
            let is_right = right.is_some_and(|right| is_before(right, left));
            let below = 2 * place + 1 + usize::from(is_right);
            if !is_before(heap[below], heap[place]) {
                return;
            }
            heap.swap(place, below);
            place = below;
        }
    }
}
