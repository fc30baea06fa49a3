//! What the records of a worker may take of its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_transport::Memory;

use crate::error::JobError;

/// The bytes that a worker may take, of which registered memory has a part: what comes, and what is about to leave.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    memory: Memory,
    limit_bytes: u64,
    taken_bytes: Arc<AtomicU64>,
    /// What the whole process may have.
    process_limit_bytes: u64,
    /// What of that it has for other things.
    process_bytes: u64,
    required_bytes: Arc<AtomicU64>,
    /// The most of them that there ever were.
    required_bytes_max: Arc<AtomicU64>,
}

/// Bytes that nothing goes on without, until this is dropped. They stay taken for what is required later: such memory an allocator may keep, as it comes in pieces of all lengths.
#[derive(Debug)]
pub(crate) struct Required {
    _taken: Taken,
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
        let resident_bytes = resident_bytes();
        Budget {
            process_limit_bytes: limit_bytes,
            // Of a process that has more than it may before it begins, as one with several workers has, nothing can be told.
            process_bytes: resident_bytes.min(limit_bytes / 2),
            ..Budget::new(memory, limit_bytes.saturating_sub(resident_bytes))
        }
    }

    pub(crate) fn new(memory: Memory, limit_bytes: u64) -> Budget {
        Budget {
            memory,
            limit_bytes,
            taken_bytes: Arc::default(),
            process_limit_bytes: limit_bytes,
            process_bytes: 0,
            required_bytes: Arc::default(),
            required_bytes_max: Arc::default(),
        }
    }

    /// How much the worker was given, with what the process has before it works.
    pub(crate) fn given_bytes(&self) -> u64 {
        self.process_limit_bytes
    }

    /// Of a process that may have so much for what is required, whatever this has for other things.
    #[cfg(test)]
    pub(crate) fn with_process_limit(self, process_limit_bytes: u64) -> Budget {
        Budget { process_limit_bytes, ..self }
    }

    /// Takes so many bytes, if there are as many left.
    pub(crate) fn take(&self, bytes: u64) -> Option<Taken> {
        let taken = self.take_anyway(bytes);
        (!self.is_exceeded()).then_some(taken)
    }

    /// Whether more was taken than there is.
    pub(crate) fn is_exceeded(&self) -> bool {
        let registered_bytes = self.memory.account().resident_bytes;
        let required_bytes = self.required_bytes_max.load(Ordering::Relaxed);
        let taken_bytes = self.taken_bytes.load(Ordering::Relaxed);
        taken_bytes + required_bytes + registered_bytes > self.limit_bytes
    }

    /// What is enough for one of two that need memory at the same time.
    pub(crate) fn share(&self) -> u64 {
        self.limit_bytes / 2
    }

    /// Takes so many bytes though they may be too many: of what nothing goes on without.
    pub(crate) fn take_anyway(&self, bytes: u64) -> Taken {
        Taken::of(&self.taken_bytes, bytes)
    }

    /// The same of what has to be in memory for as long as this is kept, and cannot go to files; and an eighth more, for what an allocator has idle of that: vectors that grow move, and leave holes.
    ///
    /// # Errors
    /// All of it together is more than the process may have, whatever else goes to files.
    pub(crate) fn require(&self, bytes: u64) -> Result<Required, JobError> {
        let with_idle = bytes + bytes / 8;
        let required = Required { _taken: Taken::of(&self.required_bytes, with_idle) };
        let required_bytes = self.required_bytes.load(Ordering::Relaxed);
        self.required_bytes_max.fetch_max(required_bytes, Ordering::Relaxed);
        let needed_bytes = self.process_bytes + required_bytes;
        let limit_bytes = self.process_limit_bytes;
        match needed_bytes <= limit_bytes {
            true => Ok(required),
            false => Err(JobError::TooLittleMemory { needed_bytes, limit_bytes }),
        }
    }
}

impl Taken {
    fn of(counter: &Arc<AtomicU64>, bytes: u64) -> Taken {
        counter.fetch_add(bytes, Ordering::Relaxed);
        Taken { taken_bytes: Arc::clone(counter), bytes }
    }

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
    fn what_is_required_is_there_up_to_what_the_process_may_have() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let limit_bytes = memory.account().resident_bytes + 2 * 72;
        let budget = Budget::new(memory, limit_bytes).with_process_limit(720);
        let _first = budget.require(64).unwrap();
        let others = budget.take(72).unwrap();
        // Whatever others have taken: that can go to files.
        let second = budget.require(576).unwrap();
        assert!(budget.is_exceeded());
        let error = budget.require(8).unwrap_err();
        assert!(matches!(error, JobError::TooLittleMemory { needed_bytes: 729, limit_bytes: 720 }));
        drop((second, others));
        budget.require(576).unwrap();
        assert!(budget.take(1).is_none(), "what was required may be so again");
    }

    #[test]
    fn this_process_has_some_memory() {
        let (now, most) = (resident_bytes(), peak_bytes().unwrap());
        assert!((1 << 20..1 << 40).contains(&now), "{now}");
        // Counted for each processor by itself, and put together now and then.
        assert!(most > now / 2, "{most} of {now}");
    }
}
