//! Records, written where they are sent from.

use std::marker::PhantomData;

use weft_transport::{Block, Memory, MemoryError, Purpose};

use crate::cast;
use crate::error::Full;
use crate::segment::{PAGE_BYTES, PAGES_MAX, Segment};
use crate::types::Types;
use crate::wire::Wire;

/// Fills one segment with records of one type, in registered memory.
#[derive(Debug)]
pub struct SegmentWriter<T> {
    block: Block,
    place: u16,
    count: usize,
    /// Where the next record goes.
    at: usize,
    /// Where the last record of this page may begin.
    last: usize,
    records: PhantomData<T>,
}

impl<T: Wire> SegmentWriter<T> {
    /// Records in a page.
    pub const PAGE_RECORDS: usize = PAGE_BYTES / size_of::<T>();

    /// An empty segment that takes up to `pages` pages, which are allocated now.
    ///
    /// # Errors
    /// No memory for that many pages.
    ///
    /// # Panics
    /// If `T` is not one of `types`, or `pages` is 0 or more than [`PAGES_MAX`].
    pub fn new(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        pages: usize,
    ) -> Result<Self, MemoryError> {
        assert!((1..=PAGES_MAX).contains(&pages), "a segment of {pages} pages");
        let place = types.place::<T>().expect("a writer's type is one of those agreed on");
        let block = memory.allocate(pages * PAGE_BYTES, purpose)?;
        Ok(Self { block, place, count: 0, at: 0, last: Self::last_of(0), records: PhantomData })
    }

    /// Appends a record: its bytes are written once, to where they are sent from.
    ///
    /// # Errors
    /// The segment is full; `record` has not been written.
    #[inline]
    pub fn push(&mut self, record: T) -> Result<(), Full> {
        if self.at > self.last {
            self.next_page()?;
        }
        cast::write(&mut self.block, self.at, record);
        self.at += size_of::<T>();
        self.count += 1;
        Ok(())
    }

    /// Records written so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no record has been written.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Completes the segment. Nothing is copied.
    pub fn freeze(mut self) -> Segment {
        self.block.mark_touched(self.at);
        // What rounds the last page up to eight bytes is sent, so it must not be what memory held.
        let end = self.at.next_multiple_of(8);
        self.block[self.at..end].fill(0);
        // The ends of full pages that hold no whole record are sent likewise.
        let tail = PAGE_BYTES - Self::PAGE_RECORDS * size_of::<T>();
        for page in 0..self.at.saturating_sub(1) / PAGE_BYTES {
            let end = (page + 1) * PAGE_BYTES;
            self.block[end - tail..end].fill(0);
        }
        Segment::of_records(self.block.freeze(), self.place, size_of::<T>(), self.count)
    }

    /// Where the last record of the page at `start` may begin.
    const fn last_of(start: usize) -> usize {
        start + (Self::PAGE_RECORDS - 1) * size_of::<T>()
    }

    #[cold]
    fn next_page(&mut self) -> Result<(), Full> {
        let start = self.at.next_multiple_of(PAGE_BYTES);
        if start >= self.block.len() {
            return Err(Full::Segment);
        }
        self.at = start;
        self.last = Self::last_of(start);
        Ok(())
    }
}
