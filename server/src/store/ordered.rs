//! The keys of a table in their order: pages of sorted entries, and a sorted directory of the pages.
//!
//! A B-tree of two levels, whose keys lie in the log. An entry is the address of a record and eight bytes of its key, those behind
//! what all keys of the page begin with (prefix truncation, Bayer and Unterauer, TODS '77), so that a search in a page seldom reads a
//! record. The directory has no keys either but what tells two pages apart. Two levels are enough: with ten million keys in
//! one partition the directory is moved by 50 us for a new page, once in a hundred insertions.
//!
//! Keys are read through the function that each call is given; it is asked only for addresses that are entered.

use std::cmp::Ordering;
use std::ops::Bound;

use weft_transport::{Charge, Memory, MemoryError, Purpose};

use super::address::Address;

/// Entries of a page: 4 KiB of them.
const PAGE_ENTRIES: usize = 256;
/// Bytes of a page's entries.
const PAGE_BYTES: usize = PAGE_ENTRIES * size_of::<Entry>();
/// Pages with fewer entries are merged with the next one, if both together are at most half full.
const MERGED_BELOW: usize = PAGE_ENTRIES / 4;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Eight bytes of it, the first in the highest bits; zeroes behind its end.
    window: u64,
    /// Where its record is.
    address: Address,
}

/// Keys that follow one another.
#[derive(Debug)]
struct Page {
    /// Longer than what the keys of the page before begin with, and no longer than that of these. Empty for the first page.
    separator: Box<[u8]>,
    /// How many bytes all keys begin with; entries' windows are behind them.
    skip: usize,
    entries: Vec<Entry>,
}

/// The keys of a table, in order.
#[derive(Debug)]
pub(super) struct Ordered {
    pages: Vec<Page>,
    separator_bytes: usize,
    charge: Charge,
}

/// Where a key is, or would be. Valid until the next key is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    page: usize,
    position: usize,
}

impl Ordered {
    /// No keys, which take no memory.
    pub(super) fn new(memory: &Memory) -> Ordered {
        let charge = memory.charge(0, Purpose::Index).expect("charging nothing needs no room");
        Ordered { pages: Vec::new(), separator_bytes: 0, charge }
    }

    /// How many keys there are. Walks the pages.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pages.iter().map(|page| page.entries.len()).sum()
    }

    /// Heap memory that is held; what is charged for.
    pub(super) fn bytes(&self) -> usize {
        let directory = self.pages.capacity() * size_of::<Page>();
        directory + self.pages.len() * PAGE_BYTES + self.separator_bytes
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.pages = Vec::new();
        self.separator_bytes = 0;
        self.recharge();
    }

    /// Where `key` is, or else where it would be.
    pub(super) fn find<'k>(
        &self,
        key: &[u8],
        key_of: impl Fn(Address) -> &'k [u8],
    ) -> Result<Place, Place> {
        // The first separator is empty, so that there is one that is not above the key.
        let at = self.pages.partition_point(|page| *page.separator <= *key).saturating_sub(1);
        let Some(page) = self.pages.get(at) else { return Err(Place { page: 0, position: 0 }) };
        match page.find(key, key_of) {
            Ok(position) => Ok(Place { page: at, position }),
            Err(position) => Err(Place { page: at, position }),
        }
    }

    /// Makes room for `key` at the `place` where it would be. Returns where that is then.
    ///
    /// # Errors
    /// When there is no memory for another page; nothing has changed then.
    pub(super) fn prepare<'k>(
        &mut self,
        place: Place,
        key: &[u8],
        key_of: impl Fn(Address) -> &'k [u8],
    ) -> Result<Place, MemoryError> {
        let Some(page) = self.pages.get(place.page) else {
            self.reserve_page(0)?;
            self.pages.push(Page::new(Box::default()));
            return Ok(place);
        };
        if page.entries.len() < PAGE_ENTRIES {
            return Ok(place);
        }
        let is_last = place.page + 1 == self.pages.len() && place.position == PAGE_ENTRIES;
        // Keys that come in order fill their pages: nothing will come between.
        let middle = if is_last { PAGE_ENTRIES } else { PAGE_ENTRIES / 2 };
        let above = if is_last { key } else { key_of(page.entries[middle].address) };
        let below = key_of(page.entries[middle - 1].address);
        let separator: Box<[u8]> = above[..=common_len(below, above)].into();
        self.reserve_page(separator.len())?;
        let is_above = *key >= *separator;
        let page = &mut self.pages[place.page];
        let mut next = Page::new(separator);
        next.skip = page.skip;
        next.entries.extend(page.entries.drain(middle..));
        page.narrow(&key_of);
        next.narrow(&key_of);
        self.separator_bytes += next.separator.len();
        self.pages.insert(place.page + 1, next);
        Ok(match is_above {
            true => Place { page: place.page + 1, position: place.position - middle },
            false => place,
        })
    }

    /// Enters `key`, whose record is at `address`, at the place that [`prepare`](Self::prepare) returned.
    pub(super) fn insert<'k>(
        &mut self,
        place: Place,
        key: &[u8],
        address: Address,
        key_of: impl Fn(Address) -> &'k [u8],
    ) {
        let page = &mut self.pages[place.page];
        match page.entries.first() {
            None => page.skip = key.len(),
            Some(first) => {
                let first = &key_of(first.address)[..page.skip];
                page.widen(common_len(first, key), first);
            }
        }
        page.entries.insert(place.position, Entry { window: window(key, page.skip), address });
    }

    /// Notes that the record of the key at `place` is at `address` now.
    pub(super) fn replace(&mut self, place: Place, address: Address) {
        self.pages[place.page].entries[place.position].address = address;
    }

    /// Removes the key at `place`, whose record is still there.
    pub(super) fn remove<'k>(&mut self, place: Place, key_of: impl Fn(Address) -> &'k [u8]) {
        let entries = &mut self.pages[place.page].entries;
        entries.remove(place.position);
        let len = entries.len();
        let next_len = self.pages.get(place.page + 1).map(|next| next.entries.len());
        let is_merged = len < MERGED_BELOW
            && next_len.is_some_and(|next_len| len + next_len <= PAGE_ENTRIES / 2);
        let removed = match len {
            0 => self.pages.remove(place.page),
            _ if is_merged => {
                let mut next = self.pages.remove(place.page + 1);
                self.pages[place.page].append(&mut next, key_of);
                next
            }
            _ => return,
        };
        self.separator_bytes -= removed.separator.len();
        if let Some(first) = self.pages.first_mut() {
            self.separator_bytes -= first.separator.len();
            first.separator = Box::default();
        }
        // A directory that was long once is not kept for a few pages.
        if self.pages.len() < self.pages.capacity() / 4 {
            self.pages.shrink_to(self.pages.len() * 2);
        }
        self.recharge();
    }

    /// The addresses of all keys within bounds, in the order of the keys.
    pub(super) fn range<'k>(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        key_of: impl Fn(Address) -> &'k [u8],
    ) -> impl DoubleEndedIterator<Item = Address> {
        let from = match lower {
            Bound::Unbounded => Place { page: 0, position: 0 },
            Bound::Included(key) => self.find(key, &key_of).unwrap_or_else(|place| place),
            Bound::Excluded(key) => match self.find(key, &key_of) {
                Ok(Place { page, position }) => Place { page, position: position + 1 },
                Err(place) => place,
            },
        };
        let to = match upper {
            Bound::Unbounded => Place { page: self.pages.len(), position: 0 },
            Bound::Excluded(key) => self.find(key, &key_of).unwrap_or_else(|place| place),
            Bound::Included(key) => match self.find(key, &key_of) {
                Ok(Place { page, position }) => Place { page, position: position + 1 },
                Err(place) => place,
            },
        };
        // Bounds may be the wrong way round.
        let pages = if from < to { from.page..self.pages.len().min(to.page + 1) } else { 0..0 };
        pages.flat_map(move |at| {
            let entries = &self.pages[at].entries;
            let start = if at == from.page { from.position } else { 0 };
            let end = if at == to.page { to.position } else { entries.len() };
            entries[start..end].iter().map(|entry| entry.address)
        })
    }

    /// Room for one more page with a separator of `separator_len` bytes, in the account and in the directory.
    fn reserve_page(&mut self, separator_len: usize) -> Result<(), MemoryError> {
        let capacity = self.pages.capacity();
        let is_full = self.pages.len() == capacity;
        let grown = if is_full { (capacity * 2).max(4) } else { capacity };
        let directory = (grown - capacity) * size_of::<Page>();
        let bytes = self.bytes() + directory + PAGE_BYTES + separator_len;
        self.charge.resize(bytes as u64)?;
        self.pages.reserve_exact(grown - self.pages.len());
        Ok(())
    }

    fn recharge(&mut self) {
        let bytes = self.bytes() as u64;
        self.charge.resize(bytes).expect("it has become less");
    }
}

impl Page {
    fn new(separator: Box<[u8]>) -> Page {
        Page { separator, skip: 0, entries: Vec::with_capacity(PAGE_ENTRIES) }
    }

    fn find<'k>(&self, key: &[u8], key_of: impl Fn(Address) -> &'k [u8]) -> Result<usize, usize> {
        let Some(first) = self.entries.first() else { return Err(0) };
        if self.skip > 0 {
            let first = &key_of(first.address)[..self.skip];
            match key[..key.len().min(self.skip)].cmp(first) {
                Ordering::Less => return Err(0),
                Ordering::Greater => return Err(self.entries.len()),
                Ordering::Equal => {}
            }
        }
        let window = window(key, self.skip);
        self.entries.binary_search_by(|entry| match entry.window.cmp(&window) {
            Ordering::Equal => key_of(entry.address).cmp(key),
            different => different,
        })
    }

    /// Lets windows begin behind `skip` bytes, fewer than before or as many. All keys begin with `first`, of which windows
    /// were behind.
    fn widen(&mut self, skip: usize, first: &[u8]) {
        let added = self.skip - skip;
        if added == 0 {
            return;
        }
        let front = window(first, skip);
        for entry in &mut self.entries {
            entry.window = match added {
                0..8 => front | entry.window >> (8 * added),
                _ => front,
            };
        }
        self.skip = skip;
    }

    /// Lets windows begin where keys differ.
    fn narrow<'k>(&mut self, key_of: impl Fn(Address) -> &'k [u8]) {
        let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) else { return };
        let skip = common_len(key_of(first.address), key_of(last.address));
        if skip > self.skip {
            self.skip = skip;
            for entry in &mut self.entries {
                entry.window = window(key_of(entry.address), skip);
            }
        }
    }

    /// Takes the keys of the next page.
    fn append<'k>(&mut self, next: &mut Page, key_of: impl Fn(Address) -> &'k [u8]) {
        let first_of = |page: &Page| page.entries.first().map(|first| key_of(first.address));
        if let (Some(first), Some(other)) = (first_of(self), first_of(next)) {
            let (first, other) = (&first[..self.skip], &other[..next.skip]);
            let skip = common_len(first, other);
            self.widen(skip, first);
            next.widen(skip, other);
        } else {
            self.skip = next.skip;
        }
        self.entries.append(&mut next.entries);
    }
}

/// How many bytes both begin with.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Eight bytes of `key` behind its first `skip`.
fn window(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes).swap_bytes(),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(bytes).swap_bytes()
        }
    }
}

#[cfg(test)]
mod tests;
