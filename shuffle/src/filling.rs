//! The segment that records are being written into, wherever it goes.

use weft_object::{
    BODY_BYTES_MAX, Full, Graph, GraphSegmentWriter, Record, Ref, Segment, Types, View, Wire,
};
use weft_transport::{Memory, Purpose};

use crate::error::JobError;

/// What an exchange has of what goes to one worker.
pub(crate) trait Fill {
    /// No segment.
    fn new() -> Self;

    /// How many records the segment has so far that is taken next.
    fn records(&self) -> usize;

    /// A segment, complete, if one was begun; the next record begins another.
    fn take(&mut self) -> Option<Segment>;
}

/// A segment that is not full yet, if one was begun.
pub(crate) struct Filling<R: Record> {
    writer: Option<R::Writer>,
}

impl<R: Record> Fill for Filling<R> {
    fn new() -> Filling<R> {
        Filling { writer: None }
    }

    fn records(&self) -> usize {
        self.writer.as_ref().map_or(0, R::count)
    }

    fn take(&mut self) -> Option<Segment> {
        self.writer.take().map(R::freeze)
    }
}

impl<R: Record> Filling<R> {
    /// Writes a record, if there is a segment with room for it.
    #[inline]
    pub(crate) fn push(&mut self, record: &R) -> bool {
        self.writer.as_mut().is_some_and(|writer| record.write(writer).is_ok())
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

/// The same of records that are graphs with roots of type `R`.
pub(crate) struct GraphFilling<R> {
    writer: Option<GraphSegmentWriter<R>>,
}

impl<R: Wire> Fill for GraphFilling<R> {
    fn new() -> GraphFilling<R> {
        GraphFilling { writer: None }
    }

    fn records(&self) -> usize {
        self.writer.as_ref().map_or(0, GraphSegmentWriter::len)
    }

    fn take(&mut self) -> Option<Segment> {
        self.writer.take().map(GraphSegmentWriter::freeze)
    }
}

impl<R: Wire> GraphFilling<R> {
    /// Builds a record, if there is a segment with room for it. False if not: nothing of it is there then.
    ///
    /// # Errors
    /// It has no room in any segment.
    #[inline]
    pub(crate) fn push(
        &mut self,
        build: impl for<'g> FnOnce(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    ) -> Result<bool, JobError> {
        let Some(writer) = &mut self.writer else { return Ok(false) };
        room(writer.push(build))
    }

    /// Begins a segment of up to `bytes` bytes, or of as many as one may have, with the record.
    ///
    /// # Errors
    /// There is no memory for it, or no segment has room for the record.
    pub(crate) fn begin(
        &mut self,
        mut build: impl for<'g> FnMut(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
        memory: &Memory,
        types: &Types,
        bytes: usize,
    ) -> Result<(), JobError> {
        for bytes in [bytes, BODY_BYTES_MAX] {
            let mut writer = GraphSegmentWriter::new(memory, Purpose::Send, types, bytes)?;
            if room(writer.push(&mut build))? {
                self.writer = Some(writer);
                return Ok(());
            }
        }
        Err(JobError::GraphTooLong { limit: BODY_BYTES_MAX })
    }
}

/// Whether there was room for a record.
fn room(pushed: Result<(), Full>) -> Result<bool, JobError> {
    match pushed {
        Ok(()) => Ok(true),
        Err(Full::Segment | Full::Graph) => Ok(false),
        Err(Full::Memory(error)) => Err(JobError::Memory(error)),
        Err(Full::Sequence { .. }) => Err(JobError::GraphTooLong { limit: BODY_BYTES_MAX }),
    }
}

/// The records of a segment that has come.
pub(crate) fn records_of<R: Record, B>(view: &View<B>) -> impl Iterator<Item = R> {
    view.records::<R::Form>().flatten().map(|form| R::read(form, view))
}
