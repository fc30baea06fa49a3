//! Receiving a graph, segment by segment.

#![expect(unsafe_code, reason = "takes the addresses of bytes that it keeps")]

use crate::bytes::StableBytes;
use crate::error::{Fault, Invalid};
use crate::pages::{GRAPH_PAGES_MAX, Page, Targets};
use crate::segment::{Entry, Header};
use crate::types::Types;
use crate::view::View;

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Records of all types; each byte of a text is one.
    pub records: u64,
    /// Pages. Each takes 32 bytes of the receiver's beside those that were received, which no [`Memory`](weft_transport::Memory) counts.
    pub pages: u32,
}

impl Limits {
    /// What the format allows. For bytes whose number something else has bounded.
    pub const NONE: Limits = Limits { bytes: u64::MAX, records: u64::MAX, pages: GRAPH_PAGES_MAX };
}

impl Default for Limits {
    /// 1 GiB of 1 G records in 1 M pages.
    fn default() -> Self {
        Limits { bytes: 1 << 30, records: 1 << 30, pages: 1 << 20 }
    }
}

/// The segments of a graph that have come so far, each checked when it comes, while the next is on its way. Objects are lent when all have
/// come: by [`finish`](Self::finish).
///
/// The check is one pass over the bytes of types of which not any bytes are a value, and over the page table. It does not follow links:
/// that an object of the right type begins where a link leads is seen from the page table, so cycles and sharing cost nothing, and nothing
/// recurses. Pages with links to segments that come later are gone through once more at the end.
#[derive(Debug)]
pub struct Assembly<B> {
    parts: Vec<Part<B>>,
    /// The first page of each segment but the last: of most graphs, none.
    segments: Vec<usize>,
    pages: Vec<Page>,
    types: Types,
    limits: Limits,
    bytes: u64,
    records: u64,
    /// Pages that lead to such as had not come when they were checked.
    awaiting: Vec<usize>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Receiving,
    /// With the root, and the place of its type.
    Complete(Option<(u32, u16)>),
    Failed(Invalid),
}

impl<B: StableBytes> Assembly<B> {
    /// A graph of which no segment has come.
    pub fn new(types: &Types, limits: Limits) -> Self {
        Self {
            parts: Vec::new(),
            segments: Vec::new(),
            pages: Vec::new(),
            types: types.clone(),
            limits,
            bytes: 0,
            records: 0,
            awaiting: Vec::new(),
            state: State::Receiving,
        }
    }

    /// Checks the next segments, which may come from anywhere: of each the head, and its pages behind that. Returns whether they were the last.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing comes of the graph then.
    pub fn add(&mut self, bytes: B) -> Result<bool, Invalid> {
        self.add_from(bytes, 0)
    }

    /// The same, of those that lie in `bytes` from `start` on.
    ///
    /// # Panics
    /// There are not as many bytes.
    pub(crate) fn add_from(&mut self, bytes: B, start: usize) -> Result<bool, Invalid> {
        let first_page = self.pages.len();
        let mut rest = &bytes.bytes()[start..];
        let added = loop {
            // SAFETY: the bytes are kept as part of the graph.
            match unsafe { self.check_next(rest) } {
                Ok(taken) if !taken.is_last && taken.used < taken.len => {
                    rest = &rest[taken.head_len + taken.used..];
                }
                taken => break taken.and_then(Taken::all),
            }
        };
        self.keep(added, bytes, first_page)
    }

    /// The same, with the head apart.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_split(&mut self, head: &[u8], pages: B) -> Result<bool, Invalid> {
        let first_page = self.pages.len();
        // SAFETY: the pages lie in `pages`, which is kept.
        let added = unsafe { self.check(head, pages.bytes()) }.and_then(Taken::all);
        self.keep(added, pages, first_page)
    }

    /// The graph, if its last segment has come.
    ///
    /// # Errors
    /// It has not, or something was wrong.
    pub fn finish(self) -> Result<View<B>, Invalid> {
        match self.state {
            State::Receiving => Err(Invalid::Unfinished),
            State::Failed(invalid) => Err(invalid),
            State::Complete(root) => {
                // SAFETY: all pages were checked, those that had to wait for others too, and lie in the parts.
                Ok(unsafe { View::new(self.parts, self.pages, self.types, root) })
            }
        }
    }

    fn keep(
        &mut self,
        added: Result<bool, Invalid>,
        bytes: B,
        first_page: usize,
    ) -> Result<bool, Invalid> {
        // What is wrong is kept, too: whoever has the assembly decides when it is let go of.
        self.parts.push(Part { bytes, first_page });
        if let Err(invalid) = added {
            self.state = State::Failed(invalid);
        }
        added
    }

    /// # Safety
    /// As for [`check`](Self::check).
    unsafe fn check_next(&mut self, bytes: &[u8]) -> Result<Taken, Invalid> {
        let (head, body) = bytes.split_at(Header::read(bytes)?.len());
        // SAFETY: as the caller says.
        unsafe { self.check(head, body) }
    }

    /// Checks a segment whose pages `body` begins with.
    ///
    /// # Safety
    /// `body` stays as it is, where it is, as long as the pages are used.
    unsafe fn check(&mut self, head: &[u8], body: &[u8]) -> Result<Taken, Invalid> {
        match self.state {
            State::Receiving => {}
            State::Complete(_) => return Err(Invalid::BehindTheLast),
            State::Failed(invalid) => return Err(invalid),
        }
        // Should the check of a type panic, nothing comes of the graph: the bytes are gone then, and the pages are not.
        self.state = State::Failed(Invalid::Unfinished);
        let header = Header::read(head)?;
        if head.len() != header.len() {
            return Err(Invalid::Length { expected: header.len() as u64, found: head.len() });
        }
        let first = self.pages.len();
        if header.first_page as usize != first + 1 {
            let (expected, found) = (first as u32 + 1, header.first_page);
            return Err(Invalid::OutOfOrder { expected, found });
        }
        if !header.is_last && (header.root != 0 || header.root_place != 0 || header.pages == 0) {
            return Err(Invalid::Reserved { at: if header.pages == 0 { 8 } else { 16 } });
        }
        let pages_max = self.limits.pages.min(GRAPH_PAGES_MAX).into();
        within("pages", first as u64 + u64::from(header.pages), pages_max)?;
        // SAFETY: as the caller says.
        let used = unsafe { self.lay_out(header, head, body)? };
        let bytes = self.bytes + (head.len() + used) as u64;
        self.bytes = within("bytes", bytes, self.limits.bytes)?;
        self.check_pages(first, header.is_last)?;
        if header.is_last {
            self.check_awaiting(first)?;
        } else {
            self.segments.push(first);
        }
        let root = self.root(header)?;
        self.state = if header.is_last { State::Complete(root) } else { State::Receiving };
        let (is_last, head_len, len) = (header.is_last, head.len(), body.len());
        Ok(Taken { is_last, head_len, used, len })
    }

    /// Finds where the pages of a segment lie, and how many bytes of the body they take.
    ///
    /// # Safety
    /// As for [`check`](Self::check).
    unsafe fn lay_out(
        &mut self,
        header: Header,
        head: &[u8],
        body: &[u8],
    ) -> Result<usize, Invalid> {
        if header.pages > 0 && !is_aligned(body) {
            return Err(Invalid::Misaligned);
        }
        self.pages.reserve(header.pages as usize);
        let mut at = 0;
        for page in 0..header.pages as usize {
            let entry = Entry::read(head, page)?;
            let unknown = Invalid::UnknownType { page, place: entry.place };
            let info = self.types.get(entry.place).copied().ok_or(unknown)?;
            let stride = info.stride;
            let extent = entry.extent(stride);
            let extent = extent.ok_or(Invalid::Count { page, count: entry.count, stride })?;
            let end = at + extent;
            if end > body.len() as u64 {
                return Err(Invalid::Length { expected: end, found: body.len() });
            }
            let records = self.records + u64::from(entry.count);
            self.records = within("records", records, self.limits.records)?;
            let start = at as usize;
            let bytes = &body[start..start + entry.count as usize * stride];
            // SAFETY: the body begins at a multiple of eight, and extents are such; the rest is as the caller says.
            self.pages.push(unsafe { Page::new(bytes, &info, entry.place) });
            at = end;
        }
        Ok(at as usize)
    }

    /// Checks the records of the pages from `first` on.
    fn check_pages(&mut self, first: usize, is_complete: bool) -> Result<(), Invalid> {
        // SAFETY: the pages lie in parts that are kept, or in what is being added.
        let targets = unsafe { Targets::new(&self.pages, &self.types, is_complete) };
        for page in first..self.pages.len() {
            check_page(&targets, page).map_err(|fault| fault.of(page - first))?;
            if targets.take_awaits() {
                self.awaiting.push(page);
            }
        }
        Ok(())
    }

    /// Checks the pages that led to others which have come since. Those of the last segment begin with `last`.
    fn check_awaiting(&self, last: usize) -> Result<(), Invalid> {
        // SAFETY: the pages lie in parts that are kept, or in what is being added.
        let targets = unsafe { Targets::new(&self.pages, &self.types, true) };
        for &page in &self.awaiting {
            check_page(&targets, page).map_err(|fault| {
                let before = self.segments.iter().rev().copied();
                let first = std::iter::once(last).chain(before).find(|first| *first <= page);
                fault.of(page - first.unwrap_or(0))
            })?;
        }
        Ok(())
    }

    fn root(&self, header: Header) -> Result<Option<(u32, u16)>, Invalid> {
        let Header { root, root_place: place, .. } = header;
        if root == 0 {
            return if place == 0 { Ok(None) } else { Err(Invalid::Reserved { at: 20 }) };
        }
        // SAFETY: the pages lie in parts that are kept, or in what is being added.
        let targets = unsafe { Targets::new(&self.pages, &self.types, true) };
        let found = targets.place_of(root).map_err(|fault| Invalid::Root { place, fault })?;
        if found != place {
            return Err(Invalid::Root { place, fault: Fault::OtherType { found } });
        }
        Ok(Some((root, place)))
    }
}

/// The number, if it is no more than the receiver takes.
fn within(what: &'static str, number: u64, limit: u64) -> Result<u64, Invalid> {
    if number <= limit { Ok(number) } else { Err(Invalid::Limit { what, limit }) }
}

/// What segments lie in, and the first of their pages.
#[derive(Debug)]
pub(crate) struct Part<B> {
    pub(crate) bytes: B,
    pub(crate) first_page: usize,
}

/// What was found of a segment.
#[derive(Clone, Copy, Debug)]
struct Taken {
    is_last: bool,
    head_len: usize,
    /// Bytes that its pages take, ...
    used: usize,
    /// ... of so many that there are.
    len: usize,
}

impl Taken {
    /// Whether it is the last of its graph, if nothing lies behind it.
    fn all(self) -> Result<bool, Invalid> {
        let Taken { is_last, used, len, .. } = self;
        if used == len {
            Ok(is_last)
        } else {
            Err(Invalid::Length { expected: used as u64, found: len })
        }
    }
}

/// A fault of a record of some page.
struct PageFault {
    record: usize,
    name: &'static str,
    fault: Fault,
}

impl PageFault {
    fn of(self, page: usize) -> Invalid {
        let PageFault { record, name, fault } = self;
        Invalid::Record { page, record, name, fault }
    }
}

fn check_page(targets: &Targets<'_>, page: usize) -> Result<(), PageFault> {
    let (bytes, info) = targets.bytes_of(page);
    let Some(check) = info.check else { return Ok(()) };
    let (name, check) = (info.name, check(bytes, targets));
    check.map_err(|(record, fault)| PageFault { record, name, fault })
}

/// Whether a segment may begin where `bytes` do. Bodies of messages do, in a receive buffer.
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(8)
}
