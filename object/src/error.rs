//! What can be wrong with bytes that claim to be objects.

use weft_transport::MemoryError;

use crate::fingerprint::Fingerprint;

/// Why bytes are no segment, or segments no graph. Nothing of them has been used.
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
        expected: u64,
        /// What there is.
        found: usize,
    },
    /// A type that was not agreed on.
    #[error("page {page} holds type {place}, which was not agreed on")]
    UnknownType {
        /// The page, by its place in the segment.
        page: usize,
        /// The type's place in the list.
        place: u16,
    },
    /// Room for a page that no page has.
    #[error("page {page} sets 2^{room} bytes aside, which no page does")]
    Room {
        /// The page.
        page: usize,
        /// The logarithm it claims.
        room: u8,
    },
    /// More records than fit, or none.
    #[error("page {page} claims {count} records of {stride} bytes")]
    Count {
        /// The page.
        page: usize,
        /// How many it claims.
        count: u32,
        /// Bytes of each.
        stride: usize,
    },
    /// A record that is no value of its type, or leads where it may not.
    #[error("record {record} of page {page} is no valid {name}: {fault}")]
    Record {
        /// The page, by its place in its segment.
        page: usize,
        /// The record in the page; in a text, the byte.
        record: usize,
        /// The type.
        name: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The bytes do not begin at a multiple of eight.
    #[error("the segment is not aligned to eight bytes")]
    Misaligned,
    /// Not the segment that comes next.
    #[error("a segment begins with page {found} of its graph, where page {expected} is next")]
    OutOfOrder {
        /// The page that is next.
        expected: u32,
        /// The page it claims to begin with.
        found: u32,
    },
    /// The last segment was there already.
    #[error("a segment follows the graph's last")]
    BehindTheLast,
    /// The last segment has not come.
    #[error("the graph's last segment is missing")]
    Unfinished,
    /// The root is not where it is said to be.
    #[error("the root is no object of type {place}: {fault}")]
    Root {
        /// The place of the type it should have.
        place: u16,
        /// What is wrong.
        fault: Fault,
    },
    /// More than the receiver takes.
    #[error("the graph has more than {limit} {what}, which is the limit here")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much is taken.
        limit: u64,
    },
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its bytes are no value of its type.
    #[error("its bytes are no value")]
    Value,
    /// A text that is not UTF-8, or whose end is in the middle of a character.
    #[error("a text is not UTF-8")]
    Text,
    /// A link to a page that the graph does not have.
    #[error("it leads to page {page}, which there is not")]
    NoPage {
        /// The page's number in the graph.
        page: u32,
    },
    /// A link to an object of another type.
    #[error("it leads to an object of type {found}")]
    OtherType {
        /// The place of the type that is there.
        found: u16,
    },
    /// A link into the middle of an object.
    #[error("it leads into the middle of an object")]
    Between,
    /// A field that stays home has come along.
    #[error("a field that stays home holds something")]
    Transient,
    /// A link beyond the objects of its page, or a sequence that ends there.
    #[error("it leads beyond the end of its page")]
    Beyond,
}

/// A record for which the writer has no room.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The segment has all the records it may have: freeze it and begin another.
    #[error("the segment is full")]
    Segment,
    /// The graph has as many pages as links can name: 4,194,303.
    #[error("the graph is full")]
    Graph,
    /// A sequence with more elements or bytes than one may have.
    #[error("a sequence of {len} elements of {stride} bytes")]
    Sequence {
        /// How many elements.
        len: usize,
        /// Bytes of each.
        stride: usize,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// The root of a graph is of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the graph's root is {}, not {expected}", found.unwrap_or("not there"))]
pub struct OtherRoot {
    /// The type that was asked for.
    pub expected: &'static str,
    /// The root's type, if there is a root.
    pub found: Option<&'static str>,
}

/// Two sides that do not mean the same types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    #[error("type {place} is {name} here ({ours}) and {theirs_name} there ({theirs})")]
    Layout {
        /// The place in the peer's list.
        place: usize,
        /// Its name here.
        name: String,
        /// Its fingerprint here.
        ours: Fingerprint,
        /// Its fingerprint there.
        theirs: Fingerprint,
        /// Its name there.
        theirs_name: String,
    },
    /// What the peer said of its types cannot be read.
    #[error("what the peer says of its types ends in the middle of one, or has more than 65,535")]
    Unreadable,
}
