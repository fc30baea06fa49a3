//! A partition's log: segments of records, opened as they are needed, given back when nothing in
//! them is wanted.
//!
//! A segment whose last object dies is dropped at once. Views of it that are still being sent keep
//! its memory, and the last of them gives it back, wherever it is dropped: nobody has to look for
//! pins that went away. A list of dead but pinned segments, swept on allocation, would leave memory
//! unused while another partition is refused.
//!
//! Segments with a few live objects stay until a cleaner moves these elsewhere (`cleaning`). What it moves goes to segments of its own. In a
//! large log they stay that: it has lived for long, and will live longer than what is written beside it (Rumble et al., FAST '14). In a
//! small one it fills what is left elsewhere first, and what is left of its own once a segment is empty is for whoever writes.

mod ends;
mod sizes;

use weft_protocol::Version;
use weft_transport::{Block, Memory, MemoryError, Purpose};

use super::address::Address;
use super::error::StoreError;
use super::header::{LastUse, Record};
use super::segment::Segment;
use crate::prefetch::{self, LINE};

use self::ends::End;
use self::sizes::Sizes;

pub(crate) use self::sizes::kept_back_bytes;

/// If records are longer than this on average, in bytes, no more than their first lines are asked for: a run of longer ones would
/// leave the cache little else.
const PREFETCHED_MAX: usize = 2 << 10;

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// Whoever has something new.
    Put,
    /// The cleaner.
    Cleaner,
}

/// From where memory for a segment is taken that begins with a record of so many bytes.
type Allocate = fn(&Log, usize) -> Result<Block, MemoryError>;

#[derive(Debug)]
pub(super) struct Log {
    memory: Memory,
    sizes: Sizes,
    /// By number; the first is never used, since numbers start at 1.
    segments: Vec<Option<Segment>>,
    free_numbers: Vec<u32>,
    /// Where it is appended, by [`Writer`].
    ends: [End; 2],
    /// Segments so far.
    births: u64,
    footprint: usize,
    live_objects: usize,
    live_bytes: usize,
    /// Bytes of all records that were appended here, without those that were only moved.
    written_bytes: u64,
    /// Bytes of all records that have died here.
    killed_bytes: u64,
}

impl Log {
    pub(super) fn new(memory: Memory) -> Log {
        Log {
            sizes: Sizes::within(memory.account().limit_bytes),
            memory,
            segments: vec![None],
            free_numbers: Vec::new(),
            ends: Default::default(),
            births: 0,
            footprint: 0,
            live_objects: 0,
            live_bytes: 0,
            written_bytes: 0,
            killed_bytes: 0,
        }
    }

    /// Appends a live record of `len` bytes (padded), made of `parts`, that is written with `version`.
    #[inline]
    pub(super) fn append(
        &mut self,
        parts: &[&[u8]],
        len: usize,
        version: Version,
    ) -> Result<Address, StoreError> {
        let offset = self.ends[Writer::Put as usize]
            .open()
            .filter(|_| self.sizes.is_shared(self.footprint, len))
            .and_then(|number| Some((number, self.segment_mut(number).append(parts, version)?)));
        let address = match offset {
            Some((number, offset)) => Address::new(number, offset),
            None => self.append_elsewhere(Writer::Put, Log::allocate, len, |segment, _| {
                segment.append(parts, version)
            })?,
        };
        self.live_objects += 1;
        self.live_bytes += len;
        self.written_bytes += len as u64;
        Ok(address)
    }

    /// Fills in the checksum of a record that was just appended without.
    #[inline]
    pub(super) fn seal(&mut self, address: Address) {
        self.segment_mut(address.segment()).seal(address.offset());
    }

    /// Takes a block that begins with a live record of `len` bytes (padded), written with `version`, as a segment of its own.
    ///
    /// # Errors
    /// [`StoreError::SegmentsExhausted`].
    pub(super) fn adopt(
        &mut self,
        block: Block,
        len: usize,
        version: Version,
    ) -> Result<Address, StoreError> {
        let number = self.free_number()?;
        self.births += 1;
        let segment = Segment::adopt(block, self.births, len, version);
        self.footprint += segment.footprint();
        self.free_numbers.pop();
        self.segments[number as usize] = Some(segment);
        self.live_objects += 1;
        self.live_bytes += len;
        Ok(Address::new(number, 0))
    }

    /// Appends a live record once more, and marks the one at `address` as no longer current. Takes what memory
    /// is kept back, if need be.
    ///
    /// # Errors
    /// As [`append`](Self::append); nothing has changed then.
    pub(super) fn relocate(&mut self, address: Address) -> Result<Address, StoreError> {
        let record = self.record(address);
        let (len, version) = (record.len(), record.version());
        let (number, offset) = (address.segment(), address.offset());
        let copy =
            |to: &mut Segment, from: &Segment| to.append(&[from.record(offset).bytes()], version);
        let is_shared = self.sizes.is_shared(self.footprint, len);
        let moved = match self.room_for_moved(len).filter(|_| is_shared) {
            Some(roomy) => {
                let slots = self.segments.get_disjoint_mut([roomy as usize, number as usize]);
                let [Some(to), Some(from)] = slots.expect("what is emptied was closed") else {
                    panic!("an address leads to a segment that is there")
                };
                Address::new(roomy, copy(to, from).expect("it has room"))
            }
            None => {
                self.append_elsewhere(Writer::Cleaner, Log::allocate_to_move, len, |to, log| {
                    copy(to, log.segment(number))
                })?
            }
        };
        self.live_objects += 1;
        self.live_bytes += len;
        self.kill(address);
        // It lives on elsewhere.
        self.killed_bytes -= len as u64;
        Ok(moved)
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
        self.killed_bytes += len as u64;
        if is_dead {
            self.release(number);
        }
    }

    /// Notes when a live record was used.
    #[inline]
    pub(super) fn touch(&mut self, address: Address, last_use: LastUse) {
        self.segment_mut(address.segment()).touch(address.offset(), last_use);
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

    /// The segment of this number, if it is still the one that was born then.
    pub(super) fn segment_of(&self, number: u32, birth: u64) -> Option<&Segment> {
        let segment = self.segments.get(number as usize)?.as_ref()?;
        (segment.birth() == birth).then_some(segment)
    }

    /// Asks for a record to be brought into the cache, as many bytes of it as are given, or two lines: a header, a short key and a
    /// short value, wherever they begin.
    #[inline]
    pub(super) fn prefetch(&self, address: Address, len: usize) {
        let bytes = self.segment(address.segment()).bytes();
        let offset = address.offset();
        // A segment begins where a line does.
        for at in (offset / LINE * LINE..offset + len.max(2 * LINE)).step_by(LINE) {
            if let Some(byte) = bytes.get(at) {
                prefetch::read(byte);
            }
        }
    }

    /// Bytes of a record of which there are `objects`, on average; or zero if that is little, or more than is asked for.
    #[inline]
    pub(super) fn mean_len(&self, objects: usize) -> usize {
        if self.live_bytes <= objects * 2 * LINE || self.live_bytes > objects * PREFETCHED_MAX {
            return 0;
        }
        self.live_bytes / objects.max(1)
    }

    /// All segments with their numbers.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0_u32..).zip(&self.segments).filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// All segments but those that take whatever comes, with their numbers.
    pub(super) fn closed_segments(&self) -> impl Iterator<Item = (u32, &Segment)> {
        let is_open = |number| self.ends.iter().any(|end| end.open() == Some(number));
        self.segments().filter(move |(number, _)| !is_open(*number))
    }

    /// Nothing is appended to this segment any more.
    pub(super) fn close(&mut self, number: u32) {
        self.ends.iter_mut().for_each(|end| end.close(number));
    }

    /// Whether all that is live of a segment has a place to go to, with what the memory keeps back. A segment that is emptied by half
    /// gives nothing, and holds what could have emptied others.
    pub(super) fn has_room_to_move(&self, segment: &Segment) -> bool {
        let room_bytes =
            self.moved_to().filter_map(End::open).map(|open| self.segment(open).room());
        let elsewhere_bytes = segment.live_bytes().saturating_sub(room_bytes.sum());
        let blocks_bytes = sizes::bytes_to_move(elsewhere_bytes, self.mean_live_bytes());
        blocks_bytes as u64 <= self.memory.free_or_kept_back_bytes()
    }

    fn mean_live_bytes(&self) -> usize {
        self.live_bytes / self.live_objects.max(1)
    }

    /// A segment has been emptied. In a log that is too small for two open segments, whoever writes gets the one that the cleaner
    /// has begun, once all is there that the memory keeps back: of what is borrowed for a move, a write in the middle of it would keep a
    /// part for ever, until no segment can be emptied any more.
    pub(super) fn hand_over_moved(&mut self) {
        if !self.memory.is_reaching_kept_back() {
            self.hand_over();
        }
    }

    /// The same for a write that no memory can be gained for: it is enough then that the fullest segment can be emptied without what the
    /// cleaner has begun. Others may have borrowed at the time, and what they give back empties no segment here. Returns whether there
    /// was anything.
    pub(super) fn hand_over_at_last(&mut self) -> bool {
        let needed_bytes = sizes::bytes_to_move(self.sizes.bytes_max(), self.mean_live_bytes());
        self.memory.free_or_kept_back_bytes() >= needed_bytes as u64 && self.hand_over()
    }

    fn hand_over(&mut self) -> bool {
        if self.sizes.has_two_ends(self.footprint) {
            return false;
        }
        let [puts, moved] = &mut self.ends;
        let segments = &self.segments;
        let room = |number: u32| segments[number as usize].as_ref().map_or(0, Segment::room);
        let mut is_any = false;
        for number in moved.take() {
            puts.begin(number, room);
            is_any = true;
        }
        is_any
    }

    /// Where moved records go, in this order.
    fn moved_to(&self) -> impl Iterator<Item = &End> {
        let [puts, moved] = &self.ends;
        let puts = (!self.sizes.has_two_ends(self.footprint)).then_some(puts);
        std::iter::once(moved).chain(puts)
    }

    /// A segment with room for a moved record of `len` bytes (padded).
    #[inline]
    fn room_for_moved(&self, len: usize) -> Option<u32> {
        let room = |number: u32| self.segment(number).room();
        self.moved_to().find_map(|end| {
            end.open().filter(|&open| room(open) >= len).or_else(|| end.aside_for(len, room))
        })
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

    /// Bytes of all records that were appended here, without those that were only moved.
    #[inline]
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes of all records that have died here, whether their memory is free by now or not.
    pub(super) fn killed_bytes(&self) -> u64 {
        self.killed_bytes
    }

    /// Appends a record of `len` bytes (padded), for which the open segment has no room, to one that was set aside, or to a new one.
    #[cold]
    fn append_elsewhere(
        &mut self,
        writer: Writer,
        allocate: Allocate,
        len: usize,
        append: impl FnOnce(&mut Segment, &Log) -> Option<usize>,
    ) -> Result<Address, StoreError> {
        let room = |number| self.segment(number).room();
        let is_shared = self.sizes.is_shared(self.footprint, len);
        let end = &self.ends[writer as usize];
        let aside = end.aside_for(len, room).filter(|_| is_shared);
        // All that can fail comes before anything changes; the open segment stays open on failure,
        // for records that still fit it.
        let number = aside.map_or_else(|| self.free_number(), Ok)?;
        let mut segment = match aside {
            Some(_) => self.segments[number as usize].take().expect("it is there"),
            None => {
                let block = allocate(self, len)?;
                self.births += 1;
                let segment = Segment::new(block, self.births);
                self.footprint += segment.footprint();
                self.free_numbers.pop();
                segment
            }
        };
        let offset = append(&mut segment, self);
        let offset = offset.expect("it has room, or is new and made for this");
        self.segments[number as usize] = Some(segment);
        if is_shared && aside.is_none() {
            let (segments, ends) = (&self.segments, &mut self.ends);
            let room = |number: u32| segments[number as usize].as_ref().map_or(0, Segment::room);
            ends[writer as usize].begin(number, room);
        }
        Ok(Address::new(number, offset))
    }

    /// Memory for a segment that begins with a record of `len` bytes.
    fn allocate(&self, len: usize) -> Result<Block, MemoryError> {
        self.allocate_by(Memory::allocate, self.sizes.for_record(self.footprint, len))
    }

    /// The same for a record that is moved, of what is kept back for that if need be: as little of it as will do, where whoever writes gets
    /// what is left.
    fn allocate_to_move(&self, len: usize) -> Result<Block, MemoryError> {
        if self.sizes.has_two_ends(self.footprint) {
            let sizes = self.sizes.for_record(self.footprint, len);
            return self.allocate_by(Memory::allocate_kept_back, sizes);
        }
        self.allocate(len).or_else(|_| {
            let sizes = self.sizes.for_few_records(self.footprint, len);
            self.allocate_by(Memory::allocate_kept_back, sizes)
        })
    }

    /// The first block that there is memory for.
    fn allocate_by(
        &self,
        allocate: fn(&Memory, usize, Purpose) -> Result<Block, MemoryError>,
        mut sizes: impl Iterator<Item = usize>,
    ) -> Result<Block, MemoryError> {
        let mut tried = sizes.next().map(|bytes| allocate(&self.memory, bytes, Purpose::Log));
        while let (Some(Err(_)), Some(bytes)) = (&tried, sizes.next()) {
            tried = Some(allocate(&self.memory, bytes, Purpose::Log));
        }
        tried.expect("there is a size for each record")
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
        self.close(number);
    }

    #[inline]
    fn segment_mut(&mut self, number: u32) -> &mut Segment {
        self.segments[number as usize]
            .as_mut()
            .expect("an address leads to a segment that is there")
    }
}
