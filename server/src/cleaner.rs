//! Who cleans, when, and how much: segments of the log are emptied before memory runs out.
//!
//! - While a twentieth to a fifth of memory is free, a thread with nothing else to do takes one [`step`](Cleaner::step)
//!   after the other, when the processors have nothing better to do. It empties segments that give much for little: a
//!   store which only holds much is not compacted for ever.
//! - Below that who writes pays for it: about as many bytes are gained as were written, at the end of the batch,
//!   before its replies leave. Writers are slowed to the pace of cleaning instead of being stopped by its absence. The thread
//!   stays out of it: one that is to give way to everybody would keep a partition's lock while it does.
//! - Above it, writers do it too, but only where it costs less than fresh memory: once the log is twice what is live in it ([`reuse`]).
//! - Whoever finds no memory at all empties segments until there is enough or nothing is worth it; at last those of which much is unused at the end.
//!
//! One segment is emptied at a time, whoever does it, and a partition is locked for a step.

mod queue;
mod reuse;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_transport::Memory;

use crate::evictor::Evictor;
use crate::partitions::Partitions;
use crate::store::{Cleaned, Victim, kept_back_bytes};

use self::queue::{CHOSEN_MAX, Queue};
use self::reuse::Reuse;

/// The thread works while less than this part of the memory is free …
const FREE_WANTED: f64 = 0.20;
/// … on segments of which at most this is live: it moves no more than it frees.
const USE_MAX_EASY: f64 = 0.5;
/// It works down to here …
const FREE_LOW: f64 = 0.05;
/// … on segments that may be the fuller the less is free, up to this.
const USE_MAX_LOW: f64 = 0.8;
/// Writers pay when less than this part is free. What is dead is left in the log until then: the longer it waits, the
/// more dies around it, and the less has to move.
const FREE_SCARCE: f64 = 0.03;
/// What may be live of a segment that writers empty. Fuller ones would move thirty bytes and more for each that
/// they gain.
const USE_MAX_HARD: f64 = 0.97;
/// The same as long as there are objects that may be evicted instead: what is moved for a byte that is gained costs more than
/// what is kept by it is worth.
const USE_MAX_EVICTING: f64 = 0.85;
/// What may be used of a segment that is emptied for what is unused at its end, when nothing else gives memory.
const USE_MAX_ROOMY: f64 = 0.95;
/// Bytes of objects that are evicted at a time when no segment is empty enough.
const EVICTED_BYTES: u64 = 64 << 10;
/// Bytes that a step is about.
const STEP_BYTES: usize = 32 << 10;
/// Steps that the writers of a batch pay at most: a few hundred microseconds.
const PAID_STEPS_MAX: usize = 8;

/// What empties segments.
#[derive(Debug)]
pub(crate) struct Cleaner {
    memory: Memory,
    limit_bytes: u64,
    queue: Mutex<Queue>,
    moved_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    /// Bytes that writers have written and not paid for.
    debt_bytes: AtomicI64,
    reuse: Reuse,
}

impl Cleaner {
    /// Nothing is chosen. Keeps back what it needs of `memory`, the store's.
    pub(crate) fn new(memory: Memory) -> Cleaner {
        let limit_bytes = memory.account().limit_bytes;
        memory.keep_back(kept_back_bytes(limit_bytes));
        Cleaner {
            memory,
            limit_bytes,
            queue: Mutex::default(),
            moved_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            debt_bytes: AtomicI64::new(0),
            reuse: Reuse::default(),
        }
    }

    /// Bytes of records that were moved so far.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of segments that were emptied so far.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.freed_bytes.load(Ordering::Acquire)
    }

    /// Whether memory is so short that segments are emptied.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.free_share() < FREE_WANTED
    }

    /// One step, if memory is short enough for that and nobody else cleans. Returns whether there was something to do.
    pub(crate) fn step(&self, partitions: &Partitions, now_ms: u64) -> bool {
        let Some(use_max) = use_max(self.free_share()) else { return false };
        let Some(mut queue) = self.queue.try_lock() else { return false };
        // Writers empty fuller ones than the thread does.
        queue.drop_fuller_than(USE_MAX_LOW);
        let cleaned = self.step_with(&mut queue, partitions, use_max, now_ms);
        cleaned.is_some_and(|cleaned| cleaned.refused.is_none())
    }

    /// Takes steps for `written_bytes` of log that a batch has written, if memory is low or much of the log is dead, or evicts objects
    /// where no segment is worth it. The caller may hold no partition's lock.
    pub(crate) fn pay(
        &self,
        partitions: &Partitions,
        evictor: &Evictor,
        written_bytes: u64,
        now_ms: u64,
    ) {
        let free_share = self.free_share();
        if free_share >= FREE_SCARCE {
            if self.debt_bytes.load(Ordering::Relaxed) != 0 {
                self.debt_bytes.store(0, Ordering::Relaxed);
            }
            self.reuse(partitions, written_bytes, now_ms);
            return;
        }
        let owed_bytes = (written_bytes as f64 * price(free_share)) as i64;
        let debt_bytes = self.debt_bytes.fetch_add(owed_bytes, Ordering::Relaxed) + owed_bytes;
        // Whoever cleans already pays for all.
        let Some(mut queue) = self.queue.try_lock().filter(|_| debt_bytes > 0) else { return };
        let mut use_max = if evictor.is_allowed() { USE_MAX_EVICTING } else { USE_MAX_HARD };
        for _ in 0..PAID_STEPS_MAX {
            let Some(done) = self.step_with(&mut queue, partitions, use_max, now_ms) else {
                // Choosing among all segments again takes about as long as evicting does: the next batch does it.
                if use_max < USE_MAX_HARD
                    && evictor.evict(partitions, None, EVICTED_BYTES, now_ms) == 0
                {
                    use_max = USE_MAX_HARD;
                    continue;
                }
                return;
            };
            // What was moved takes room elsewhere.
            let gained_bytes = done.freed_bytes.cast_signed() - done.moved_bytes.cast_signed();
            if self.debt_bytes.fetch_sub(gained_bytes, Ordering::Relaxed) <= gained_bytes {
                return;
            }
        }
    }

    /// Empties segments until `needed_bytes` are free that were not, for a write that found no memory when
    /// [`freed_bytes`](Self::freed_bytes) was `seen_bytes`; when none is worth it, what is left of those that objects were moved to is written
    /// to; when there is no such, those are emptied of which much is unused at the end, and at last objects are evicted. Returns whether it is worth
    /// another try. The caller may hold no partition's lock.
    #[cold]
    pub(crate) fn make_room(
        &self,
        partitions: &Partitions,
        evictor: &Evictor,
        needed_bytes: u64,
        seen_bytes: u64,
        now_ms: u64,
    ) -> bool {
        let mut queue = self.queue.lock();
        let mut fruitless = 0;
        while self.freed_bytes() - seen_bytes < needed_bytes {
            let step = self.step_with(&mut queue, partitions, USE_MAX_HARD, now_ms);
            // As many as are chosen at a time have given nothing: the next would be the same ones.
            let Some(done) = step.filter(|_| fruitless <= CHOSEN_MAX) else {
                let mut positions = 0..partitions.len() as u16;
                if positions.any(|position| partitions.lock(position).hand_over_moved())
                    || self.compact(&mut queue, partitions, needed_bytes, now_ms)
                {
                    return true;
                }
                let bytes = needed_bytes.max(EVICTED_BYTES);
                let is_evicted = evictor.evict(partitions, None, bytes, now_ms) > 0;
                return is_evicted || self.freed_bytes() > seen_bytes;
            };
            match done {
                Cleaned { freed_bytes: 0, .. } => fruitless += usize::from(done.is_over()),
                Cleaned { .. } => fruitless = 0,
            }
        }
        true
    }

    /// Moves what lies in segments of which much is unused at the end, until `needed_bytes` more are free. They are left by records that are long for
    /// their segment, and where memory is scarce segments are small. Returns whether anything was gained: where it lies now may leave as much unused
    /// again, so this is for when a write would be refused, and is done a few times at most while nothing has died: a write that is tried again
    /// kills nothing, and would have the same moved to and fro for ever.
    fn compact(
        &self,
        queue: &mut Queue,
        partitions: &Partitions,
        needed_bytes: u64,
        now_ms: u64,
    ) -> bool {
        if !queue.begin_compaction(partitions.log_use().killed_bytes) {
            return false;
        }
        let before_bytes = self.memory.free_or_kept_back_bytes();
        let gained_bytes = || self.memory.free_or_kept_back_bytes().saturating_sub(before_bytes);
        for (position, mut victim) in queue::roomiest(partitions, USE_MAX_ROOMY) {
            let mut is_over = false;
            while !is_over {
                let cleaned = self.clean(partitions, position, &mut victim, now_ms);
                is_over = cleaned.is_over();
            }
            if gained_bytes() >= needed_bytes {
                break;
            }
        }
        gained_bytes() > 0
    }

    /// One step for the best segment, or nothing if none is worth it.
    fn step_with(
        &self,
        queue: &mut Queue,
        partitions: &Partitions,
        use_max: f64,
        now_ms: u64,
    ) -> Option<Cleaned> {
        if queue.is_empty() {
            let allocated_bytes = self.memory.account().allocated_bytes;
            queue.choose(partitions, use_max, allocated_bytes);
        }
        let (position, victim) = queue.best()?;
        let cleaned = self.clean(partitions, position, victim, now_ms);
        // What has no place to go now stays until it is chosen again.
        if cleaned.is_over() {
            queue.pop();
        }
        queue.freed_bytes += cleaned.freed_bytes;
        Some(cleaned)
    }

    /// One step for a segment.
    fn clean(
        &self,
        partitions: &Partitions,
        position: u16,
        victim: &mut Victim,
        now_ms: u64,
    ) -> Cleaned {
        let cleaned = partitions.lock(position).clean(victim, STEP_BYTES, now_ms);
        self.moved_bytes.fetch_add(cleaned.moved_bytes, Ordering::Relaxed);
        self.freed_bytes.fetch_add(cleaned.freed_bytes, Ordering::Release);
        cleaned
    }

    fn free_share(&self) -> f64 {
        self.memory.free_bytes() as f64 / self.limit_bytes as f64
    }
}

/// What may be live of a segment that the thread empties, by the part of memory that is free; nothing while enough is, or
/// too little.
fn use_max(free_share: f64) -> Option<f64> {
    let ease = (free_share - FREE_LOW) / (FREE_WANTED - FREE_LOW);
    (0.0..1.0).contains(&ease).then_some(USE_MAX_LOW - ease * (USE_MAX_LOW - USE_MAX_EASY))
}

/// What writers owe for each byte that they write, by the part of memory that is free: as much as they write when half
/// of what is scarce is free, so that it settles about there.
fn price(free_share: f64) -> f64 {
    2.0 * (1.0 - free_share / FREE_SCARCE)
}

#[cfg(test)]
mod tests {
    use weft_protocol::TableId;
    use weft_transport::{MemoryConfig, PAGE_BYTES, Purpose};

    use super::*;

    const TABLE: TableId = TableId::DEFAULT;

    #[test]
    fn the_less_is_free_the_less_a_segment_has_to_give() {
        let near = |free: f64, expected: f64| {
            assert!((use_max(free).unwrap() - expected).abs() < 1e-6, "{free}");
        };
        assert_eq!(use_max(0.5), None);
        assert_eq!(use_max(0.2), None);
        near(0.199_999_999, 0.5);
        near(0.125, 0.65);
        near(0.05, 0.8);
        assert_eq!(use_max(0.049), None);
    }

    /// What is kept back is used up by emptied segments that replies are still being sent from: no segment that is not
    /// pinned can be emptied either, and whoever writes is told instead of trying for ever.
    #[test]
    fn a_write_that_nothing_can_be_emptied_for_is_given_up() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 4 << 20 }).unwrap();
        let (cleaner, evictor) = (Cleaner::new(memory.clone()), Evictor::default());
        let partitions = Partitions::of_one(&memory, 7);
        let key = |number: usize| format!("key-{number}").into_bytes();
        let mut count = 0;
        while partitions.lock(0).put(TABLE, &key(count), &[7; 2_000], None, 0).is_ok() {
            count += 1;
        }
        let pin = partitions.lock(0).get(TABLE, &key(0), 0).unwrap().pin();
        for number in (1..count).filter(|number| number % 3 != 0) {
            partitions.lock(0).delete(TABLE, &key(number), 0).unwrap();
        }
        assert!(partitions.lock(0).victims(0.9).any(|victim| victim.is_pinned()));
        let mut taken = Vec::new();
        while let Ok(block) = memory.allocate_kept_back(PAGE_BYTES, Purpose::Log) {
            taken.push(block);
        }
        let seen_bytes = cleaner.freed_bytes();
        // The open end has room for some of it, maybe.
        while cleaner.make_room(&partitions, &evictor, 1 << 20, cleaner.freed_bytes(), 0) {}
        assert!(!cleaner.make_room(&partitions, &evictor, 1 << 20, cleaner.freed_bytes(), 0));
        drop(taken);
        assert!(cleaner.make_room(&partitions, &evictor, 1 << 20, cleaner.freed_bytes(), 0));
        assert!(cleaner.freed_bytes() > seen_bytes);
        assert_eq!(*pin, [7; 2_000]);
        partitions.lock(0).verify().unwrap();
    }

    /// A cleaner that others leave nothing begins a segment of what is kept back. Once there is nothing to empty any more, what is left of
    /// it is for whoever writes, or a node would refuse what it has room for.
    #[test]
    fn what_is_left_of_what_was_moved_to_is_written_to_when_nothing_can_be_emptied() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).unwrap();
        let (cleaner, evictor) = (Cleaner::new(memory.clone()), Evictor::default());
        let partitions = Partitions::of_one(&memory, 7);
        let mut keys = (0..).map(|number: usize| format!("key-{number:08}").into_bytes());
        let mut put = |len: usize| {
            partitions.lock(0).put(TABLE, &keys.next().unwrap(), &vec![7; len], None, 0).is_ok()
        };
        assert!((0..3_000).all(|_| put(1_000)));
        for number in (0..50).filter(|number| number % 10 != 0) {
            let key = format!("key-{number:08}").into_bytes();
            partitions.lock(0).delete(TABLE, &key, 0).unwrap();
        }
        let mut others = Vec::new();
        let mut take_all =
            || others.extend(std::iter::from_fn(|| memory.allocate(1, Purpose::Log).ok()));
        take_all();
        while put(100) {}
        let borrowed = memory.allocate_kept_back(100 << 10, Purpose::Log).unwrap();
        let make_room = || cleaner.make_room(&partitions, &evictor, 1, cleaner.freed_bytes(), 0);
        assert!(make_room());
        assert!(cleaner.moved_bytes() > 0);
        drop(borrowed);
        take_all();
        assert!(!put(10_000), "the test is of no use");
        assert!(make_room());
        assert!((0..3).all(|_| put(10_000)));
        while put(10_000) {}
        assert!(!make_room(), "there is nothing left");
        assert!(memory.free_or_kept_back_bytes() >= 256 << 10);
        partitions.lock(0).verify().unwrap();
    }
}
