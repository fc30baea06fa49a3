//! Records, written where they are sent from.

use std::marker::PhantomData;

use weft_transport::{Block, Memory, MemoryError, Purpose};

use crate::cast;
use crate::error::Full;
use crate::segment::{BODY_BYTES_MAX, Entry, Header, PAGE_BYTES, Segment};
use crate::types::Types;
use crate::wire::Wire;

/// Fills one segment with records of one type, in registered memory: a page of them, as long as it gets.
#[derive(Debug)]
pub struct SegmentWriter<T> {
    block: Block,
    place: u16,
    /// Where the next record goes.
    at: usize,
    /// Where records end at the latest.
    end: usize,
    records: PhantomData<T>,
}

impl<T: Wire> SegmentWriter<T> {
    /// An empty segment of up to `bytes` bytes of records, which are allocated now.
    ///
    /// # Errors
    /// No memory for that many.
    ///
    /// # Panics
    /// If `T` is not one of `types`, or `bytes` is too few for a record or more than [`BODY_BYTES_MAX`].
    pub fn new(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        bytes: usize,
    ) -> Result<Self, MemoryError> {
        const { assert!(!T::HAS_LINKS, "what leads to other objects is a part of a graph") };
        assert!((size_of::<T>()..=BODY_BYTES_MAX).contains(&bytes), "a segment of {bytes} bytes");
        let place = types.place::<T>().expect("a writer's type is one of those agreed on");
        let block = memory.allocate(bytes.next_multiple_of(PAGE_BYTES), purpose)?;
        Ok(Self { block, place, at: 0, end: bytes, records: PhantomData })
    }

    /// Appends a record: its bytes are written once, to where they are sent from.
    ///
    /// # Errors
    /// The segment is full; `record` has not been written.
    #[inline]
    pub fn push(&mut self, record: T) -> Result<(), Full> {
        let end = self.at + size_of::<T>();
        if end > self.end {
            return Err(Full::Segment);
        }
        cast::write(&mut self.block, self.at, record);
        self.at = end;
        Ok(())
    }

    /// Records written so far.
    pub fn len(&self) -> usize {
        self.at / size_of::<T>()
    }

    /// Whether no record has been written.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Completes the segment. Nothing is copied.
    pub fn freeze(mut self) -> Segment {
        self.block.mark_touched(self.at);
        cast::clear_transient::<T>(&mut self.block[..self.at]);
        // What rounds the page up to eight bytes is sent, so it must not be what memory held.
        let end = self.at.next_multiple_of(8);
        self.block[self.at..end].fill(0);
        let count = self.len() as u32;
        let entry = Entry { place: self.place, room: 0, count };
        let table = if count > 0 { &[entry][..] } else { &[] };
        let pages = table.len() as u32;
        let header = Header { pages, first_page: 1, is_last: true, root: 0, root_place: 0 };
        Segment::new(header, table, self.block.freeze().narrow(0..end))
    }
}
