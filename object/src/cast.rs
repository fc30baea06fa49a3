//! Records as bytes, and validated bytes as records.

#![expect(unsafe_code, reason = "reads and writes records where they lie")]

use std::slice;

use crate::error::Fault;
use crate::pages::Targets;
use crate::types::Types;
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

/// Zeroes what stays home of the values in `bytes`.
#[inline]
pub(crate) fn clear_transient<T: Wire>(bytes: &mut [u8]) {
    if T::HAS_TRANSIENT && size_of::<T>() > 0 {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(T::clear_transient);
    }
}

/// The value that `bytes` are, if they are one. They may lie anywhere.
///
/// # Panics
/// There are not as many as a value has.
#[inline]
pub(crate) fn checked<T: Wire>(bytes: &[u8], types: &Types) -> Result<T, Fault> {
    const { assert!(!T::HAS_LINKS, "what leads to other objects is a part of a graph") };
    assert_eq!(bytes.len(), size_of::<T>(), "a value has its type's bytes");
    if !T::ALWAYS_VALID {
        T::check(bytes, &Targets::none(types), &mut T::Hint::default())?;
    }
    // SAFETY: there are as many bytes as a value has, which are a valid one; the read needs no alignment, and a `Wire` type is `Copy`.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The values that `bytes` are, where they lie, if they are values.
///
/// # Panics
/// They do not begin where a value may, or end within one.
#[inline]
pub(crate) fn checked_slice<'a, T: Wire>(bytes: &'a [u8], types: &Types) -> Result<&'a [T], Fault> {
    const { assert!(!T::HAS_LINKS, "what leads to other objects is a part of a graph") };
    const { assert!(size_of::<T>() > 0, "an element has at least one byte") };
    assert!(bytes.len().is_multiple_of(size_of::<T>()), "values are whole");
    assert!(bytes.as_ptr().addr().is_multiple_of(align_of::<T>()), "values are aligned");
    if !T::ALWAYS_VALID {
        T::check_all(bytes, &Targets::none(types)).map_err(|(_, fault)| fault)?;
    }
    // SAFETY: so many valid values lie there, aligned, for as long as the bytes are borrowed.
    Ok(unsafe { slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>()) })
}
