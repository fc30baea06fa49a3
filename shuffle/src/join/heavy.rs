//! Keys that so many records have that whoever has all of them is busy with them alone: heavy hitters, found while records go by.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use crate::error::JobError;
use crate::generate::Bits;
use crate::partition::give_to_all;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// One of so many records is looked at.
const EVERY: u64 = 16;

/// How often a key is seen at least before it is taken for heavy: with less, chance would decide.
const COUNT_MIN: u64 = 16;

/// A key is heavy if it has more than one part in so many of what a worker would have of an even distribution. So none that is not makes a worker's part larger by more than that.
const PARTS: u64 = 8;

/// Counters, by how often a key is heavy at most: what is counted is too low by no more than one part in so many of that.
const COUNTERS: u64 = 8;

/// Heavy keys of one worker, by the workers that there are. Ever new ones are found where records come in the order of their keys, and little is won by those.
const KEYS_MAX: u64 = 4 * PARTS;

/// The numbers that are drawn are the same in each run, and so is what becomes of each record.
const SEED: u64 = 0x4845_4156;

/// Finds the heavy keys of what a worker sends, by their hashes: counts some of the records in a fixed number of counters (Misra and Gries, "Finding repeated elements", 1982), so that every key is found that more
/// records have than one in as many as there are counters.
pub(super) struct HeavyHitters {
    workers: u64,
    bits: Bits,
    /// Records that are passed over before one is looked at.
    to_pass: u64,
    samples: u64,
    counters: HashMap<u64, u64, RandomState>,
    found: HeavyKeys,
}

/// Hashes of keys that are heavy. One that has such a hash by chance is dealt with as if it was heavy, too.
#[derive(Default)]
pub(super) struct HeavyKeys(HashSet<u64, RandomState>);

impl HeavyHitters {
    pub(super) fn new(worker: &Worker) -> HeavyHitters {
        HeavyHitters::of(worker.id(), worker.workers())
    }

    fn of(worker: WorkerId, workers: usize) -> HeavyHitters {
        HeavyHitters {
            workers: workers as u64,
            bits: Bits::of_chunk(SEED, worker.0 as u64),
            to_pass: 0,
            samples: 0,
            counters: HashMap::default(),
            found: HeavyKeys::default(),
        }
    }

    /// Sees a record's key, and says whether it is heavy by what was seen so far.
    #[inline]
    pub(super) fn see(&mut self, hash: u64) -> bool {
        match self.to_pass {
            0 => self.sample(hash),
            _ => self.to_pass -= 1,
        }
        self.found.contains(hash)
    }

    #[inline(never)]
    fn sample(&mut self, hash: u64) {
        // As many on the average, and never in step with records that repeat.
        self.to_pass = self.bits.below(2 * EVERY - 1);
        self.samples += 1;
        // A worker that is alone has nobody to share with.
        if self.workers == 1 {
            return;
        }
        let parts = PARTS * self.workers;
        if let Some(count) = self.counters.get_mut(&hash) {
            *count += 1;
            if *count >= COUNT_MIN && *count * parts > self.samples {
                let HeavyKeys(found) = &mut self.found;
                if (found.len() as u64) < KEYS_MAX * self.workers {
                    found.insert(hash);
                }
            }
        } else if (self.counters.len() as u64) < COUNTERS * parts {
            self.counters.insert(hash, 1);
        } else {
            // As often as a counter was raised at most.
            self.counters.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// An exchange: what is heavy by what any worker has seen. A worker that is alone has nothing that is.
    pub(super) fn agree(self, worker: &Worker) -> Result<HeavyKeys, JobError> {
        if self.workers == 1 {
            return Ok(self.found);
        }
        let _verb = worker.recorder().enter(Verb::Sample);
        let HeavyKeys(own) = self.found;
        let mut received = give_to_all(worker, own.into_iter().collect())?;
        let found = std::mem::take(&mut received.by_worker);
        let is_too_long = |found: &Vec<u64>| found.len() as u64 > KEYS_MAX * self.workers;
        match found.iter().position(is_too_long) {
            None => Ok(HeavyKeys(found.into_iter().flatten().collect())),
            Some(from) => Err(received.refuse(WorkerId(from), "more heavy keys than there are")),
        }
    }
}

impl HeavyKeys {
    #[inline]
    pub(super) fn contains(&self, hash: u64) -> bool {
        !self.0.is_empty() && self.0.contains(&hash)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(workers: usize, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut heavy = HeavyHitters::of(WorkerId(0), workers);
        keys.for_each(|key| {
            let _ = heavy.see(key);
        });
        assert!(heavy.counters.len() as u64 <= COUNTERS * PARTS * workers as u64);
        let mut found: Vec<u64> = heavy.found.0.into_iter().collect();
        found.sort_unstable();
        found
    }

    /// Numbers from 1,000 on, no two alike, but for some that are `often` of a hundred.
    fn keys(often: &'static [(u64, u64)]) -> impl Iterator<Item = u64> {
        (0..200_000_u64).map(move |at| {
            // In no step with anything.
            let mut draw = at * 7_919 % 100;
            for (key, share) in often {
                if draw < *share {
                    return *key;
                }
                draw -= share;
            }
            1_000 + at
        })
    }

    #[test]
    fn keys_with_more_than_their_part_are_found_and_no_others() {
        assert_eq!(found(2, keys(&[(1, 40)])), [1]);
        assert_eq!(found(2, keys(&[(1, 20), (2, 10), (3, 9), (4, 2)])), [1, 2, 3]);
        assert_eq!(found(8, keys(&[(1, 20), (4, 3), (5, 1)])), [1, 4]);
        assert_eq!(found(2, keys(&[])), [0_u64; 0]);
        assert_eq!(found(1, keys(&[(1, 40)])), [0_u64; 0], "nobody to share with");
    }

    #[test]
    fn a_key_is_found_once_enough_was_seen_however_late_it_comes() {
        let late = (0..100_000).chain(std::iter::repeat_n(7, 30_000));
        assert_eq!(found(2, late), [7]);
        assert_eq!(found(2, std::iter::repeat_n(7, 100)), [0_u64; 0], "chance decides yet");
        assert_eq!(found(2, std::iter::repeat_n(7, 1_000)), [7]);
    }

    #[test]
    fn records_in_the_order_of_their_keys_do_not_make_all_of_these_heavy() {
        // Each run is a twentieth of what was seen before.
        let (mut keys, mut key) = (Vec::new(), 0);
        while keys.len() < 3_000_000 {
            key += 1;
            keys.extend(std::iter::repeat_n(key, (keys.len() / 10).max(1)));
        }
        assert!(found(2, keys.into_iter()).len() as u64 <= KEYS_MAX * 2);
    }
}
