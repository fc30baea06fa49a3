//! What the memory promises to its holders.

mod holders;
mod limit;
mod residency;
mod threads;

use super::*;

const MIB: usize = 1 << 20;

fn memory(limit_bytes: usize) -> Memory {
    Memory::new(MemoryConfig { limit_bytes: limit_bytes as u64 }).unwrap()
}

/// Bytes of the region that the system backs with pages, by its own word.
#[cfg(not(miri))]
#[expect(clippy::disallowed_methods, reason = "the system says it in a file")]
fn resident(memory: &Memory) -> u64 {
    let start = format!("{:x}-", memory.pool.region.address(0).as_ptr().addr());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    rss.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Under miri there is no system that could be asked: what the region itself counts.
#[cfg(miri)]
fn resident(memory: &Memory) -> u64 {
    memory.pool.region.touched_pages() * PAGE_BYTES as u64
}

/// Whether all bytes are this one: compared at once, which miri does in a moment, and not one by one.
fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes == vec![byte; bytes.len()]
}

/// How often something is repeated: under miri, a hundred times slower, no more often than shows that it can be.
const fn rounds(count: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { count }
}

/// As [`Memory::allocate`], and every byte written.
fn written(memory: &Memory, len: usize) -> Block {
    let mut block = memory.allocate(len, Purpose::Receive).unwrap();
    block.fill(9);
    block.mark_touched(len);
    block
}
