//! Pages of registered memory, filled while a graph is built.

#![expect(
    unsafe_code,
    reason = "writes pages through their addresses: a bump of a pointer an object"
)]

use std::any::TypeId;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::slice;

use weft_transport::{Block, Memory, MemoryError, Purpose, Shared};

use crate::assembly::is_aligned;
use crate::error::Full;
use crate::link::Link;
use crate::pages::{self, GRAPH_PAGES_MAX, UNIT_BYTES};
use crate::segment::{BODY_BYTES_MAX, Entry, Header, PAGE_BYTES, PAGES_MAX, ROOMS, Segment};
use crate::text::{LEN_MAX, Text, TextByte};
use crate::types::Types;
use crate::wire::Wire;

/// The first block of a graph is this long, each further one as long as all before, up to [`BODY_BYTES_MAX`].
const FIRST_BLOCK_BYTES: usize = PAGE_BYTES;
/// The most that a sequence takes: it is one page, and travels in one message.
const SEQUENCE_BYTES_MAX: usize = 64 << 20;
/// A sequence that takes more of a page than this has one of its own, cut to measure.
const SHARED_PAGE_MAX: usize = PAGE_BYTES / 2;

/// Pages of a block are moved together when it is complete, if they are not more than this: a small graph of several types would be room for more, mostly.
const TIGHTENED_MAX: usize = 16 << 10;

/// Records by type, in pages of blocks.
///
/// Invariant: pages lie in blocks, one behind the other, and nothing but the arena has access to the blocks' bytes, which it has through the
/// addresses of pages alone. A block that is shared has one page, to which nothing is written.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Memory,
    purpose: Purpose,
    types: Types,
    blocks: Vec<Filling>,
    pages: Vec<Laid>,
    cursors: Vec<Cursor>,
    block_bytes: usize,
    /// There is one block, and what it has no room for is refused.
    is_one_block: bool,
}

/// A block whose pages are being filled. It becomes a segment.
#[derive(Debug)]
struct Filling {
    block: Held,
    base: NonNull<u8>,
    /// The block's, which is not asked for it: that would borrow its bytes.
    len: usize,
    used: usize,
    pages: u32,
}

#[derive(Debug)]
enum Held {
    Own(Block),
    /// Somebody else's too, who has written it before.
    Shared(Shared),
}

/// A page.
#[derive(Clone, Copy, Debug)]
struct Laid {
    base: NonNull<u8>,
    /// Bytes that records take, from its start; not kept while a cursor is on the page.
    used: u32,
    /// Bytes that they may take.
    room: u32,
    stride: u16,
    place: u16,
    /// As its entry will say.
    class: u8,
    is_shared: bool,
}

/// Where the next records of a type go.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    key: TypeId,
    /// The page's.
    base: NonNull<u8>,
    offset: u32,
    /// The page's; zero if there is no page yet.
    room: u32,
    page: u32,
    place: u16,
}

/// How far an arena of one block had come, so that what was reserved since can be [taken back](Arena::take_back).
#[derive(Debug, Default)]
pub(crate) struct Mark {
    cursors: Vec<Cursor>,
    pages: usize,
    block_used: usize,
    block_pages: u32,
}

/// Where records are: a link to the first, and its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) raw: u32,
    at: NonNull<u8>,
}

impl Position {
    /// A link to the record of this index of those that were reserved there together, if all can be led to.
    #[inline]
    pub(crate) fn link_to<T: Wire>(self, index: usize) -> Link<T> {
        let raw = self.raw + (index * (size_of::<T>() / UNIT_BYTES)) as u32;
        Link::new(NonZeroU32::new(raw).expect("no page has the number zero"))
    }
}

impl Arena {
    pub(crate) fn new(memory: &Memory, purpose: Purpose, types: &Types) -> Arena {
        Arena {
            memory: memory.clone(),
            purpose,
            types: types.clone(),
            blocks: Vec::new(),
            pages: Vec::new(),
            cursors: Vec::new(),
            block_bytes: 0,
            is_one_block: false,
        }
    }

    /// An arena that becomes one segment, whose pages take so many bytes at most; they are allocated now.
    pub(crate) fn of_one_block(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        bytes: usize,
    ) -> Result<Arena, MemoryError> {
        let mut arena = Arena::new(memory, purpose, types);
        arena.begin_block(bytes)?;
        arena.is_one_block = true;
        Ok(arena)
    }

    /// Whether it becomes one segment.
    pub(crate) fn is_one_block(&self) -> bool {
        self.is_one_block
    }

    /// Notes how far it has come, if it is one of one block.
    pub(crate) fn mark(&self, mark: &mut Mark) {
        debug_assert!(self.is_one_block);
        mark.cursors.clear();
        mark.cursors.extend_from_slice(&self.cursors);
        mark.pages = self.pages.len();
        (mark.block_used, mark.block_pages) =
            self.blocks.first().map_or((0, 0), |block| (block.used, block.pages));
    }

    /// Has its room back that was reserved since `mark` was made of it, which is written again then, as what was never written is.
    pub(crate) fn take_back(&mut self, mark: &Mark) {
        debug_assert!(self.is_one_block);
        self.cursors.clear();
        self.cursors.extend_from_slice(&mark.cursors);
        // What is used of a page that a cursor is on again is not kept in the page.
        self.pages.truncate(mark.pages);
        if let Some(block) = self.blocks.first_mut() {
            (block.used, block.pages) = (mark.block_used, mark.block_pages);
        }
    }

    /// Bytes that records and pages take so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.used as u64).sum()
    }

    /// Room for `len` records of type `T`, which are to be written at once.
    ///
    /// # Panics
    /// `T` is none of the types.
    #[inline]
    pub(crate) fn reserve<T: Wire>(&mut self, len: usize) -> Result<Position, Full> {
        let key = TypeId::of::<T>();
        let step = const { pages::step(size_of::<T>()) };
        if let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.key == key) {
            let before = cursor.offset as usize;
            // Where each record may be led to, that is no more than its size.
            let offset =
                if step == size_of::<T>() { before } else { before.next_multiple_of(step) };
            let end = offset.saturating_add(len.saturating_mul(size_of::<T>()));
            if end <= cursor.room as usize {
                cursor.offset = end as u32;
                // SAFETY: the page has `room` bytes.
                let at = unsafe { cursor.base.byte_add(offset) };
                let raw = pages::raw(cursor.page + 1, offset);
                if offset > before {
                    fill_gap::<T>(at, offset - before);
                }
                return Ok(Position { raw, at });
            }
        }
        self.reserve_in_new_page::<T>(len)
    }

    /// How many objects of type `T` one reservation may have, each of which can be led to: as many as the page of the type has room for, or as a new one has.
    #[inline]
    pub(crate) fn run<T: Wire>(&self) -> usize {
        if const { pages::step(size_of::<T>()) != size_of::<T>() } {
            return 1;
        }
        let key = TypeId::of::<T>();
        let cursor = self.cursors.iter().find(|cursor| cursor.key == key);
        let rest = cursor.map_or(0, |cursor| (cursor.room - cursor.offset) as usize);
        let room = if rest < size_of::<T>() { PAGE_BYTES } else { rest };
        room / size_of::<T>()
    }

    /// Writes a record where it was reserved.
    #[inline]
    pub(crate) fn write<T: Wire>(&mut self, at: Position, index: usize, record: T) {
        // SAFETY: positions come from `reserve`, and from `position`, with room for as many records of `T` as callers write, and a
        // record begins at a multiple of its size in a page that begins at one of eight.
        unsafe { at.at.cast::<T>().add(index).write(record) }
    }

    /// Copies bytes to where as many were reserved.
    #[inline]
    pub(crate) fn write_bytes(&mut self, at: Position, bytes: &[u8]) {
        // SAFETY: as in `write`; what is borrowed lies elsewhere, since nothing of the arena is borrowed.
        unsafe { at.at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) }
    }

    /// A copy of a text that is too long for its field.
    pub(crate) fn long_text(&mut self, text: &str) -> Result<Text, Full> {
        if text.len() >= LEN_MAX as usize {
            return Err(Full::Sequence { len: text.len(), stride: 1 });
        }
        let at = self.reserve::<TextByte>(text.len())?;
        self.write_bytes(at, text.as_bytes());
        Ok(Text::there(at.raw, text.len() as u32))
    }

    /// Records that were written.
    ///
    /// # Safety
    /// `len` records of `T` have been written from this position on.
    #[inline]
    pub(crate) unsafe fn records<T: Wire>(&self, at: Position, len: usize) -> &[T] {
        // SAFETY: as the caller says; the arena is borrowed.
        unsafe { slice::from_raw_parts(at.at.cast().as_ptr(), len) }
    }

    /// Records that were written, to be changed.
    ///
    /// # Safety
    /// As for [`records`](Self::records).
    #[inline]
    pub(crate) unsafe fn records_mut<T: Wire>(&mut self, at: Position, len: usize) -> &mut [T] {
        // SAFETY: as the caller says; the arena is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(at.at.cast().as_ptr(), len) }
    }

    /// Takes a page of `len` records of type `T` as it lies in a block of somebody else's. Returns the link to the first.
    ///
    /// # Panics
    /// `T` is none of the types, or the bytes are not as many, not a multiple of eight, or do not begin at one.
    pub(crate) fn share<T: Wire>(&mut self, bytes: &Shared, len: usize) -> Result<u32, Full> {
        let stride = size_of::<T>();
        assert!(bytes.len() == len * stride && bytes.len().is_multiple_of(8) && is_aligned(bytes));
        if bytes.len() > SEQUENCE_BYTES_MAX {
            return Err(Full::Sequence { len, stride });
        }
        if self.pages.len() >= GRAPH_PAGES_MAX as usize {
            return Err(Full::Graph);
        }
        let cursor = self.cursor::<T>();
        let (place, used) = (self.cursors[cursor].place, bytes.len() as u32);
        let base: NonNull<u8> = NonNull::from(&**bytes).cast();
        let (block, len) = (Held::Shared(bytes.clone()), bytes.len());
        // Full, so that the next page is in another block: a small one, or what the one before has left would be lost again and again.
        self.block_bytes = 0;
        self.blocks.push(Filling { block, base, len, used: len, pages: PAGES_MAX as u32 });
        let page = self.pages.len() as u32;
        let (room, stride) = (used, stride as u16);
        self.pages.push(Laid { base, used, room, stride, place, class: 0, is_shared: true });
        Ok(pages::raw(page + 1, 0))
    }

    /// The position to which a link leads, if `len` records of type `T` were reserved there.
    pub(crate) fn position<T: Wire>(&self, raw: u32, len: usize) -> Option<Position> {
        let (page, offset) = pages::page_and_offset(raw);
        let laid = self.pages.get(page).filter(|laid| !laid.is_shared)?;
        let is_type = self.types.get(laid.place)?.type_id == TypeId::of::<T>();
        let is_slot = offset.is_multiple_of(size_of::<T>());
        let cursor =
            self.cursors.iter().find(|cursor| cursor.room > 0 && cursor.page as usize == page);
        let used = cursor.map_or(laid.used, |cursor| cursor.offset) as usize;
        let is_within = offset.checked_add(len.checked_mul(size_of::<T>())?)? <= used;
        (is_type && is_slot && is_within).then(|| self.position_of(raw))
    }

    /// The position to which a link leads that was made from one.
    ///
    /// # Panics
    /// Such a link leads beyond all pages.
    #[inline]
    pub(crate) fn position_of(&self, raw: u32) -> Position {
        let (page, offset) = pages::page_and_offset(raw);
        let laid = &self.pages[page];
        debug_assert!(offset < laid.room as usize);
        // SAFETY: an offset that a link has is below what the page has, or was found to be.
        Position { raw, at: unsafe { laid.base.byte_add(offset) } }
    }

    /// The segments, complete, of which the last says where the root is.
    pub(crate) fn finish(mut self, root: u32) -> Vec<Segment> {
        self.settle_cursors();
        let root_place =
            self.pages.get(pages::page_and_offset(root).0).map_or(0, |laid| laid.place);
        let (mut first, count) = (0, self.blocks.len());
        let header = |first: usize, is_last: bool| {
            let (root, root_place) = if is_last { (root, root_place) } else { (0, 0) };
            Header { pages: 0, first_page: first as u32 + 1, is_last, root, root_place }
        };
        let mut segments = Vec::with_capacity(count);
        for (at, filling) in self.blocks.into_iter().enumerate() {
            let Filling { block, base, used, pages, .. } = filling;
            let mut block = match block {
                Held::Own(block) => block,
                Held::Shared(shared) => {
                    let table = [self.pages[first].entry()];
                    let header = Header { pages: 1, ..header(first, at + 1 == count) };
                    segments.push(Segment::new(header, &table, shared));
                    first += 1;
                    continue;
                }
            };
            let laid = &mut self.pages[first..first + pages as usize];
            // First of all, so that what is moved leaves nothing of it behind.
            laid.iter().for_each(|page| clear_transient(&self.types, page));
            let used = if is_worth_tightening(laid, used) { tighten(laid, base) } else { used };
            for page in &*laid {
                let rest = page.extent() - page.used as usize;
                // SAFETY: the page has so many bytes. What no record takes is sent as well, so it must not be what memory held.
                unsafe { page.base.byte_add(page.used as usize).write_bytes(0, rest) };
            }
            block.mark_touched(used);
            let table: Vec<Entry> = laid.iter().map(Laid::entry).collect();
            let header = Header { pages, ..header(first, at + 1 == count) };
            segments.push(Segment::new(header, &table, block.freeze().narrow(0..used)));
            first += pages as usize;
        }
        segments
    }

    /// Has pages know what is used of them.
    fn settle_cursors(&mut self) {
        for cursor in self.cursors.iter().filter(|cursor| cursor.room > 0) {
            self.pages[cursor.page as usize].used = cursor.offset;
        }
    }

    #[cold]
    fn reserve_in_new_page<T: Wire>(&mut self, len: usize) -> Result<Position, Full> {
        let stride = size_of::<T>();
        let bytes = len.checked_mul(stride).filter(|bytes| *bytes <= SEQUENCE_BYTES_MAX);
        let bytes = bytes.ok_or(Full::Sequence { len, stride })?;
        if self.pages.len() >= GRAPH_PAGES_MAX as usize {
            return Err(Full::Graph);
        }
        let cursor = self.cursor::<T>();
        let Cursor { place, room: before, .. } = self.cursors[cursor];
        let class = if bytes > SHARED_PAGE_MAX { 0 } else { class_for(bytes, before as usize) };
        let room = if class == 0 { bytes } else { 1 << class };
        let extent = room.next_multiple_of(8);
        let filling = self.block_for(extent)?;
        // SAFETY: the block has room for the page.
        let base = unsafe { filling.base.byte_add(filling.used) };
        filling.used += extent;
        filling.pages += 1;
        let page = self.pages.len() as u32;
        let (used, room, stride) = (bytes as u32, room as u32, stride as u16);
        let is_shared = false;
        self.pages.push(Laid { base, used, room, stride, place, class, is_shared });
        if class != 0 {
            self.settle_cursors();
            let key = self.cursors[cursor].key;
            self.cursors[cursor] = Cursor { key, base, offset: used, room, page, place };
        }
        Ok(Position { raw: pages::raw(page + 1, 0), at: base })
    }

    /// The cursor of a type, by its place among the cursors.
    fn cursor<T: Wire>(&mut self) -> usize {
        let key = TypeId::of::<T>();
        if let Some(cursor) = self.cursors.iter().position(|cursor| cursor.key == key) {
            return cursor;
        }
        let place = self.types.place::<T>();
        let place = place.unwrap_or_else(|| panic!("{} is none of the graph's types", T::NAME));
        let base = NonNull::dangling();
        self.cursors.push(Cursor { key, base, offset: 0, room: 0, page: 0, place });
        self.cursors.len() - 1
    }

    /// A block with room for a page of so many bytes.
    fn block_for(&mut self, extent: usize) -> Result<&mut Filling, Full> {
        let fits = |filling: &Filling| {
            let room = filling.len.min(BODY_BYTES_MAX) - filling.used.min(BODY_BYTES_MAX);
            extent <= room && (filling.pages as usize) < PAGES_MAX
        };
        if !self.blocks.last().is_some_and(fits) {
            if self.is_one_block {
                return Err(Full::Segment);
            }
            self.begin_block(
                self.block_bytes.clamp(FIRST_BLOCK_BYTES, BODY_BYTES_MAX).max(extent),
            )?;
        }
        Ok(self.blocks.last_mut().expect("one was just pushed if there was none"))
    }

    fn begin_block(&mut self, bytes: usize) -> Result<(), MemoryError> {
        let mut block = self.memory.allocate(bytes.next_multiple_of(PAGE_BYTES), self.purpose)?;
        let len = block.len();
        self.block_bytes += len;
        let base = NonNull::from(&mut *block).cast();
        let block = Held::Own(block);
        self.blocks.push(Filling { block, base, len, used: 0, pages: 0 });
        Ok(())
    }
}

impl Laid {
    fn extent(&self) -> usize {
        (self.room as usize).next_multiple_of(8)
    }

    fn entry(&self) -> Entry {
        let count = self.used / u32::from(self.stride);
        Entry { place: self.place, room: self.class, count }
    }
}

/// Whether the pages of a block are few bytes, and much of these is room that no record takes.
fn is_worth_tightening(laid: &[Laid], used: usize) -> bool {
    let records_bytes = || laid.iter().map(|page| page.used as usize).sum::<usize>();
    used <= TIGHTENED_MAX && records_bytes() < used - used / 8
}

/// Moves the pages of a block together, each cut to its records: links count pages, so that they lead where they led. Returns how many bytes the pages take.
fn tighten(laid: &mut [Laid], base: NonNull<u8>) -> usize {
    let mut end = 0;
    for page in laid {
        // SAFETY: the page moves down or stays, in the block which it lies in, behind those before it.
        let to = unsafe { base.byte_add(end) };
        // SAFETY: as above; both have the bytes, and may overlap.
        unsafe { to.copy_from(page.base, page.used as usize) };
        (page.base, page.room, page.class) = (to, page.used, 0);
        end += page.extent();
    }
    end
}

/// Zeroes what stays home of a page's records: they are complete, and about to leave.
fn clear_transient(types: &Types, page: &Laid) {
    let info = types.get(page.place).expect("pages are of the graph's types");
    let Some(clear) = info.clear_transient else { return };
    // SAFETY: so many bytes of records were written there, and nobody else has access to them.
    let records = unsafe { slice::from_raw_parts_mut(page.base.as_ptr(), page.used as usize) };
    records.chunks_exact_mut(info.stride).for_each(clear);
}

/// Fills the `gap` bytes before a sequence with records, which nobody leads to: zero in a text, and otherwise the one before again.
#[cold]
fn fill_gap<T: Wire>(at: NonNull<u8>, gap: usize) {
    let start = at.as_ptr().wrapping_sub(gap);
    if TypeId::of::<T>() == TypeId::of::<TextByte>() {
        // SAFETY: the gap lies in the page, behind records.
        return unsafe { start.write_bytes(0, gap) };
    }
    for record in (0..gap).step_by(size_of::<T>()) {
        let to = start.wrapping_add(record);
        // SAFETY: a gap is behind a record, since it has less bytes than a page's first step, and both lie in the page.
        unsafe { to.copy_from_nonoverlapping(to.wrapping_sub(size_of::<T>()), size_of::<T>()) };
    }
}

/// The class of a type's next page, after one of so much room: the first are small, so that a small graph of many types is small.
fn class_for(bytes: usize, before: usize) -> u8 {
    let [.., largest] = ROOMS;
    let fitting = |class: &u8| 1 << class > before && 1 << class >= bytes;
    ROOMS.into_iter().find(fitting).unwrap_or(largest)
}
