//! What the records of a worker may take of its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_transport::Memory;

use crate::error::JobError;

/// What a process comes to have beside its records, whatever its job is: a MiB that an input is read into, another that an output is written from,
/// and code that has not run yet.
const BESIDE_BYTES: u64 = 2 << 20;

/// The part of the memory that may be under way from all others to a worker, as long as it is enough for the least windows that there are; no connection has more than the greatest.
const WINDOWS_SHARE: u64 = 32;
const WINDOW_BYTES_MIN: u64 = 2 << 20;
const WINDOW_BYTES_MAX: u64 = 4 << 20;

/// What registered memory has in any case: a buffer that is received into, and segments that are written to files.
const REGISTERED_BYTES: u64 = 1 << 20;

/// Two segments for each other worker: one that is being filled, and one that is being sent.
const LEAVING_BYTES: u64 = 128 << 10;

/// The bytes that a worker may take, of which registered memory has a part: what comes, and what is about to leave.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    memory: Memory,
    limit_bytes: u64,
    taken_bytes: Arc<AtomicU64>,
    /// What registered memory has of them at least, whether it is in use or not.
    exchanged_bytes: u64,
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
    /// Of `limit_bytes` for all that a process has, it has some before it works, and room for what its workers send one another.
    pub(crate) fn of_process(memory: Memory, limit_bytes: u64, workers: usize) -> Budget {
        let resident_bytes = resident_bytes() + BESIDE_BYTES;
        Budget {
            exchanged_bytes: exchanged_bytes(limit_bytes, workers),
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
            exchanged_bytes: 0,
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
        self.excess_bytes(0) > 0
    }

    /// By how much more would be taken than there is, were so many bytes taken on top.
    pub(crate) fn excess_bytes(&self, more: u64) -> u64 {
        let registered_bytes = self.memory.account().resident_bytes.max(self.exchanged_bytes);
        let required_bytes = self.required_bytes_max.load(Ordering::Relaxed);
        let taken_bytes = self.taken_bytes.load(Ordering::Relaxed) + more;
        (taken_bytes + required_bytes + registered_bytes).saturating_sub(self.limit_bytes)
    }

    /// What is enough for one of two that need memory at the same time.
    pub(crate) fn share(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.exchanged_bytes) / 2
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
        let needed_bytes = self.process_bytes + self.exchanged_bytes + required_bytes;
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

/// Bytes that each of the others may send to one of so many workers before it has dealt with any, where it may take so many in all. It has as many in memory while it is busy
/// with something else, such as writing a run to a file.
pub(crate) fn window_bytes(limit_bytes: u64, workers: usize) -> u32 {
    let others = workers.saturating_sub(1).max(1) as u64;
    let window_bytes =
        (limit_bytes / WINDOWS_SHARE / others).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
    window_bytes as u32
}

/// What one of so many workers has to have for what comes and what leaves.
fn exchanged_bytes(limit_bytes: u64, workers: usize) -> u64 {
    let window_bytes = u64::from(window_bytes(limit_bytes, workers));
    // What comes takes whole pages.
    let of_peer = window_bytes + window_bytes / 8 + LEAVING_BYTES;
    REGISTERED_BYTES + of_peer * workers.saturating_sub(1) as u64
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
    use weft_transport::{MemoryConfig, Purpose};

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
    fn what_is_exchanged_has_its_room_whether_it_is_there_or_not() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let with_room =
            |exchanged_bytes| Budget { exchanged_bytes, ..Budget::new(memory.clone(), 32 << 20) };
        let (budget, other) = (with_room(8 << 20), with_room(0));
        assert!(other.take(32 << 20).is_some());
        assert!(budget.take((24 << 20) + 1).is_none());
        let taken = budget.take(24 << 20).unwrap();
        assert_eq!((budget.share(), budget.excess_bytes(5)), (12 << 20, 5));
        let _come = memory.allocate(8 << 20, Purpose::Receive).unwrap();
        assert!(!budget.is_exceeded());
        drop(taken);
        assert!(budget.require(25 << 20).is_err(), "with an eighth more, and what is exchanged");
    }

    /// The least memory that jobs may be given has room for it more than twice.
    #[test]
    fn windows_are_as_memory_and_workers_are() {
        let windows = [(64, 2), (112, 8), (96, 2), (512, 8), (1 << 20, 1), (1 << 20, 64)];
        let windows = windows.map(|(mib, workers)| window_bytes(mib << 20, workers) >> 10);
        assert_eq!(windows, [2048, 2048, 3072, 2340, 4096, 4096]);
        for workers in [2, 3, 8, 64, 1000] {
            let least_bytes = (48 << 20) + ((8 * workers as u64) << 20);
            assert!(exchanged_bytes(least_bytes, workers) < least_bytes / 2, "{workers}");
        }
    }

    #[test]
    fn this_process_has_some_memory() {
        let (now, most) = (resident_bytes(), peak_bytes().unwrap());
        assert!((1 << 20..1 << 40).contains(&now), "{now}");
        // Counted for each processor by itself, and put together now and then.
        assert!(most > now / 2, "{most} of {now}");
    }
}
