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

/// The bytes of `records`.
pub(crate) fn bytes_of<T: Wire>(records: &[T]) -> &[u8] {
    // SAFETY: a `Wire` type has no padding, so all bytes are initialized; the borrow keeps them.
    unsafe { slice::from_raw_parts(records.as_ptr().cast::<u8>(), size_of_val(records)) }
}
