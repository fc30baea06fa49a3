//! Asking for memory before it is needed.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the instruction is behind an unsafe function")
)]

/// Bytes of a line of the cache.
pub(super) const LINE: usize = 64;

/// Asks the processor to bring the cache line in which `target` starts closer. A hint: nothing
/// happens where the processor has no such instruction that Rust offers, nor under miri, which knows none.
#[inline(always)]
pub(super) fn read<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is part of x86-64's base, and a prefetch reads nothing that the
    // program could see and never faults, whatever the address; this one comes from a reference
    // besides.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = target;
}

/// Asks for the lines behind `bytes`, as far as `len` bytes reach, which are going to be written. What lies there is nobody's concern: nothing
/// is read, and the processor ignores addresses that lead nowhere.
#[inline(always)]
pub(super) fn behind(bytes: &[u8], len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let end = bytes.as_ptr_range().end;
        for at in (0..len).step_by(LINE) {
            let line = end.wrapping_add(LINE + at);
            // SAFETY: as above; a prefetch never faults, whatever the address, and the address alone is computed.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast()) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, len);
}
