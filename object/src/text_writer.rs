//! Records that have texts, written where they are sent from.

use std::fmt;
use std::marker::PhantomData;

use weft_transport::{Memory, MemoryError, Purpose};

use crate::arena::Arena;
use crate::error::Full;
use crate::segment::{BODY_BYTES_MAX, PAGE_BYTES, Segment};
use crate::text::Text;
use crate::types::Types;
use crate::wire::Wire;

/// Fills one segment with records of one type that have [texts](Text), in registered memory: pages of records, and pages of the texts that are too
/// long for their fields. Each segment is a graph of its own, without a root; its records are read by [`View::records`](crate::View::records).
pub struct TextSegmentWriter<T> {
    arena: Arena,
    len: usize,
    records: PhantomData<fn(T)>,
}

/// Where a record's texts go.
#[derive(Debug)]
pub struct Texts<'w> {
    arena: &'w mut Arena,
}

impl<T: Wire> TextSegmentWriter<T> {
    /// An empty segment of up to `bytes` bytes of pages, which are allocated now.
    ///
    /// # Errors
    /// No memory for that many.
    ///
    /// # Panics
    /// If `bytes` is less than a page or more than [`BODY_BYTES_MAX`].
    pub fn new(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        bytes: usize,
    ) -> Result<Self, MemoryError> {
        assert!((PAGE_BYTES..=BODY_BYTES_MAX).contains(&bytes), "a segment of {bytes} bytes");
        let arena = Arena::of_one_block(memory, purpose, types, bytes)?;
        Ok(Self { arena, len: 0, records: PhantomData })
    }

    /// Bytes that a segment has to have for a record with a text of `text_bytes`, however many types its pages are of.
    pub const fn bytes_for(text_bytes: usize) -> usize {
        PAGE_BYTES + text_bytes.next_multiple_of(PAGE_BYTES)
    }

    /// Appends the record that `write` makes, which puts its texts where they go.
    ///
    /// # Errors
    /// That of `write`; or the segment is full, and the record has not been written.
    ///
    /// # Panics
    /// If `T`, or [`Text`], is not one of the types.
    #[inline]
    pub fn push(
        &mut self,
        write: impl FnOnce(&mut Texts<'_>) -> Result<T, Full>,
    ) -> Result<(), Full> {
        let record = write(&mut Texts { arena: &mut self.arena })?;
        let at = self.arena.reserve::<T>(1)?;
        self.arena.write(at, 0, record);
        self.len += 1;
        Ok(())
    }

    /// Records written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no record has been written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Completes the segment. Nothing is copied, unless it is small.
    pub fn freeze(self) -> Segment {
        let mut segments = self.arena.finish(0);
        segments.pop().expect("there is one block, and each becomes a segment")
    }
}

impl Texts<'_> {
    /// A copy of a text. Up to seven bytes lie in the field itself and take no other room.
    ///
    /// # Errors
    /// The segment is full.
    #[inline]
    pub fn text(&mut self, text: &str) -> Result<Text, Full> {
        match Text::inline(text) {
            Some(text) => Ok(text),
            None => self.arena.long_text(text),
        }
    }
}

impl<T> fmt::Debug for TextSegmentWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSegmentWriter").field("len", &self.len).finish_non_exhaustive()
    }
}
