//! Records as bytes, and validated bytes as records.

#![expect(unsafe_code, reason = "reads and writes records where they lie")]

use std::slice;

use crate::wire::Wire;

/// Writes `record` to `bytes` at `at`.
///
/// # Panics
/// If it does not fit.
#[inline]
pub(crate) fn write<T: Wire>(bytes: &mut [u8], at: usize, record: T) {
    let place = &mut bytes[at..at + size_of::<T>()];
    // SAFETY: the range has the record's size; the write needs no alignment, and a `Wire` value has
    // no uninitialized byte that could get into `bytes`.
    unsafe { place.as_mut_ptr().cast::<T>().write_unaligned(record) }
}

/// The first `count` records of `bytes`, which have been found valid.
///
/// # Panics
/// If `bytes` is shorter, not aligned for `T`, or holds something that is no `T`.
#[inline]
pub(crate) fn records<T: Wire>(bytes: &[u8], count: usize) -> &[T] {
    let bytes = &bytes[..count * size_of::<T>()];
    let start = bytes.as_ptr();
    assert!(start.addr().is_multiple_of(align_of::<T>()), "records are aligned");
    // The caller has checked this once for the whole segment; it is checked again only where it
    // could be forgotten without anybody noticing.
    debug_assert!(bytes.chunks_exact(size_of::<T>()).all(T::is_valid));
    // SAFETY: the range holds `count` records, initialized and aligned; they are values of `T` by
    // the check that made the view, or because all bytes are (`Wire`); the borrow keeps them.
    unsafe { slice::from_raw_parts(start.cast::<T>(), count) }
}

/// The bytes of `records`.
pub(crate) fn bytes_of<T: Wire>(records: &[T]) -> &[u8] {
    // SAFETY: a `Wire` type has no padding, so all bytes are initialized; the borrow keeps them.
    unsafe { slice::from_raw_parts(records.as_ptr().cast::<u8>(), size_of_val(records)) }
}
