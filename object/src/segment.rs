//! The segment: a head with the page table, and pages. `docs/object-graphs.md` draws it.

use weft_transport::Shared;

use crate::assembly::{Assembly, Limits};
use crate::error::Invalid;
use crate::pages::PAGE_LEN_MAX;
use crate::types::Types;
use crate::view::View;

/// Bytes of a page within which a link can lead to a record. A longer page is one sequence, named by its start.
pub const PAGE_BYTES: usize = 4096;

/// Pages a segment may have: with what [`BODY_BYTES_MAX`] allows for them, its head fits a message of 1 MiB.
pub const PAGES_MAX: usize = 480;

/// Bytes that the pages of a segment take together, unless it has a single page: that may be longer.
pub const BODY_BYTES_MAX: usize = 255 * PAGE_BYTES;

/// Bytes of the longest head.
pub const HEAD_BYTES_MAX: usize = head_bytes(PAGES_MAX);

const MAGIC: u32 = u32::from_le_bytes(*b"WSEG");
const VERSION: u16 = 2;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 8;

/// In the header's flags: no segment of the graph follows.
const LAST: u16 = 1;

/// The logarithms of the room that a page may set aside: 256 bytes, 1 KiB, 4 KiB.
pub(crate) const ROOMS: [u8; 3] = [8, 10, 12];

/// Bytes of a head that lists `pages` pages.
pub(crate) const fn head_bytes(pages: usize) -> usize {
    HEADER_BYTES + ENTRY_BYTES * pages
}

/// A segment that is complete: nothing of it changes any more.
///
/// It is sent as its head, which is small, followed by its pages as they lie in registered memory.
#[derive(Clone, Debug)]
pub struct Segment {
    head: Vec<u8>,
    pages: Shared,
    records: u64,
}

impl Segment {
    /// A segment of these pages, which lie one behind the other in `pages`.
    pub(crate) fn new(header: Header, table: &[Entry], pages: Shared) -> Self {
        debug_assert_eq!(header.pages as usize, table.len());
        let mut head = Vec::with_capacity(head_bytes(table.len()));
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&if header.is_last { LAST } else { 0 }.to_le_bytes());
        head.extend_from_slice(&header.pages.to_le_bytes());
        head.extend_from_slice(&header.first_page.to_le_bytes());
        head.extend_from_slice(&header.root.to_le_bytes());
        head.extend_from_slice(&header.root_place.to_le_bytes());
        head.extend_from_slice(&0u16.to_le_bytes());
        for entry in table {
            head.extend_from_slice(&entry.place.to_le_bytes());
            head.extend_from_slice(&[entry.room, 0]);
            head.extend_from_slice(&entry.count.to_le_bytes());
        }
        let records = table.iter().map(|entry| u64::from(entry.count)).sum();
        Self { head, pages, records }
    }

    /// What goes ahead of the pages: at most [`HEAD_BYTES_MAX`] bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The pages, in registered memory: to be sent from where they lie.
    pub fn pages(&self) -> &Shared {
        &self.pages
    }

    /// Bytes of head and pages.
    pub fn len(&self) -> usize {
        self.head.len() + self.pages.len()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// What it has, as its receiver sees it, where it lies here, if it is all of a graph. It is checked as any other.
    ///
    /// # Errors
    /// A record leads where it may not.
    pub fn view(&self, types: &Types) -> Result<View<&[u8]>, Invalid> {
        let mut assembly = Assembly::new(types, Limits::NONE);
        assembly.add_split(&self.head, &self.pages[..])?;
        assembly.finish()
    }

    /// How many records it has; each byte of a text is one.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) pages: u32,
    /// The number of its first page in the graph; the graph's first is 1.
    pub(crate) first_page: u32,
    /// No segment of the graph follows.
    pub(crate) is_last: bool,
    /// Where the last segment says the root is, and of which type; zero if there is none.
    pub(crate) root: u32,
    pub(crate) root_place: u16,
}

/// What the table says of one page; nothing of it has been checked against a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: u16,
    /// The logarithm of the bytes that were set aside for it; zero if it takes what its records do.
    pub(crate) room: u8,
    pub(crate) count: u32,
}

impl Header {
    /// Reads the header and checks that the table is there.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Invalid> {
        let truncated = |head| Invalid::Truncated { len: bytes.len(), head };
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(truncated(HEADER_BYTES))?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if number(0) != MAGIC {
            return Err(Invalid::Magic { found: number(0) });
        }
        if short(4) != VERSION {
            return Err(Invalid::Version { found: short(4) });
        }
        if short(6) > LAST {
            return Err(Invalid::Reserved { at: 6 });
        }
        if short(22) != 0 {
            return Err(Invalid::Reserved { at: 22 });
        }
        let pages = number(8);
        if pages as usize > PAGES_MAX {
            return Err(Invalid::TooManyPages { pages });
        }
        let (first_page, root, root_place) = (number(12), number(16), short(20));
        let is_last = short(6) == LAST;
        let header = Self { pages, first_page, is_last, root, root_place };
        if bytes.len() < header.len() { Err(truncated(header.len())) } else { Ok(header) }
    }

    /// Bytes of it and the table.
    pub(crate) fn len(self) -> usize {
        head_bytes(self.pages as usize)
    }
}

impl Entry {
    /// That of `page`, of bytes that a header was read from.
    pub(crate) fn read(bytes: &[u8], page: usize) -> Result<Self, Invalid> {
        let at = head_bytes(page);
        let entry = &bytes[at..at + ENTRY_BYTES];
        if entry[3] != 0 {
            return Err(Invalid::Reserved { at: at + 3 });
        }
        let room = entry[2];
        if room != 0 && !ROOMS.contains(&room) {
            return Err(Invalid::Room { page, room });
        }
        let count = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        Ok(Self { place: u16::from_le_bytes([entry[0], entry[1]]), room, count })
    }

    /// Bytes that the page takes, if records of `stride` bytes fit it.
    pub(crate) fn extent(self, stride: usize) -> Option<u64> {
        // At most 44 bits.
        let used = u64::from(self.count) * stride as u64;
        match self.room {
            _ if self.count == 0 || used > PAGE_LEN_MAX as u64 => None,
            0 => Some(used.next_multiple_of(8)),
            room => (used <= 1 << room).then_some(1 << room),
        }
    }
}
