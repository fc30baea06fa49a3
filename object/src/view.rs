//! Reading a segment where it was received.

use crate::bytes::StableBytes;
use crate::cast;
use crate::error::Invalid;
use crate::segment::{Head, PAGE_BYTES};
use crate::types::Types;
use crate::wire::Wire;

/// A segment that has been checked: every record of it may be used where it lies.
///
/// The check is one pass over the page table and, for types of which not every bit pattern is a
/// value, over their records. It allocates nothing and does not recurse.
#[derive(Debug)]
pub struct View<B> {
    bytes: B,
    types: Types,
    head: Head,
}

impl<B: StableBytes> View<B> {
    /// Checks `bytes`, which may come from anywhere, against the types agreed on.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(bytes: B, types: &Types) -> Result<Self, Invalid> {
        let head = check(bytes.bytes(), types)?;
        Ok(Self { bytes, types: types.clone(), head })
    }

    /// The records of type `T`, a slice a page, in the order in which they were written.
    pub fn records<T: Wire>(&self) -> Records<'_, T> {
        Records {
            bytes: self.bytes.bytes(),
            head: self.head,
            place: self.types.place::<T>(),
            page: 0,
            records: std::marker::PhantomData,
        }
    }
}

/// Pages of records of one type, as slices.
#[derive(Debug)]
pub struct Records<'a, T> {
    bytes: &'a [u8],
    head: Head,
    place: Option<u16>,
    page: usize,
    records: std::marker::PhantomData<T>,
}

impl<'a, T: Wire> Iterator for Records<'a, T> {
    type Item = &'a [T];

    fn next(&mut self) -> Option<&'a [T]> {
        while self.page < self.head.pages() {
            let page = self.page;
            self.page += 1;
            let entry = self.head.entry(self.bytes, page).expect("the table was checked");
            if Some(entry.place) == self.place {
                let start = self.head.len() + page * PAGE_BYTES;
                return Some(cast::records(&self.bytes[start..], usize::from(entry.count)));
            }
        }
        None
    }
}

/// Whether a segment may begin where `bytes` do. Bodies of messages do, in a receive buffer.
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(8)
}

/// The one pass. What it accepts, [`Records`] reads without looking again.
fn check(bytes: &[u8], types: &Types) -> Result<Head, Invalid> {
    if !is_aligned(bytes) {
        return Err(Invalid::Misaligned);
    }
    let head = Head::read(bytes)?;
    let body = &bytes[head.len()..];
    let mut expected = 0;
    for page in 0..head.pages() {
        let entry = head.entry(bytes, page)?;
        if !entry.is_records() {
            return Err(Invalid::UnknownKind { page, kind: entry.kind });
        }
        let info =
            types.get(entry.place).ok_or(Invalid::UnknownType { page, place: entry.place })?;
        let stride = info.stride;
        if usize::from(entry.stride) != stride {
            let (name, found) = (info.name, entry.stride);
            return Err(Invalid::Stride { page, name, expected: stride, found });
        }
        let count = usize::from(entry.count);
        if count == 0 || count * stride > PAGE_BYTES {
            return Err(Invalid::Count { page, count: entry.count, stride });
        }
        let start = page * PAGE_BYTES;
        expected = start + entry.used_bytes();
        let Some(records) = body.get(start..start + count * stride) else {
            return Err(Invalid::Length { expected, found: body.len() });
        };
        if let Some(is_valid) = info.is_valid
            && let Some(record) = records.chunks_exact(stride).position(|bytes| !is_valid(bytes))
        {
            return Err(Invalid::Value { page, record, name: info.name });
        }
    }
    if body.len() != expected {
        return Err(Invalid::Length { expected, found: body.len() });
    }
    Ok(head)
}
