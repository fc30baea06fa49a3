//! What AddressSanitizer is told of registered memory.
//!
//! It knows what its own allocator hands out. The region is one mapping, all of which it takes for good, so
//! it is told of every block: pages that nobody has been given are *poisoned*, and whoever reads or writes
//! one is ended with a report. Under it the region also has room for a page between any two blocks, which
//! stays poisoned, so that what runs over a block's end is seen even if the next one is handed out. What the
//! system reads or writes by itself, as in a send or a receive, is not looked at.
//!
//! Built so by `cargo xtask asan` only, which sets the cfg. Nothing of it is in any other build.

#![cfg_attr(address_sanitizer, expect(unsafe_code, reason = "declares what the sanitizer offers"))]

#[cfg(address_sanitizer)]
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

/// Pages that are left free between two blocks.
pub(super) const GAP_PAGES: usize = if cfg!(address_sanitizer) { 1 } else { 0 };

/// Pages of the region for each one that may be handed out: the smallest block and its gap.
pub(super) const REGION_FACTOR: usize = 1 + GAP_PAGES;

/// Bytes of a region that are watched, from its start: blocks are taken from there first. The sanitizer keeps a byte
/// for eight, and would keep that for terabytes which nobody ever touches.
#[cfg(address_sanitizer)]
const WATCHED_BYTES: usize = 1 << 30;

/// From now on nobody may touch these bytes of a region, whole pages.
pub(super) fn poison(region: NonNull<u8>, bytes: Range<usize>) {
    #[cfg(address_sanitizer)]
    if let Some((start, len)) = watched(region, &bytes) {
        sanitizer::__asan_poison_memory_region(start, len);
    }
    let _ = (region, bytes);
}

/// From now on these bytes of a region, whole pages, may be touched again.
pub(super) fn unpoison(region: NonNull<u8>, bytes: Range<usize>) {
    #[cfg(address_sanitizer)]
    if let Some((start, len)) = watched(region, &bytes) {
        sanitizer::__asan_unpoison_memory_region(start, len);
    }
    let _ = (region, bytes);
}

/// The part of these bytes that is watched, if one is.
#[cfg(address_sanitizer)]
fn watched(region: NonNull<u8>, bytes: &Range<usize>) -> Option<(*const c_void, usize)> {
    let len = bytes.end.min(WATCHED_BYTES).checked_sub(bytes.start)?;
    Some((region.as_ptr().wrapping_add(bytes.start).cast(), len))
}

#[cfg(address_sanitizer)]
mod sanitizer {
    use super::c_void;

    // They write to the sanitizer's own map of memory, whatever they are told: a wrong address makes its
    // reports wrong, and nothing else.
    unsafe extern "C" {
        pub(super) safe fn __asan_poison_memory_region(start: *const c_void, len: usize);
        pub(super) safe fn __asan_unpoison_memory_region(start: *const c_void, len: usize);
    }
}

#[cfg(all(test, address_sanitizer))]
mod tests {
    //! Each access is made in a process of its own, since it is the end of it.

    use std::hint::black_box;
    use std::process::{Command, Output};
    use std::ptr;

    use super::super::{Memory, MemoryConfig, PAGE_BYTES, Purpose};
    use super::WATCHED_BYTES;

    fn memory() -> Memory {
        Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap()
    }

    /// Reads one byte, at `offset` from the start of a block.
    fn read(base: *const u8, offset: isize) {
        // SAFETY: none: it is not sound where the sanitizer is to report it, which ends the process first. The
        // address is within the mapping of the region, so that nothing else happens.
        black_box(unsafe { ptr::read_volatile(base.offset(offset)) });
    }

    /// Runs one of the tests below, which are ignored otherwise.
    #[expect(clippy::disallowed_methods, reason = "the process is to die")]
    fn run(name: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = format!("memory::poison::tests::{name}");
        command.args(["--ignored", "--exact", &name, "--nocapture"]).output().unwrap()
    }

    fn is_reported(name: &str) -> bool {
        let output = run(name);
        let said = String::from_utf8_lossy(&output.stderr);
        !output.status.success() && said.contains("AddressSanitizer: use-after-poison")
    }

    #[test]
    fn what_touches_no_block_is_reported_and_ends_the_process() {
        let accesses = [
            "reads_a_block_that_was_freed",
            "writes_to_a_block_that_was_freed",
            "reads_what_was_never_handed_out",
            "reads_over_the_end_though_the_next_block_is_handed_out",
            "reads_ahead_of_a_block",
            "reads_a_freed_block_of_more_memory_than_is_watched",
        ];
        let unseen: Vec<_> = accesses.into_iter().filter(|name| !is_reported(name)).collect();
        assert_eq!(unseen, [""; 0]);
    }

    #[test]
    fn what_touches_blocks_is_not_reported_wherever_they_lie() {
        let output = run("uses_blocks_again_and_the_addresses_of_a_region_that_is_gone");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "it has run");
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn reads_a_block_that_was_freed() {
        let memory = memory();
        let block = memory.allocate(PAGE_BYTES, Purpose::Send).unwrap();
        let base = block.as_ptr();
        drop(block);
        read(base, 17);
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn writes_to_a_block_that_was_freed() {
        let memory = memory();
        let mut block = memory.allocate(3 * PAGE_BYTES, Purpose::Send).unwrap();
        let base = block.as_mut_ptr();
        drop(block.freeze());
        // SAFETY: none, as in `read`.
        unsafe { ptr::write_volatile(base.add(2 * PAGE_BYTES), 1) };
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn reads_what_was_never_handed_out() {
        let memory = memory();
        read(memory.pool.region.address(memory.pool.region.pages() - 1).as_ptr(), 0);
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn reads_over_the_end_though_the_next_block_is_handed_out() {
        let memory = memory();
        let blocks = [(); 3].map(|()| memory.allocate(PAGE_BYTES, Purpose::Send).unwrap());
        read(blocks[1].as_ptr(), PAGE_BYTES as isize);
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn reads_ahead_of_a_block() {
        let memory = memory();
        let blocks = [(); 3].map(|()| memory.allocate(PAGE_BYTES, Purpose::Send).unwrap());
        read(blocks[1].as_ptr(), -1);
    }

    #[test]
    #[ignore = "another test starts it as a process of its own"]
    fn uses_blocks_again_and_the_addresses_of_a_region_that_is_gone() {
        for _ in 0..100 {
            let memory = memory();
            let mut block = memory.allocate(5 * PAGE_BYTES, Purpose::Send).unwrap();
            block.fill(1);
            drop(block);
            let mut blocks = [(); 8].map(|()| memory.allocate(1, Purpose::Send).unwrap());
            blocks.iter_mut().for_each(|block| block.fill(2));
            let whole = memory.free_bytes() as usize;
            drop(blocks);
            let mut whole = memory.allocate(whole, Purpose::Send).unwrap();
            whole.fill(3);
        }
    }

    #[test]
    #[ignore = "dies: another test starts it as a process of its own"]
    fn reads_a_freed_block_of_more_memory_than_is_watched() {
        // An eighth of it would be more than any machine has.
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 40 }).unwrap();
        let block = memory.allocate(PAGE_BYTES, Purpose::Send).unwrap();
        let long = memory.allocate(4 * WATCHED_BYTES, Purpose::Send).unwrap();
        let base = block.as_ptr();
        drop(block);
        let end = &long[long.len() - 1];
        read(end, 0);
        drop(long);
        read(base, 0);
    }
}
