//! A block of registered memory with records one after the other.

use weft_transport::{Appender, Block, Shared};

use super::header::{DEAD, Record};

/// A segment of the log, and how much of it is still wanted.
#[derive(Debug)]
pub(super) struct Segment {
    log: Appender,
    live_objects: u32,
    live_bytes: usize,
}

impl Segment {
    pub(super) fn new(block: Block) -> Segment {
        Segment { log: block.append_only(), live_objects: 0, live_bytes: 0 }
    }

    /// Appends a live record; says at which offset it starts, or `None` when there is no room.
    #[inline]
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> Option<usize> {
        let offset = self.log.append(parts)?;
        self.live_objects += 1;
        self.live_bytes += self.log.committed() - offset;
        Some(offset)
    }

    /// Marks the record at `offset` as no longer the current one of its key. Says how many bytes of
    /// the log it took.
    #[inline]
    pub(super) fn kill(&mut self, offset: usize) -> usize {
        let len = self.record(offset).len();
        self.log.store_word(offset, DEAD);
        self.live_objects -= 1;
        self.live_bytes -= len;
        len
    }

    #[inline]
    pub(super) fn record(&self, offset: usize) -> Record<'_> {
        let bytes = &self.log.bytes()[offset..];
        Record::parse(bytes).expect("an address leads to a record that was committed whole")
    }

    /// All records, dead ones too, with their offsets. Ends early at bytes that are no record.
    pub(super) fn records(&self) -> Records<'_> {
        Records { rest: self.log.bytes(), offset: 0 }
    }

    /// A counted view of bytes of this segment, which stay where they are as long as it lives.
    pub(super) fn pin(&self, offset: usize, len: usize) -> Shared {
        self.log.shared(offset..offset + len)
    }

    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        self.live_objects == 0
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.log.pinned()
    }

    /// Bytes that it counts for in the memory's account.
    pub(super) fn footprint(&self) -> usize {
        self.log.footprint()
    }

    pub(super) fn committed(&self) -> usize {
        self.log.committed()
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.log.bytes()
    }
}

/// Walks the records of a segment.
pub(super) struct Records<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Record<'a>);

    fn next(&mut self) -> Option<(usize, Record<'a>)> {
        let record = Record::parse(self.rest)?;
        let (offset, len) = (self.offset, record.len());
        self.rest = self.rest.get(len..)?;
        self.offset += len;
        Some((offset, record))
    }
}
