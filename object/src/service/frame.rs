//! What stands ahead of the items of a request and of a reply.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_transport::Body;

use super::error::Refusal;
use super::item::{Item, Reader, Writer};
use crate::types::Types;

/// Bytes ahead of a request's items.
pub(super) const REQUEST_BYTES: usize = 16;
/// Bytes ahead of a reply's items.
pub(super) const REPLY_BYTES: usize = 8;

/// The registry itself, which is no reference: references are numbered from 1.
pub(super) const REGISTRY: u64 = 0;

/// Of the registry: gives a reference to what is exported under a name, or agrees once more on one that was passed.
pub(super) const IMPORT: u16 = 0;
/// Of the registry: takes a reference back. A message, since nobody waits for it.
pub(super) const RELEASE: u16 = 1;

/// Bytes of a refusal's text that are sent.
const TEXT_MAX: usize = 300;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// A reference that the receiver has given, or the registry.
    pub(super) object: u64,
    /// Which method, by the receiver's number.
    pub(super) method: u16,
}

impl Request {
    /// Reads what a request begins with.
    #[inline]
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let head = body.first_chunk::<REQUEST_BYTES>()?;
        let word =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| head[at + byte]));
        let method = u16::try_from(word(8)).ok()?;
        Some(Self { object: word(0), method })
    }
}

/// A request with its items, as it is written.
pub(super) struct Outgoing<'a, I> {
    pub(super) request: Request,
    pub(super) items: I,
    /// Set when it is written: from then on it may leave.
    pub(super) written: Option<&'a AtomicBool>,
}

impl<I: Item> Body for Outgoing<'_, I> {
    #[inline]
    fn len(&self) -> usize {
        self.items.end(REQUEST_BYTES)
    }

    #[inline]
    fn write(self, buffer: &mut [u8]) {
        let mut out = Writer::new(buffer);
        out.value(self.request.object);
        out.value(u64::from(self.request.method));
        self.items.put(&mut out);
        if let Some(written) = self.written {
            written.store(true, Ordering::Relaxed);
        }
    }
}

/// What a reply says ahead of its items. Numbers are never used again for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Done,
    NoObject,
    NoMethod,
    Arguments,
    Result,
    NoName,
    OtherInterface,
    MissingMethod,
    OtherMethod,
    OtherTypes,
    TooManyReferences,
    TooManyPassed,
    Memory,
}

impl Status {
    const ALL: [Self; 13] = [
        Self::Done,
        Self::NoObject,
        Self::NoMethod,
        Self::Arguments,
        Self::Result,
        Self::NoName,
        Self::OtherInterface,
        Self::MissingMethod,
        Self::OtherMethod,
        Self::OtherTypes,
        Self::TooManyReferences,
        Self::TooManyPassed,
        Self::Memory,
    ];

    /// The status that a reply begins with.
    #[inline]
    pub(super) fn read(reply: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(*reply.first_chunk::<REPLY_BYTES>()?);
        Self::ALL.get(usize::try_from(word).ok()?).copied()
    }
}

/// A reply with its items, as it is written.
pub(super) struct Answered<I> {
    pub(super) status: Status,
    pub(super) items: I,
}

impl<I: Item> Body for Answered<I> {
    #[inline]
    fn len(&self) -> usize {
        self.items.end(REPLY_BYTES)
    }

    #[inline]
    fn write(self, buffer: &mut [u8]) {
        let mut out = Writer::new(buffer);
        out.value(self.status as u64);
        self.items.put(&mut out);
    }
}

/// A refusal as a reply.
pub(super) fn refusal(refusal: &Refusal) -> Answered<String> {
    let (status, text) = match refusal {
        Refusal::NoObject => (Status::NoObject, ""),
        Refusal::NoMethod => (Status::NoMethod, ""),
        Refusal::Arguments { what } => (Status::Arguments, what.as_str()),
        Refusal::TooManyReferences => (Status::TooManyPassed, ""),
        Refusal::Memory => (Status::Memory, ""),
        Refusal::Result { what } => (Status::Result, what.as_str()),
    };
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|end| text.is_char_boundary(*end));
    Answered { status, items: text[..end.unwrap_or(0)].to_owned() }
}

/// The refusal that a reply with this status is.
pub(super) fn read_refusal(status: Status, reply: &[u8]) -> Option<Refusal> {
    let types = Types::new();
    let mut items = Reader::new(reply, REPLY_BYTES, &types, None);
    let what = items.text().ok()?.to_owned();
    items.finish().ok()?;
    match status {
        Status::NoObject => Some(Refusal::NoObject),
        Status::NoMethod => Some(Refusal::NoMethod),
        Status::Arguments => Some(Refusal::Arguments { what }),
        Status::TooManyPassed => Some(Refusal::TooManyReferences),
        Status::Memory => Some(Refusal::Memory),
        Status::Result => Some(Refusal::Result { what }),
        _ => None,
    }
}
