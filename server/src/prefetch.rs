//! Asking for memory before it is needed.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the instruction is behind an unsafe function")
)]

/// Bytes of a line of the cache.
pub(crate) const LINE: usize = 64;

/// So many bytes are asked for ahead at most: of more, the processor fetches the rest by itself.
const BEHIND_MAX: usize = 512;

/// Asks the processor to bring the cache line in which `target` starts closer. A hint: nothing
/// happens where the processor has no such instruction that Rust offers, nor under miri, which knows none.
#[inline(always)]
pub(crate) fn read<T>(target: &T) {
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

/// Asks for the lines behind `bytes`, as far as `len` bytes reach and at most [`BEHIND_MAX`], which are going to be written. What lies there is nobody's concern: nothing
/// is read, and the processor ignores addresses that lead nowhere.
#[inline(always)]
pub(crate) fn behind(bytes: &[u8], len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let end = bytes.as_ptr_range().end;
        for at in (0..len.min(BEHIND_MAX)).step_by(LINE) {
            let line = end.wrapping_add(LINE + at);
            // SAFETY: as above; a prefetch never faults, whatever the address, and the address alone is computed. The instruction is written out
            // since the compiler makes one that asks for reading of `_MM_HINT_ET0`, unless it may take it for granted that the processor knows this one;
            // all that run 64-bit systems of the last twenty years do, or pass over it.
            unsafe {
                core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (bytes, len);
}
