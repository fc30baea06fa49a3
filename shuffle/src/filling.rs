//! The segment that records are being written into, wherever it goes.

use weft_object::{BODY_BYTES_MAX, Full, Record, Segment, Types, View};
use weft_transport::Memory;

use crate::error::JobError;

/// A segment that is not full yet, if one was begun.
pub(crate) struct Filling<R: Record> {
    writer: Option<R::Writer>,
}

impl<R: Record> Filling<R> {
    pub(crate) fn new() -> Filling<R> {
        Filling { writer: None }
    }

    /// Writes a record, if there is a segment with room for it.
    #[inline]
    pub(crate) fn push(&mut self, record: &R) -> bool {
        self.writer.as_mut().is_some_and(|writer| record.write(writer).is_ok())
    }

    /// How many records it has so far.
    pub(crate) fn records(&self) -> usize {
        self.writer.as_ref().map_or(0, R::count)
    }

    /// The segment, complete; the next record begins another.
    pub(crate) fn take(&mut self) -> Option<Segment> {
        self.writer.take().map(R::freeze)
    }

    /// Begins a segment of up to `bytes` bytes, or as many as the record takes, with the record.
    ///
    /// # Errors
    /// There is no memory for it, or no segment has room for the record.
    pub(crate) fn begin(
        &mut self,
        record: &R,
        memory: &Memory,
        types: &Types,
        bytes: usize,
    ) -> Result<(), JobError> {
        let needed = record.segment_bytes();
        if needed > BODY_BYTES_MAX {
            return Err(JobError::TooLong { bytes: needed, limit: BODY_BYTES_MAX });
        }
        let mut writer = R::writer(memory, types, bytes.max(needed))?;
        record.write(&mut writer).map_err(|full| match full {
            Full::Memory(error) => JobError::Memory(error),
            _ => unreachable!("a new segment has room for a record"),
        })?;
        self.writer = Some(writer);
        Ok(())
    }
}

/// The records of a segment that has come.
pub(crate) fn records_of<R: Record, B>(view: &View<B>) -> impl Iterator<Item = R> {
    view.records::<R::Form>().flatten().map(|form| R::read(form, view))
}
