//! What the records of a worker may take of its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_transport::Memory;

/// The bytes that a worker may take, of which registered memory has a part: what comes, and what is about to leave.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    memory: Memory,
    /// With what the process has before it works.
    given_bytes: u64,
    limit_bytes: u64,
    taken_bytes: Arc<AtomicU64>,
}

/// Bytes that somebody has taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    taken_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Budget {
    /// Of `limit_bytes` for all that a process has, it has some before it works.
    pub(crate) fn of_process(memory: Memory, limit_bytes: u64) -> Budget {
        let budget = Budget::new(memory, limit_bytes.saturating_sub(resident_bytes()));
        Budget { given_bytes: limit_bytes, ..budget }
    }

    pub(crate) fn new(memory: Memory, limit_bytes: u64) -> Budget {
        Budget { memory, given_bytes: limit_bytes, limit_bytes, taken_bytes: Arc::default() }
    }

    /// How much the worker was given.
    pub(crate) fn given_bytes(&self) -> u64 {
        self.given_bytes
    }

    /// Takes so many bytes, if there are as many left.
    pub(crate) fn take(&self, bytes: u64) -> Option<Taken> {
        let taken = self.take_anyway(bytes);
        let registered_bytes = self.memory.account().resident_bytes;
        let is_within =
            self.taken_bytes.load(Ordering::Relaxed) + registered_bytes <= self.limit_bytes;
        is_within.then_some(taken)
    }

    /// What is enough for one of two that need memory at the same time.
    pub(crate) fn share(&self) -> u64 {
        self.limit_bytes / 2
    }

    /// Takes so many bytes though they may be too many: of what nothing goes on without.
    pub(crate) fn take_anyway(&self, bytes: u64) -> Taken {
        self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        Taken { taken_bytes: Arc::clone(&self.taken_bytes), bytes }
    }
}

impl Taken {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What this process has of the machine's memory; nothing where that cannot be told.
fn resident_bytes() -> u64 {
    of_this_process("VmRSS:").unwrap_or(0)
}

/// The most of the machine's memory that this process ever had; nothing where that cannot be told.
pub(crate) fn peak_bytes() -> Option<u64> {
    of_this_process("VmHWM:")
}

#[expect(clippy::disallowed_methods, reason = "the system's account of this process")]
fn of_this_process(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(kibibytes.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use weft_transport::MemoryConfig;

    use super::*;

    #[test]
    fn what_is_taken_is_within_the_limit_and_comes_back() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let budget = Budget::new(memory.clone(), memory.account().resident_bytes + 100);
        let first = budget.take(60).unwrap();
        assert!(budget.take(60).is_none());
        let _second = budget.take(40).unwrap();
        drop(first);
        let _third = budget.take(60).unwrap();
        assert!(budget.take(1).is_none());
        let _fourth = budget.take_anyway(1);
    }

    #[test]
    fn this_process_has_some_memory() {
        let (now, most) = (resident_bytes(), peak_bytes().unwrap());
        assert!((1 << 20..1 << 40).contains(&now), "{now}");
        // Counted for each processor by itself, and put together now and then.
        assert!(most > now / 2, "{most} of {now}");
    }
}
