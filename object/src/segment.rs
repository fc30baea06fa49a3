//! The segment: a head with the page table, and pages of records. `docs/object-format.md` draws it.

use weft_transport::Shared;

use crate::error::Invalid;

/// Bytes of a page: the unit in which a segment holds records of one type.
pub const PAGE_BYTES: usize = 4096;

/// Pages a segment may have: with its head it fits a message of 1 MiB.
pub const PAGES_MAX: usize = 255;

/// Bytes of the longest head.
pub const HEAD_BYTES_MAX: usize = head_bytes(PAGES_MAX);

const MAGIC: u32 = u32::from_le_bytes(*b"WSEG");
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 8;

/// A kind of page: records without links.
const RECORDS: u8 = 1;

/// Bytes of a head that lists `pages` pages.
pub(crate) const fn head_bytes(pages: usize) -> usize {
    HEADER_BYTES + ENTRY_BYTES * pages
}

/// Bytes of a page that `count` records of `stride` bytes take in a segment's last page.
const fn used_bytes(count: usize, stride: usize) -> usize {
    (count * stride).next_multiple_of(8)
}

/// A segment that is complete: nothing of it changes any more.
///
/// It is sent as its head, which is small, followed by its pages as they lie in registered memory.
#[derive(Clone, Debug)]
pub struct Segment {
    head: Vec<u8>,
    pages: Shared,
    records: usize,
}

impl Segment {
    /// A segment of records of one type, `count` in all, in whole pages but for the last.
    pub(crate) fn of_records(pages: Shared, place: u16, stride: usize, count: usize) -> Self {
        let a_page = PAGE_BYTES / stride;
        let page_count = count.div_ceil(a_page);
        let mut head = Vec::with_capacity(head_bytes(page_count));
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&0u16.to_le_bytes());
        head.extend_from_slice(&(page_count as u32).to_le_bytes());
        head.extend_from_slice(&[0; 12]);
        let mut left = count;
        let mut len = 0;
        for page in 0..page_count {
            let here = left.min(a_page);
            left -= here;
            head.extend_from_slice(&place.to_le_bytes());
            head.extend_from_slice(&[RECORDS, 0]);
            head.extend_from_slice(&(stride as u16).to_le_bytes());
            head.extend_from_slice(&(here as u16).to_le_bytes());
            len = page * PAGE_BYTES + used_bytes(here, stride);
        }
        Self { head, pages: pages.narrow(0..len), records: count }
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

    /// How many records it has.
    pub fn records(&self) -> usize {
        self.records
    }
}

/// The page table of bytes that may come from anywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pages: usize,
}

/// What the table says of one page; nothing of it has been checked against a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) place: u16,
    pub(crate) kind: u8,
    pub(crate) stride: u16,
    pub(crate) count: u16,
}

impl Head {
    /// Reads the header and checks that the table is there.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Invalid> {
        let truncated = |head| Invalid::Truncated { len: bytes.len(), head };
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(truncated(HEADER_BYTES))?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        if number(0) != MAGIC {
            return Err(Invalid::Magic { found: number(0) });
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(Invalid::Version { found: version });
        }
        let reserved = (6..8).chain(12..HEADER_BYTES).find(|at| header[*at] != 0);
        if let Some(at) = reserved {
            return Err(Invalid::Reserved { at });
        }
        let pages = number(8);
        if pages as usize > PAGES_MAX {
            return Err(Invalid::TooManyPages { pages });
        }
        let head = Self { pages: pages as usize };
        if bytes.len() < head.len() { Err(truncated(head.len())) } else { Ok(head) }
    }

    /// Bytes of it.
    pub(crate) fn len(self) -> usize {
        head_bytes(self.pages)
    }

    pub(crate) fn pages(self) -> usize {
        self.pages
    }

    /// What the table says of `page`, of the bytes that it was read from.
    pub(crate) fn entry(self, bytes: &[u8], page: usize) -> Result<Entry, Invalid> {
        let at = head_bytes(page);
        let entry = &bytes[at..at + ENTRY_BYTES];
        if entry[3] != 0 {
            return Err(Invalid::Reserved { at: at + 3 });
        }
        Ok(Entry {
            place: u16::from_le_bytes([entry[0], entry[1]]),
            kind: entry[2],
            stride: u16::from_le_bytes([entry[4], entry[5]]),
            count: u16::from_le_bytes([entry[6], entry[7]]),
        })
    }
}

impl Entry {
    pub(crate) fn is_records(self) -> bool {
        self.kind == RECORDS
    }

    /// Bytes that the page takes as the last of its segment.
    pub(crate) fn used_bytes(self) -> usize {
        used_bytes(usize::from(self.count), usize::from(self.stride))
    }
}
