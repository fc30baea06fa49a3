//! Where links lead.

#![expect(unsafe_code, reason = "lends validated records by the addresses of their pages")]

use std::any::TypeId;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use crate::error::Fault;
use crate::segment::PAGE_BYTES;
use crate::text::TextByte;
use crate::types::{TypeInfo, Types};
use crate::wire::Wire;

/// Links count in these: records that can be linked to begin at multiples of it.
pub(crate) const UNIT_BYTES: usize = 4;
/// Bits of a link that say where in its page.
pub(crate) const UNIT_BITS: u32 = (PAGE_BYTES / UNIT_BYTES).trailing_zeros();
/// Pages that a graph may have: their numbers begin at 1, and have the rest of a link's bits.
pub(crate) const GRAPH_PAGES_MAX: u32 = (1 << (u32::BITS - UNIT_BITS)) - 1;

/// Bytes of all records of a page.
pub(crate) const PAGE_LEN_MAX: usize = u32::MAX as usize;

/// A link as it is written: a page's number above an offset in units. Zero leads nowhere.
pub(crate) const fn raw(page: u32, offset: usize) -> u32 {
    page << UNIT_BITS | (offset / UNIT_BYTES) as u32
}

/// The place of the page that a link leads to, and where in it. Those of zero are beyond all pages.
#[inline]
pub(crate) fn page_and_offset(raw: u32) -> (usize, usize) {
    ((raw >> UNIT_BITS).wrapping_sub(1) as usize, offset_of(raw))
}

/// Records of one type, one behind the other.
///
/// Invariant: `len` bytes of records of the type begin at `base`, which is aligned to eight bytes. They are initialized
/// and stay what they are as long as whoever made the page keeps them; whether they are valid is another matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    base: NonNull<u8>,
    /// The type's, by which a reader knows its own.
    key: TypeId,
    /// Bytes of all records.
    len: u32,
    place: u16,
}

// SAFETY: bytes that nobody changes.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// The page whose records are these `bytes`, which begin at a multiple of eight.
    ///
    /// # Safety
    /// Whoever has the page keeps the bytes, which stay as they are, and uses no record before all were checked.
    pub(crate) unsafe fn new(bytes: &[u8], info: &TypeInfo, place: u16) -> Page {
        debug_assert!(bytes.as_ptr().addr().is_multiple_of(8));
        debug_assert!(bytes.len().is_multiple_of(info.stride) && bytes.len() <= PAGE_LEN_MAX);
        let (key, len) = (info.type_id, bytes.len() as u32);
        Page { base: NonNull::from(bytes).cast(), key, len, place }
    }

    /// Where in `bytes`, in which it lies, it begins.
    pub(crate) fn offset_in(&self, bytes: &[u8]) -> usize {
        self.base.as_ptr().addr() - bytes.as_ptr().addr()
    }

    /// The same page in a copy of the bytes in which it begins at `offset`.
    ///
    /// # Safety
    /// As for [`new`](Self::new), of the copy.
    pub(crate) unsafe fn moved(&self, copy: &[u8], offset: usize) -> Page {
        Page { base: NonNull::from(&copy[offset..]).cast(), ..*self }
    }
}

/// Links that lead to records of one page: so many from the first on, of which those do that lead to where a record begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    first: u32,
    count: u32,
}

impl Bounds {
    /// Those of the page of a link that leads to a record of type `T`, whose records take `len` bytes.
    fn of<T: Wire>(raw: u32, len: u32) -> Bounds {
        let units = (len - size_of::<T>() as u32) / UNIT_BYTES as u32 + 1;
        Bounds { first: raw >> UNIT_BITS << UNIT_BITS, count: units.min(1 << UNIT_BITS) }
    }

    /// Without a branch.
    #[inline]
    pub(crate) fn have<T: Wire>(self, raw: u32) -> bool {
        let units = const { step(size_of::<T>()) / UNIT_BYTES } as u32;
        let unit = raw & ((1 << UNIT_BITS) - 1);
        (raw.wrapping_sub(self.first) < self.count) & unit.is_multiple_of(units)
    }
}

/// What links may lead to: the pages of a graph, as far as they are there.
#[derive(Debug)]
pub struct Targets<'a> {
    pages: &'a [Page],
    types: &'a Types,
    is_complete: bool,
    /// A link leads to a page that may still come.
    awaits: Cell<bool>,
}

impl<'a> Targets<'a> {
    /// Of all pages, or of those that have come so far.
    ///
    /// # Safety
    /// The bytes of the pages are kept for `'a`.
    #[inline]
    pub(crate) unsafe fn new(
        pages: &'a [Page],
        types: &'a Types,
        is_complete: bool,
    ) -> Targets<'a> {
        Targets { pages, types, is_complete, awaits: Cell::new(false) }
    }

    /// Of no pages: for values that lie by themselves.
    #[inline]
    pub(crate) fn none(types: &'a Types) -> Targets<'a> {
        Targets { pages: &[], types, is_complete: true, awaits: Cell::new(false) }
    }

    /// Whether something led to a page that is not there yet since this was asked last.
    pub(crate) fn take_awaits(&self) -> bool {
        self.awaits.take()
    }

    /// Looks whether `len` records of type `T` begin where a link leads. A page that may still come is taken for good.
    #[inline]
    pub(crate) fn check<T: Wire>(&self, raw: u32, len: u32) -> Result<(), Fault> {
        match self.locate::<T>(raw, len) {
            Ok(_) => Ok(()),
            Err(fault) => self.unless_awaited(fault),
        }
    }

    /// Looks whether a record of type `T` begins where a link leads, and which other links lead to one in the same page. One that may still come is taken for
    /// good, alone.
    #[inline]
    pub(crate) fn bounds<T: Wire>(&self, raw: u32) -> Result<Bounds, Fault> {
        match self.page_of::<T>(raw) {
            Ok(page) => {
                let bounds = Bounds::of::<T>(raw, page.len);
                if bounds.have::<T>(raw) { Ok(bounds) } else { Err(self.misplaced::<T>(raw)) }
            }
            Err(fault) => self.unless_awaited(fault).map(|()| Bounds::default()),
        }
    }

    /// Looks whether a record begins where a link leads, of whichever type.
    pub(crate) fn check_any(&self, raw: u32) -> Result<(), Fault> {
        match self.locate_any(raw) {
            Ok(_) => Ok(()),
            Err(fault) => self.unless_awaited(fault),
        }
    }

    /// Looks whether a text of `len` bytes begins where a link leads, and ends where a character does.
    #[inline]
    pub(crate) fn check_text(&self, raw: u32, len: u32) -> Result<(), Fault> {
        match self.locate_text(raw, len) {
            Ok(_) => Ok(()),
            Err(fault) => self.unless_awaited(fault),
        }
    }

    /// How many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The bytes of a page's records, and their type.
    pub(crate) fn bytes_of(&self, page: usize) -> (&'a [u8], &'a TypeInfo) {
        let page = &self.pages[page];
        let info = self.types.get(page.place).expect("pages are of types that are known");
        // SAFETY: the page's invariant, and they are kept.
        let bytes = unsafe { slice::from_raw_parts(page.base.as_ptr(), page.len as usize) };
        (bytes, info)
    }

    /// The place of the type of a page's records.
    pub(crate) fn place_at(&self, page: usize) -> u16 {
        self.pages[page].place
    }

    /// The type of what a link leads to, whichever it is, by place.
    pub(crate) fn place_of(&self, raw: u32) -> Result<u16, Fault> {
        self.locate_any(raw).map(|page| page.place)
    }

    #[inline]
    fn page(&self, raw: u32) -> Result<&'a Page, Fault> {
        // Zero, which is no page, is beyond all.
        let number = raw >> UNIT_BITS;
        let page = self.pages.get((number as usize).wrapping_sub(1));
        page.ok_or(Fault::NoPage { page: number })
    }

    /// The page that a link leads to, of records of type `T`.
    #[inline]
    fn page_of<T: Wire>(&self, raw: u32) -> Result<&'a Page, Fault> {
        let page = self.page(raw)?;
        let is_it = page.key == TypeId::of::<T>();
        if is_it { Ok(page) } else { Err(Fault::OtherType { found: page.place }) }
    }

    /// What is wrong with a link into a page of its type.
    #[cold]
    fn misplaced<T: Wire>(&self, raw: u32) -> Fault {
        self.locate::<T>(raw, 1).err().unwrap_or(Fault::Between)
    }

    #[inline]
    fn locate<T: Wire>(&self, raw: u32, len: u32) -> Result<NonNull<T>, Fault> {
        let page = self.page_of::<T>(raw)?;
        let offset = offset_of(raw);
        if !offset.is_multiple_of(size_of::<T>()) {
            return Err(Fault::Between);
        }
        // A record is no longer than 4 KiB, so this has 44 bits at most.
        if offset as u64 + u64::from(len) * size_of::<T>() as u64 > u64::from(page.len) {
            return Err(Fault::Beyond);
        }
        // SAFETY: the slot is within the page, or one behind it if the length is zero.
        Ok(unsafe { page.base.byte_add(offset).cast() })
    }

    #[inline]
    fn locate_text(&self, raw: u32, len: u32) -> Result<NonNull<u8>, Fault> {
        let first = self.locate::<TextByte>(raw, len)?.cast::<u8>();
        let page = self.page(raw)?;
        let end = offset_of(raw) + len as usize;
        // SAFETY: `locate` has found that the text is within the page; `end` is looked at if it is, too.
        let (starts, ends) = unsafe {
            let ends = end == page.len as usize || is_boundary(*page.base.byte_add(end).as_ptr());
            (len == 0 || is_boundary(*first.as_ptr()), ends)
        };
        if starts && ends { Ok(first) } else { Err(Fault::Text) }
    }

    fn locate_any(&self, raw: u32) -> Result<&'a Page, Fault> {
        let page = self.page(raw)?;
        // Pages are made of types that are known.
        let info = self.types.get(page.place).ok_or(Fault::OtherType { found: page.place })?;
        // A byte of a text is no object.
        if info.type_id == TypeId::of::<TextByte>() {
            return Err(Fault::OtherType { found: page.place });
        }
        let offset = offset_of(raw);
        if !offset.is_multiple_of(info.stride) {
            return Err(Fault::Between);
        }
        let is_within = offset < page.len as usize;
        if is_within { Ok(page) } else { Err(Fault::Beyond) }
    }

    #[cold]
    fn unless_awaited(&self, fault: Fault) -> Result<(), Fault> {
        match fault {
            Fault::NoPage { page } if page != 0 && !self.is_complete => {
                self.awaits.set(true);
                Ok(())
            }
            fault => Err(fault),
        }
    }
}

/// Pages all of which were checked: what links lead to may be used.
#[derive(Debug)]
pub(crate) struct Checked<'a>(Targets<'a>);

impl<'a> Checked<'a> {
    /// # Safety
    /// Every page was checked, with all of them there.
    #[inline]
    pub(crate) unsafe fn new(targets: Targets<'a>) -> Checked<'a> {
        Checked(targets)
    }

    /// The records to which a link leads, if such records are there.
    #[inline]
    pub(crate) fn records<T: Wire>(&self, raw: u32, len: u32) -> Result<&'a [T], Fault> {
        let first = self.0.locate::<T>(raw, len)?;
        // SAFETY: `len` records of `T` begin there, which are valid and kept.
        Ok(unsafe { slice::from_raw_parts(first.as_ptr(), len as usize) })
    }

    /// The text to which a link leads, if there is one.
    #[inline]
    pub(crate) fn text(&self, raw: u32, len: u32) -> Result<&'a str, Fault> {
        let first = self.0.locate_text(raw, len)?;
        // SAFETY: the page is UTF-8 as a whole, and the text begins and ends where characters do.
        Ok(unsafe { str::from_utf8_unchecked(slice::from_raw_parts(first.as_ptr(), len as usize)) })
    }

    /// All records of a page, if they are of type `T`.
    pub(crate) fn page<T: Wire>(&self, page: usize) -> Option<&'a [T]> {
        let page = &self.0.pages[page];
        if page.key != TypeId::of::<T>() {
            return None;
        }
        let count = page.len as usize / size_of::<T>();
        // SAFETY: the page's invariant; they are valid, kept, and a `Wire` type is aligned to eight bytes at most.
        Some(unsafe { slice::from_raw_parts(page.base.cast().as_ptr(), count) })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.pages.len()
    }

    /// For links that are followed one after the other.
    pub(crate) fn following<T: Wire>(self) -> Following<'a, T> {
        let (base, bounds) = (NonNull::dangling(), Bounds::default());
        Following { pages: self, base, bounds, records: PhantomData }
    }
}

/// Follows links to records of type `T`, most of which lead to the page to which the one before led: they are compared with its bounds, without a look into the table.
///
/// Invariant: records of `T`, which are valid and kept, begin where links within the bounds lead in the page at `base`.
#[derive(Debug)]
pub(crate) struct Following<'a, T> {
    pages: Checked<'a>,
    base: NonNull<u8>,
    bounds: Bounds,
    records: PhantomData<fn() -> T>,
}

impl<'a, T: Wire> Following<'a, T> {
    /// The record to which a link leads, if there is one.
    #[inline(always)]
    pub(crate) fn get(&mut self, raw: u32) -> Result<&'a T, Fault> {
        if !self.bounds.have::<T>(raw) {
            self.turn_to(raw)?;
        }
        // SAFETY: the link is within the bounds.
        Ok(unsafe { self.base.byte_add(offset_of(raw)).cast().as_ref() })
    }

    #[inline(never)]
    fn turn_to(&mut self, raw: u32) -> Result<(), Fault> {
        let targets = &self.pages.0;
        let page = targets.page_of::<T>(raw)?;
        let bounds = Bounds::of::<T>(raw, page.len);
        if !bounds.have::<T>(raw) {
            return Err(targets.misplaced::<T>(raw));
        }
        (self.base, self.bounds) = (page.base, bounds);
        Ok(())
    }
}

/// Records that a link can lead to begin at multiples of this, of a page of records of `stride` bytes.
#[inline]
pub(crate) const fn step(stride: usize) -> usize {
    match stride % UNIT_BYTES {
        0 => stride,
        2 => 2 * stride,
        _ => UNIT_BYTES * stride,
    }
}

#[inline]
fn offset_of(raw: u32) -> usize {
    (raw & ((1 << UNIT_BITS) - 1)) as usize * UNIT_BYTES
}

/// Whether a character may begin with this byte.
#[inline]
fn is_boundary(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}
