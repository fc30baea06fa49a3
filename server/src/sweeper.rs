//! Who removes objects that nobody asks for any more, and when: those that have expired, and those of tables that were truncated or
//! dropped.
//!
//! Beside them go uploads that nobody has gone on with.
//!
//! Objects that go are absent already; what comes back is their memory, and their share in what is counted. After a truncation one step follows
//! the other. What expires is looked for in a pass over all objects, if any has an expiry: every five seconds, or so seldom that a pass
//! takes a fiftieth of the time. While memory is short it is every second and a tenth, since where an expired object is found no
//! segment has to be emptied.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weft_transport::Time;

use crate::limits::SCAN_BUCKETS_MAX;
use crate::partitions::Partitions;
use crate::store::{Partition, Swept};

/// How often a pass begins, and in how many times the time that the last one took.
const INTERVAL: (Duration, u32) = (Duration::from_secs(5), 50);
/// The same while memory is short.
const INTERVAL_SHORT: (Duration, u32) = (Duration::from_secs(1), 10);

/// What removes such objects.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pass: Mutex<Pass>,
    /// Whether a table may have been truncated or dropped whose objects are still there.
    has_buried: AtomicBool,
    /// Objects that were removed so far.
    removed: AtomicU64,
}

#[derive(Debug, Default)]
struct Pass {
    /// When it began; nothing before the first.
    began: Option<Time>,
    /// How long it took, once it is done.
    took: Duration,
    /// The partition that it has come to; as many as there are when it is done.
    position: u16,
}

impl Sweeper {
    /// Says that a table was truncated or dropped.
    pub(crate) fn look_for_buried(&self) {
        self.has_buried.store(true, Ordering::Relaxed);
    }

    /// Objects that were removed so far.
    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Removes some of the objects of tables that were truncated or dropped, for who found no memory though that has been given up, when
    /// [`removed`](Self::removed) was `seen`. Returns whether there were any. The caller may hold no partition's lock.
    #[cold]
    pub(crate) fn make_room(&self, partitions: &Partitions, seen: u64, now_ms: u64) -> bool {
        // Whoever has it may be looking whether there are such.
        let _pass = self.pass.lock();
        if self.removed() > seen {
            // All that there were, maybe, while this waited for them.
            return true;
        }
        if !self.has_buried.load(Ordering::Relaxed) {
            return false;
        }
        (0..partitions.len() as u16).any(|position| {
            let mut partition = partitions.lock(position);
            let is_there = partition.sweepable().buried > 0;
            if is_there {
                self.sweep(&mut partition, now_ms);
            }
            is_there
        })
    }

    /// One step, if there is something to do and nobody else sweeps. Returns whether there was.
    pub(crate) fn step(
        &self,
        partitions: &Partitions,
        is_memory_short: bool,
        now: Time,
        now_ms: u64,
    ) -> bool {
        let Some(mut pass) = self.pass.try_lock() else { return false };
        let count = partitions.len() as u16;
        let (least, times) = if is_memory_short { INTERVAL_SHORT } else { INTERVAL };
        let interval = least.max(pass.took * times);
        let is_due = pass.began.is_none_or(|began| now.since(began) >= interval);
        if pass.position >= count && is_due {
            *pass = Pass { began: Some(now), ..Pass::default() };
        }
        // Partitions are not locked for nothing.
        if !self.has_buried.swap(false, Ordering::Relaxed) && pass.position >= count {
            return false;
        }
        // What was truncated is looked for wherever the pass is.
        let first = pass.position.min(count);
        for position in (first..count).chain(0..first) {
            let mut partition = partitions.lock(position);
            let sweepable = partition.sweepable();
            let is_of_pass = position >= first;
            if is_of_pass {
                partition.drop_stale_uploads(now_ms);
            }
            if sweepable.buried > 0 || is_of_pass && sweepable.expiring > 0 {
                let swept = self.sweep(&mut partition, now_ms);
                // There may be more of it, here or elsewhere.
                self.look_for_buried();
                if is_of_pass && swept.is_end {
                    pass.go_to(position + 1, count, now);
                }
                return true;
            }
            if is_of_pass {
                pass.go_to(position + 1, count, now);
            }
        }
        false
    }

    fn sweep(&self, partition: &mut Partition, now_ms: u64) -> Swept {
        let swept = partition.sweep(SCAN_BUCKETS_MAX, now_ms);
        self.removed.fetch_add(swept.removed, Ordering::Relaxed);
        swept
    }
}

impl Pass {
    fn go_to(&mut self, position: u16, count: u16, now: Time) {
        self.position = position;
        if position >= count {
            self.took = self.began.map_or(Duration::ZERO, |began| now.since(began));
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::TableId;
    use weft_transport::{Memory, MemoryConfig};

    use super::*;

    /// Whoever waits for the sweeper may find that it has removed everything meanwhile.
    #[test]
    fn what_others_have_swept_is_worth_another_try() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 4 << 20 }).unwrap();
        let partitions = Partitions::of_one(&memory, 7);
        let sweeper = Sweeper::default();
        for number in 0..100_u32 {
            let key = number.to_le_bytes();
            partitions.lock(0).put(TableId::DEFAULT, &key, b"value", None, 0).unwrap();
        }
        let seen = sweeper.removed();
        assert!(!sweeper.make_room(&partitions, seen, 0));
        partitions.lock(0).truncate(TableId::DEFAULT).unwrap();
        sweeper.look_for_buried();
        while sweeper.step(&partitions, false, Time::ZERO, 0) {}
        assert_eq!(sweeper.removed(), 100);
        assert!(sweeper.make_room(&partitions, seen, 0), "though nothing is left to remove");
        assert!(!sweeper.make_room(&partitions, sweeper.removed(), 0));
    }
}
