//! A block of registered memory with records one after the other.

use weft_protocol::Version;
use weft_transport::{Appender, Block, Shared};

use super::header::{CHECKSUM_AT, DEAD, LastUse, Record};
use crate::prefetch;

/// A segment of the log, and how much of it is still wanted.
#[derive(Debug)]
pub(super) struct Segment {
    log: Appender,
    /// Tells it from others that have had its number.
    birth: u64,
    live_objects: u32,
    live_bytes: usize,
    /// The sum of the write sequences of what is live. No overflow: 44 bits each, and less than a
    /// millionth of that is the number of records that fit.
    live_sequences: u64,
}

impl Segment {
    pub(super) fn new(block: Block, birth: u64) -> Segment {
        let log = block.append_only();
        Segment { log, birth, live_objects: 0, live_bytes: 0, live_sequences: 0 }
    }

    /// A segment of a block that begins with a live record of `len` bytes, written with `version`.
    pub(super) fn adopt(block: Block, birth: u64, len: usize, version: Version) -> Segment {
        let log = block.append_after(len);
        let live_sequences = version.sequence();
        Segment { log, birth, live_objects: 1, live_bytes: len, live_sequences }
    }

    /// Appends a live record that was written with `version`; says at which offset it starts, or `None` when there is no room.
    #[inline]
    pub(super) fn append(&mut self, parts: &[&[u8]], version: Version) -> Option<usize> {
        let offset = self.log.append(parts)?;
        self.live_objects += 1;
        self.live_sequences += version.sequence();
        let len = self.log.committed() - offset;
        self.live_bytes += len;
        // The next record of this partition comes after many of others, is likely to be as long, and is read again at once, by who waits for its bytes to
        // be written.
        prefetch::behind(self.log.bytes(), len);
        Some(offset)
    }

    /// Fills in the checksum of the record at `offset`, which was just appended without: nobody knows of it yet.
    #[inline]
    pub(super) fn seal(&mut self, offset: usize) {
        let checksum = self.record(offset).checksum().expect("it was appended whole");
        self.log.store_word(offset + CHECKSUM_AT, checksum);
    }

    /// Marks the record at `offset` as no longer the current one of its key. Says how many bytes of
    /// the log it took.
    #[inline]
    pub(super) fn kill(&mut self, offset: usize) -> usize {
        let record = self.record(offset);
        let (len, version) = (record.len(), record.version());
        self.log.store_word(offset, DEAD);
        self.live_objects -= 1;
        self.live_sequences -= version.sequence();
        self.live_bytes -= len;
        len
    }

    /// Notes when the live record at `offset` was used.
    #[inline]
    pub(super) fn touch(&mut self, offset: usize, last_use: LastUse) {
        self.log.store_word(offset, last_use.liveness_word());
    }

    #[inline]
    pub(super) fn record(&self, offset: usize) -> Record<'_> {
        let bytes = &self.log.bytes()[offset..];
        Record::parse(bytes).expect("an address leads to a record that was committed whole")
    }

    /// All records, dead ones too, with their offsets. Ends early at bytes that are no record.
    pub(super) fn records(&self) -> Records<'_> {
        self.records_from(0)
    }

    /// The records from the one that starts at `offset` on.
    pub(super) fn records_from(&self, offset: usize) -> Records<'_> {
        Records { rest: &self.log.bytes()[offset..], offset }
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

    pub(super) fn birth(&self) -> u64 {
        self.birth
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// The write sequence that what is live has on average.
    pub(super) fn mean_sequence(&self) -> u64 {
        self.live_sequences / u64::from(self.live_objects.max(1))
    }

    /// Bytes that it counts for in the memory's account.
    pub(super) fn footprint(&self) -> usize {
        self.log.footprint()
    }

    /// Bytes of records, padded, that it still has room for.
    pub(super) fn room(&self) -> usize {
        self.log.capacity() - self.log.committed()
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
