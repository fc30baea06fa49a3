//! The replies to a multi-request: parts of at most a message each, made of items.
//!
//! A part is a [`ReplyHead`] (items in `index`, their bytes in `length`) and its items; an item is a
//! `ReplyHead` and its bytes, at an offset that is a multiple of 8 from the start of the message.
//! Nothing pads the last item, so its value can be gathered from the log behind the rest of the
//! part ([`PartBuilder::finish_gathered`]) and gives the same bytes as if it were copied.

use std::marker::PhantomData;
use std::ops::Range;

use weft_transport::limits::{LARGE_MAX, MESSAGE_MAX};

use crate::codec::Reader;
use crate::error::{DecodeError, ReplyError};
use crate::limits::MULTI_KEYS_MAX;
use crate::operation::get::GetFoundHead;
use crate::reply::{ErrorReply, HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Items start at multiples of this many bytes.
const ALIGNMENT: usize = 8;

/// One of the replies to a multi-request, checked as a whole, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a, R> {
    message: &'a [u8],
    count: u16,
    reply: PhantomData<R>,
}

impl<'a, R: ItemReply<'a>> Part<'a, R> {
    /// Reads a part.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal of the whole request, or bytes that are no part of a
    /// reply to it.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, _) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let part = Self { message, count: head.index, reply: PhantomData };
        let mut cursor = Cursor { message, offset: HEAD_LEN };
        for _ in 0..head.index {
            let (head, body) = cursor.item()?;
            Outcome::<R>::decode(&head, body)?;
        }
        match message.len() - cursor.offset {
            0 => Ok(part),
            extra => Err(DecodeError::TrailingBytes { extra }.into()),
        }
    }

    /// How many items the part holds.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it holds none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The items, in the order in which the server came by them.
    pub const fn items(&self) -> PartItems<'a, R> {
        let cursor = Cursor { message: self.message, offset: HEAD_LEN };
        PartItems { cursor, left: self.count, reply: PhantomData }
    }
}

/// What came of one key of a multi-request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<'a, R> {
    /// The position of the key in the request. The server is a peer: look it up with a bounds check.
    pub index: usize,
    /// What came of it.
    pub outcome: Outcome<'a, R>,
    /// Where in the message the item's value lies, for whoever keeps the message instead of copying
    /// out of it.
    pub value_range: Range<usize>,
}

/// What came of one key of a multi-request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<'a, R> {
    /// It was worked off, with the answer that a request for this key alone would have got.
    Done(R),
    /// Nothing was done with it, because the replies had no more room: ask again.
    Unprocessed,
    /// It was refused or failed.
    Failed(ErrorReply<'a>),
}

/// Walks the items of a [`Part`].
#[derive(Debug, Clone)]
pub struct PartItems<'a, R> {
    cursor: Cursor<'a>,
    left: u16,
    reply: PhantomData<R>,
}

impl<'a, R: ItemReply<'a>> Iterator for PartItems<'a, R> {
    type Item = Item<'a, R>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a, R>> {
        self.left = self.left.checked_sub(1)?;
        let (head, body) = self.cursor.item().ok()?;
        Some(Item {
            index: usize::from(head.index),
            outcome: Outcome::decode(&head, body).ok()?,
            value_range: self.cursor.offset - body.len()..self.cursor.offset,
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl<'a, R: ItemReply<'a>> ExactSizeIterator for PartItems<'a, R> {}

/// A place between two items of a message.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    message: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// Reads an item's head and bytes, and steps behind them.
    #[inline]
    fn item(&mut self) -> Result<(ReplyHead, &'a [u8]), DecodeError> {
        let mut reader = Reader::new(self.message);
        reader.take(self.offset.next_multiple_of(ALIGNMENT))?;
        let head = ReplyHead::from_bytes(&reader.array()?)?;
        let body = reader.take(head.length as usize)?;
        self.offset = self.message.len() - reader.rest().len();
        Ok((head, body))
    }
}

impl<'a, R: ItemReply<'a>> Outcome<'a, R> {
    #[inline]
    fn decode(head: &ReplyHead, body: &'a [u8]) -> Result<Self, DecodeError> {
        match head.status {
            Status::Ok | Status::Absent | Status::Conflict => {
                R::from_head(head, body).map(Self::Done)
            }
            Status::Unprocessed => head.takes_no_body().map(|()| Self::Unprocessed),
            Status::Error(number) => ErrorReply::decode(number, head, body).map(Self::Failed),
        }
    }
}

/// What an item may answer: the reply to a request for its key alone.
pub trait ItemReply<'a>: Sized {
    #[doc(hidden)]
    fn head(&self, index: u16) -> ReplyHead;
    #[doc(hidden)]
    fn body(&self) -> &[u8];
    #[doc(hidden)]
    fn from_head(head: &ReplyHead, body: &'a [u8]) -> Result<Self, DecodeError>;
}

/// The item does not fit the part any more: send the part, [`clear`](PartBuilder::clear) it, and
/// push the item again. An empty part has room for every item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartFull;

/// Collects items into a part of at most [`MESSAGE_MAX`] bytes. One builder serves many parts and
/// requests; it keeps its buffer.
///
/// ```
/// use weft_protocol::{GetReply, PartBuilder, MultiGetPart, Outcome, Version};
///
/// let mut part = PartBuilder::new();
/// let found = GetReply::Found { version: Version::new(1, 7), value: b"loom" };
/// part.push(3, &found).expect("an empty part has room");
/// let message = part.finish();
///
/// let read = MultiGetPart::decode(message).expect("it was just written");
/// let item = read.items().next().expect("it holds one");
/// assert_eq!((item.index, item.outcome), (3, Outcome::Done(found)));
/// ```
#[derive(Debug, Clone)]
pub struct PartBuilder {
    bytes: Vec<u8>,
    count: u16,
}

impl PartBuilder {
    /// A part without items.
    pub fn new() -> Self {
        Self { bytes: vec![0; HEAD_LEN], count: 0 }
    }

    /// How many items the part holds.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether it holds none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the part would have if it were finished now.
    pub const fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the part would have with one more item of `value_len` bytes: what a server compares
    /// with the room it has for replies.
    pub const fn len_with(&self, value_len: usize) -> usize {
        self.bytes.len().next_multiple_of(ALIGNMENT) + HEAD_LEN + value_len
    }

    /// Adds what came of key `index`, copying its value.
    ///
    /// # Errors
    ///
    /// [`PartFull`]; the part stays as it was.
    #[inline]
    pub fn push<'a, R: ItemReply<'a>>(&mut self, index: usize, reply: &R) -> Result<(), PartFull> {
        self.push_item(reply.head(item_index(index)), reply.body())
    }

    /// Adds that key `index` was refused or failed.
    ///
    /// # Errors
    ///
    /// [`PartFull`]; the part stays as it was.
    pub fn push_error(&mut self, index: usize, error: &ErrorReply<'_>) -> Result<(), PartFull> {
        self.push_item(error.head(item_index(index)), error.sent_detail().as_bytes())
    }

    /// Adds that key `index` was left undone.
    ///
    /// # Errors
    ///
    /// [`PartFull`]; the part stays as it was.
    pub fn push_unprocessed(&mut self, index: usize) -> Result<(), PartFull> {
        let bare = ReplyHead::bare(Status::Unprocessed, Version::NONE);
        self.push_item(ReplyHead { index: item_index(index), ..bare }, &[])
    }

    /// The part's bytes.
    pub fn finish(&mut self) -> &[u8] {
        self.write_head(self.bytes.len());
        &self.bytes
    }

    /// Ends the part with the object of key `index`, whose value of `value_len` bytes the caller
    /// gathers behind the bytes that this returns. Alone in a part it may be longer
    /// than a message.
    ///
    /// # Errors
    ///
    /// [`PartFull`]; the part stays as it was.
    pub fn finish_gathered(
        &mut self,
        index: usize,
        version: Version,
        value_len: usize,
    ) -> Result<&[u8], PartFull> {
        let part_len = self.len_with(value_len);
        let found =
            ReplyHead { index: item_index(index), ..GetFoundHead::new(version, value_len).head() };
        let part_max = if self.is_empty() { LARGE_MAX } else { MESSAGE_MAX };
        self.push_head(found, part_len, part_max)?;
        self.write_head(part_len);
        Ok(&self.bytes)
    }

    /// Takes all items out.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEAD_LEN);
        self.count = 0;
    }

    #[inline]
    fn push_item(&mut self, head: ReplyHead, body: &[u8]) -> Result<(), PartFull> {
        self.push_head(head, self.len_with(body.len()), MESSAGE_MAX)?;
        self.bytes.extend_from_slice(body);
        Ok(())
    }

    /// Adds the head of an item that brings the part to `part_len` bytes, of at most `part_max`.
    #[inline]
    fn push_head(
        &mut self,
        head: ReplyHead,
        part_len: usize,
        part_max: usize,
    ) -> Result<(), PartFull> {
        if part_len > part_max || self.count == u16::MAX {
            return Err(PartFull);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes.extend_from_slice(&head.to_bytes());
        self.count += 1;
        Ok(())
    }

    fn write_head(&mut self, part_len: usize) {
        let head = ReplyHead {
            index: self.count,
            length: (part_len - HEAD_LEN) as u32,
            ..ReplyHead::bare(Status::Ok, Version::NONE)
        };
        self.bytes[..HEAD_LEN].copy_from_slice(&head.to_bytes());
    }
}

impl Default for PartBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// The index as the item's head carries it.
#[inline]
fn item_index(index: usize) -> u16 {
    debug_assert!(index < MULTI_KEYS_MAX, "a request has no key of this index");
    index as u16
}

#[cfg(test)]
mod tests;
