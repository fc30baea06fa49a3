//! A partition's log: segments of records, opened as they are needed, given back when nothing in
//! them is wanted.
//!
//! A segment whose last object dies is dropped at once. Views of it that are still being sent keep
//! its memory, and the last of them gives it back, wherever it is dropped: nobody has to look for
//! pins that went away. A list of dead but pinned segments, swept on allocation, would leave memory
//! unused while another partition is refused.
//!
//! Segments with a few live objects stay as they are. A cleaner finds what it needs here: live
//! bytes by segment, a walk through its records, and a header that says which key to ask the index
//! for.

use weft_transport::{Appender, Block, Memory, MemoryError, PAGE_BYTES, Purpose};

use super::address::Address;
use super::error::StoreError;
use super::header::Record;
use super::prefetch;
use super::segment::Segment;

/// The smallest segment. A partition with little in it takes little: segments grow with the log, so
/// that the unused end of the last one stays about an eighth of it.
const SEGMENT_BYTES_MIN: usize = 64 << 10;
/// The size of a segment of a large log.
const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// A longer record gets a segment of its own, so that at most a quarter of a segment is left
/// unused.
const SHARED_RECORD_MAX: usize = SEGMENT_BYTES_MAX / 4;

const _: () = assert!(SEGMENT_BYTES_MAX <= Address::OFFSET_END);

#[derive(Debug)]
pub(super) struct Log {
    memory: Memory,
    /// By number; the first is never used, since numbers start at 1.
    segments: Vec<Option<Segment>>,
    free_numbers: Vec<u32>,
    /// The segment that is appended to.
    open: Option<u32>,
    footprint: usize,
    live_objects: usize,
    live_bytes: usize,
}

impl Log {
    pub(super) fn new(memory: Memory) -> Log {
        Log {
            memory,
            segments: vec![None],
            free_numbers: Vec::new(),
            open: None,
            footprint: 0,
            live_objects: 0,
            live_bytes: 0,
        }
    }

    /// Appends a live record of `len` bytes (padded), made of `parts`.
    #[inline]
    pub(super) fn append(&mut self, parts: &[&[u8]], len: usize) -> Result<Address, StoreError> {
        if let Some(number) = self.open
            && len <= SHARED_RECORD_MAX
            && let Some(offset) = self.segment_mut(number).append(parts)
        {
            self.live_objects += 1;
            self.live_bytes += len;
            return Ok(Address::new(number, offset));
        }
        self.append_to_new(parts, len)
    }

    /// Marks a record as no longer current. The segment goes back if this was its last.
    #[inline]
    pub(super) fn kill(&mut self, address: Address) {
        let number = address.segment();
        let segment = self.segment_mut(number);
        let len = segment.kill(address.offset());
        let is_dead = segment.is_dead();
        self.live_objects -= 1;
        self.live_bytes -= len;
        if is_dead {
            self.release(number);
        }
    }

    #[inline]
    pub(super) fn record(&self, address: Address) -> Record<'_> {
        self.segment(address.segment()).record(address.offset())
    }

    #[inline]
    pub(super) fn segment(&self, number: u32) -> &Segment {
        self.segments[number as usize]
            .as_ref()
            .expect("an address leads to a segment that is there")
    }

    /// Asks for the start of a record to be brought into the cache.
    #[inline]
    pub(super) fn prefetch(&self, address: Address) {
        let bytes = self.segment(address.segment()).bytes();
        let offset = address.offset();
        // A header, a short key and a short value: two cache lines, wherever they begin.
        for at in [offset, offset + 64] {
            if let Some(byte) = bytes.get(at) {
                prefetch::read(byte);
            }
        }
    }

    /// All segments with their numbers.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0_u32..).zip(&self.segments).filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// Bytes of all segments, as the memory's account counts them.
    pub(super) fn footprint(&self) -> usize {
        self.footprint
    }

    pub(super) fn live_objects(&self) -> usize {
        self.live_objects
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    #[cold]
    fn append_to_new(&mut self, parts: &[&[u8]], len: usize) -> Result<Address, StoreError> {
        // All that can fail comes before anything changes; the open segment stays open on failure,
        // for records that still fit it.
        let number = self.free_number()?;
        let block = self.allocate(len)?;
        let mut segment = Segment::new(block);
        let offset = segment.append(parts).expect("a new segment has room for what it is made for");
        self.footprint += segment.footprint();
        self.live_objects += 1;
        self.live_bytes += len;
        self.free_numbers.pop();
        self.segments[number as usize] = Some(segment);
        if len <= SHARED_RECORD_MAX {
            self.open = Some(number);
        }
        Ok(Address::new(number, offset))
    }

    /// Memory for a segment that begins with a record of `len` bytes: as large as suits the log, or
    /// smaller, if the limit has no room for that but for less.
    fn allocate(&self, len: usize) -> Result<Block, MemoryError> {
        let needed = Appender::block_len(len).next_multiple_of(PAGE_BYTES);
        if len > SHARED_RECORD_MAX {
            return self.memory.allocate(needed, Purpose::Log);
        }
        let suits_log = (self.footprint / 8).next_power_of_two();
        let suits_record = (4 * len).next_power_of_two();
        let mut bytes = suits_log.max(suits_record).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        loop {
            match self.memory.allocate(bytes, Purpose::Log) {
                Err(_) if bytes / 2 >= needed.max(SEGMENT_BYTES_MIN) => bytes /= 2,
                outcome => return outcome,
            }
        }
    }

    /// The number that the next segment gets: the last of the free ones.
    fn free_number(&mut self) -> Result<u32, StoreError> {
        if let Some(&number) = self.free_numbers.last() {
            return Ok(number);
        }
        let number = self.segments.len() as u32;
        if number > Address::SEGMENT_MAX {
            return Err(StoreError::SegmentsExhausted { limit: Address::SEGMENT_MAX });
        }
        self.segments.push(None);
        self.free_numbers.push(number);
        Ok(number)
    }

    fn release(&mut self, number: u32) {
        let segment = self.segments[number as usize].take().expect("a dead segment was there");
        self.footprint -= segment.footprint();
        self.free_numbers.push(number);
        if self.open == Some(number) {
            self.open = None;
        }
    }

    #[inline]
    fn segment_mut(&mut self, number: u32) -> &mut Segment {
        self.segments[number as usize]
            .as_mut()
            .expect("an address leads to a segment that is there")
    }
}
