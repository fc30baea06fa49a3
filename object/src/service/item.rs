//! Items of a request or a reply: one after the other, each at a multiple of eight bytes, with zeros between.

use weft_transport::Connection;

use crate::cast;
use crate::types::Types;
use crate::wire::Wire;

use super::error::Malformed;
use super::services::Services;

/// Each item begins at a multiple of this, so that whatever is received can be used where it lies.
const ALIGN: usize = 8;

/// Something that is written behind what is there already.
pub trait Item: Send {
    /// Where it ends if what is ahead of it ends at `at`.
    fn end(&self, at: usize) -> usize;

    /// Writes it.
    fn put(self, out: &mut Writer<'_>);
}

/// Where items are written: outgoing registered memory.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    pub(super) fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    #[inline]
    fn align(&mut self) {
        let end = self.at.next_multiple_of(ALIGN);
        self.buffer[self.at..end].fill(0);
        self.at = end;
    }

    #[inline]
    pub(super) fn value<T: Wire>(&mut self, value: T) {
        self.align();
        cast::write(self.buffer, self.at, value);
        cast::clear_transient::<T>(&mut self.buffer[self.at..self.at + size_of::<T>()]);
        self.at += size_of::<T>();
    }

    /// The next so many bytes, all of which are to be written.
    #[inline]
    pub(super) fn space(&mut self, len: usize) -> &mut [u8] {
        self.align();
        let start = self.at;
        self.at += len;
        &mut self.buffer[start..start + len]
    }
}

/// Where a thing of `len` bytes ends that begins at the next multiple of eight.
#[inline]
pub(super) const fn end_of(at: usize, len: usize) -> usize {
    at.next_multiple_of(ALIGN) + len
}

/// Who is at the other end, for references to services that go either way.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherEnd<'a> {
    pub(super) services: &'a Services,
    pub(super) connection: &'a Connection,
}

/// Reads items of a request, where they were received. Nothing of what it says is believed: lengths are compared with what is there.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    types: &'a Types,
    other_end: Option<OtherEnd<'a>>,
}

impl<'a> Reader<'a> {
    /// Of `bytes`, which begin at a multiple of eight, from `at` on. Graphs are of `types`.
    #[inline]
    pub(super) fn new(
        bytes: &'a [u8],
        at: usize,
        types: &'a Types,
        other_end: Option<OtherEnd<'a>>,
    ) -> Self {
        Self { bytes, at, types, other_end }
    }

    pub(super) fn types(&self) -> &'a Types {
        self.types
    }

    pub(super) fn other_end(&self) -> Option<OtherEnd<'a>> {
        self.other_end
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next so many bytes.
    #[inline]
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let start = self.at.next_multiple_of(ALIGN);
        let truncated = Malformed::Truncated { at: start, len: self.bytes.len() };
        let gap = self.bytes.get(self.at..start).ok_or(truncated)?;
        if let Some(at) = gap.iter().position(|byte| *byte != 0) {
            return Err(Malformed::Reserved { at: self.at + at });
        }
        let end = start.checked_add(len).ok_or(truncated)?;
        let bytes = self.bytes.get(start..end).ok_or(truncated)?;
        self.at = end;
        Ok(bytes)
    }

    /// The next value.
    #[inline]
    pub(super) fn value<T: Wire>(&mut self) -> Result<T, Malformed> {
        let bytes = self.bytes(size_of::<T>())?;
        let at = self.at - size_of::<T>();
        cast::checked(bytes, self.types).map_err(|fault| Malformed::Value { at, fault })
    }

    /// The next slice: its length, and that many values.
    #[inline]
    pub(super) fn slice<T: Wire>(&mut self) -> Result<&'a [T], Malformed> {
        let count = self.value::<u64>()?;
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
        let truncated = Malformed::Truncated { at: self.at, len: self.bytes.len() };
        let bytes = self.bytes(len.ok_or(truncated)?)?;
        let at = self.at - bytes.len();
        cast::checked_slice(bytes, self.types).map_err(|fault| Malformed::Value { at, fault })
    }

    /// The next slice, copied: its bytes may lie anywhere.
    pub(super) fn values<T: Wire>(&mut self) -> Result<Vec<T>, Malformed> {
        const { assert!(size_of::<T>() > 0, "an element has at least one byte") };
        let count = self.value::<u64>()?;
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
        let truncated = Malformed::Truncated { at: self.at, len: self.bytes.len() };
        let bytes = self.bytes(len.ok_or(truncated)?)?;
        let start = self.at - bytes.len();
        let values = bytes.chunks_exact(size_of::<T>()).enumerate().map(|(index, bytes)| {
            let at = start + index * size_of::<T>();
            cast::checked(bytes, self.types).map_err(|fault| Malformed::Value { at, fault })
        });
        values.collect()
    }

    /// The next text.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.slice::<u8>()?;
        str::from_utf8(bytes).map_err(|_| Malformed::Text { at: self.at - bytes.len() })
    }

    /// Whether something follows: 0 or 1 in a word.
    #[inline]
    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.value::<u64>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value { at: self.at - 8, fault: crate::Fault::Value }),
        }
    }

    /// Nothing follows the last item.
    ///
    /// # Errors
    /// Something does.
    #[inline]
    pub fn finish(&self) -> Result<(), Malformed> {
        let (at, len) = (self.at, self.bytes.len());
        if at == len { Ok(()) } else { Err(Malformed::Rest { at, len }) }
    }
}

/// A plain value: its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Plain<T>(pub(super) T);

impl<T: Wire> Item for Plain<T> {
    #[inline]
    fn end(&self, at: usize) -> usize {
        end_of(at, size_of::<T>())
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        out.value(self.0);
    }
}

/// How many there are, and their bytes.
impl<T: Wire> Item for &[T] {
    #[inline]
    fn end(&self, at: usize) -> usize {
        end_of(end_of(at, size_of::<u64>()), size_of_val(*self))
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        out.value(self.len() as u64);
        let space = out.space(size_of_val(self));
        space.copy_from_slice(cast::bytes_of(self));
        cast::clear_transient::<T>(space);
    }
}

/// As a slice of its bytes.
impl Item for &str {
    #[inline]
    fn end(&self, at: usize) -> usize {
        self.as_bytes().end(at)
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        self.as_bytes().put(out);
    }
}

/// Owned, otherwise as `&str`.
impl Item for String {
    fn end(&self, at: usize) -> usize {
        self.as_str().end(at)
    }

    fn put(self, out: &mut Writer<'_>) {
        self.as_str().put(out);
    }
}

/// Owned, otherwise as a slice.
impl<T: Wire> Item for Vec<T> {
    fn end(&self, at: usize) -> usize {
        self.as_slice().end(at)
    }

    fn put(self, out: &mut Writer<'_>) {
        self.as_slice().put(out);
    }
}

/// 1 and the item, or 0.
impl<I: Item> Item for Option<I> {
    #[inline]
    fn end(&self, at: usize) -> usize {
        let at = end_of(at, size_of::<u64>());
        self.as_ref().map_or(at, |item| item.end(at))
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        out.value(u64::from(self.is_some()));
        if let Some(item) = self {
            item.put(out);
        }
    }
}

/// 0 and what went well, or 1 and what did not.
impl<I: Item, E: Item> Item for Result<I, E> {
    #[inline]
    fn end(&self, at: usize) -> usize {
        let at = end_of(at, size_of::<u64>());
        match self {
            Ok(item) => item.end(at),
            Err(item) => item.end(at),
        }
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        out.value(u64::from(self.is_err()));
        match self {
            Ok(item) => item.put(out),
            Err(item) => item.put(out),
        }
    }
}

macro_rules! several {
    ($($name:ident)*) => {
        /// One after the other.
        impl<$($name: Item),*> Item for ($($name,)*) {
            #[inline]
            #[expect(non_snake_case, reason = "an item is called as its type")]
            fn end(&self, at: usize) -> usize {
                let ($($name,)*) = self;
                $(let at = $name.end(at);)*
                at
            }

            #[inline]
            #[expect(non_snake_case, reason = "an item is called as its type")]
            fn put(self, out: &mut Writer<'_>) {
                let ($($name,)*) = self;
                $($name.put(out);)*
            }
        }
    };
}

several!(A);
several!(A B);
several!(A B C);
several!(A B C D);
several!(A B C D E);
several!(A B C D E F);
several!(A B C D E F G);
several!(A B C D E F G H);

impl Item for () {
    #[inline]
    fn end(&self, at: usize) -> usize {
        at
    }

    #[inline]
    fn put(self, _: &mut Writer<'_>) {}
}
