//! What can be wrong with bytes that claim to be objects.

use weft_transport::MemoryError;

use crate::fingerprint::Fingerprint;

/// Why bytes are no segment. Nothing of them has been used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Shorter than the head it has or announces.
    #[error("a segment of {len} bytes ends within its head of {head}")]
    Truncated {
        /// Bytes there are.
        len: usize,
        /// Bytes the head has at least.
        head: usize,
    },
    /// Does not begin as a segment does.
    #[error("the bytes are no segment: they begin with {found:#010x}")]
    Magic {
        /// The first four bytes, as a little-endian number.
        found: u32,
    },
    /// A version of the format that is not read here.
    #[error("segment format {found} is not read here")]
    Version {
        /// The version.
        found: u16,
    },
    /// A field that is zero in this version is not.
    #[error("the field at byte {at} is reserved")]
    Reserved {
        /// Where it lies in the segment.
        at: usize,
    },
    /// More pages than a segment may have.
    #[error("a segment of {pages} pages")]
    TooManyPages {
        /// How many it claims.
        pages: u32,
    },
    /// The pages do not fill the bytes that follow the head exactly.
    #[error("the pages take {expected} bytes, and {found} follow the head")]
    Length {
        /// What the page table adds up to.
        expected: usize,
        /// What there is.
        found: usize,
    },
    /// A type that was not agreed on.
    #[error("page {page} holds type {place}, which was not agreed on")]
    UnknownType {
        /// The page.
        page: usize,
        /// The type's place in the list.
        place: u16,
    },
    /// A kind of page that is not read here.
    #[error("page {page} is of kind {kind}, which is not read here")]
    UnknownKind {
        /// The page.
        page: usize,
        /// The kind.
        kind: u8,
    },
    /// Records of another size than the type's.
    #[error("page {page} holds records of {found} bytes, and {name} has {expected}")]
    Stride {
        /// The page.
        page: usize,
        /// The type.
        name: &'static str,
        /// Its size.
        expected: usize,
        /// The page's.
        found: u16,
    },
    /// More records than fit, or none.
    #[error("page {page} claims {count} records of {stride} bytes")]
    Count {
        /// The page.
        page: usize,
        /// How many it claims.
        count: u16,
        /// Bytes of each.
        stride: usize,
    },
    /// A record that is no value of its type.
    #[error("record {record} of page {page} is no valid {name}")]
    Value {
        /// The page.
        page: usize,
        /// The record in the page.
        record: usize,
        /// The type.
        name: &'static str,
    },
    /// The bytes do not begin at a multiple of eight.
    #[error("the segment is not aligned to eight bytes")]
    Misaligned,
}

/// A record for which the writer has no room.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The segment has all the pages it may have: freeze it and begin another.
    #[error("the segment is full")]
    Segment,
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Two sides that do not mean the same types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TypesDiffer {
    /// Not even as many.
    #[error("{ours} types here and {theirs} there: the two sides run different programs")]
    Count {
        /// Types here.
        ours: usize,
        /// Types there.
        theirs: usize,
    },
    /// A type has another layout, or another type is in its place.
    #[error(
        "type {place} is {name} here ({ours}) and {theirs_name} there ({theirs}): the two sides \
         run different programs"
    )]
    Layout {
        /// The place in the list.
        place: usize,
        /// Its name here.
        name: &'static str,
        /// Its fingerprint here.
        ours: Fingerprint,
        /// Its fingerprint there.
        theirs: Fingerprint,
        /// The name of what the other side means, if that is known here.
        theirs_name: &'static str,
    },
}
