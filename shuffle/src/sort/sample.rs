//! By which keys all workers agree on who gets which.

use weft_object::Wire;

use super::splits::Splits;
use crate::error::JobError;
use crate::generate::Bits;
use crate::partition::{all_to_all, gather};
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// Keys that each worker gives: with so many, the largest part is a few hundredths above the mean.
const KEYS: usize = 4096;

/// The numbers that are drawn are the same in each run, and so is which record goes where.
const SEED: u64 = 0x5a4d_504c;

/// Some keys of a worker's records, each with the same probability: a reservoir, which draws once for each key that it takes and not for those
/// that it passes over (Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", 1994).
pub(super) struct Sample<K> {
    keys: Vec<K>,
    seen: u64,
    /// The record, counted from 0, whose key comes in next.
    next: u64,
    /// The largest of as many random numbers as there are keys.
    largest: f64,
    bits: Bits,
}

impl<K: Wire + Ord> Sample<K> {
    pub(super) fn new(worker: &Worker) -> Sample<K> {
        let bits = Bits::of_chunk(SEED, worker.id().0 as u64);
        Sample { keys: Vec::new(), seen: 0, next: 0, largest: 1.0, bits }
    }

    #[inline]
    pub(super) fn see(&mut self, key: K) {
        if self.seen == self.next {
            self.take(key);
        }
        self.seen += 1;
    }

    #[cold]
    fn take(&mut self, key: K) {
        if self.keys.len() < KEYS {
            self.keys.push(key);
            self.next += 1;
            if self.keys.len() < KEYS {
                return;
            }
            self.next = self.seen;
        } else {
            let place = self.bits.below(KEYS as u64) as usize;
            self.keys[place] = key;
        }
        self.largest *= (self.unit().ln() / KEYS as f64).exp();
        let passed = self.unit().ln() / (1.0 - self.largest).ln();
        self.next = self.next.saturating_add(passed as u64).saturating_add(1);
    }

    /// Above 0, so that it has a logarithm.
    fn unit(&mut self) -> f64 {
        1.0 - self.bits.unit()
    }

    /// The splits that all workers come to, from the samples of all.
    pub(super) fn agree(self, worker: &Worker) -> Result<Splits<K>, JobError> {
        let _verb = worker.recorder().enter(Verb::Sample);
        let records = gather(worker, self.seen)?;
        let keys = |to| self.keys.iter().map(move |key| (to, *key));
        let mut received = all_to_all(worker, worker.ids().flat_map(keys))?;
        let keys = std::mem::take(&mut received.by_worker);
        let samples: Vec<(Vec<K>, u64)> = keys.into_iter().zip(records).collect();
        // What does not fit together would make parts of no use.
        let is_one = |(keys, records): &(Vec<K>, u64)| {
            keys.len() as u64 == KEYS.min(*records as usize) as u64
        };
        match samples.iter().position(|sample| !is_one(sample)) {
            None => Ok(Splits::of_samples(&samples, worker.workers())),
            Some(from) => Err(received.refuse(WorkerId(from), "a sample of another length")),
        }
    }
}
