//! What the C library's allocator keeps of heap that was given back to it.

#![cfg_attr(
    all(target_env = "gnu", not(miri)),
    expect(unsafe_code, reason = "calls the C library")
)]

/// Has the allocator give all whole pages that nobody uses back to the system, in every arena.
/// Returns whether it can. It looks at every free piece of the heap: a millisecond for some
/// thousands of them.
#[cfg(all(target_env = "gnu", not(miri)))]
pub(super) fn trim() -> bool {
    unsafe extern "C" {
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // It says whether there was something to give back, which is not what is asked here.
    let _ = malloc_trim(0);
    true
}

/// Miri's allocator keeps nothing.
#[cfg(miri)]
pub(super) fn trim() -> bool {
    true
}

/// Other C libraries give large pieces back by themselves and offer nothing for the rest.
#[cfg(not(any(target_env = "gnu", miri)))]
pub(super) fn trim() -> bool {
    false
}
