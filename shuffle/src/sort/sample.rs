//! By which keys all workers agree on who gets which.

use weft_object::{Pair, Record};

use super::splits::Splits;
use crate::dataset::KeyAlone;
use crate::error::JobError;
use crate::generate::Bits;
use crate::partition::{gather, give_to_all};
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// Keys that each worker gives: with so many, the largest part is a few hundredths above the mean.
const KEYS: usize = 4096;

/// Bytes of a key that is a text, at most: keys that begin with the same ones are not told apart, and nothing depends on it but which worker gets them.
const TEXT_BYTES: usize = 256;

/// The numbers that are drawn are the same in each run, and so is which record goes where.
const SEED: u64 = 0x5a4d_504c;

/// Some keys of a worker's records, each with the same probability: a reservoir, which draws once for each key that it takes and not for those
/// that it passes over (Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", 1994).
pub(super) struct Sample<K> {
    keys: Vec<KeyAlone<K>>,
    seen: u64,
    /// The record, counted from 0, whose key comes in next.
    next: u64,
    /// The largest of as many random numbers as there are keys.
    largest: f64,
    bits: Bits,
}

impl<K: Ord + Clone> Sample<K>
where
    KeyAlone<K>: Record,
{
    pub(super) fn new(worker: &Worker) -> Sample<K> {
        Sample::of(worker.id())
    }

    fn of(worker: WorkerId) -> Sample<K> {
        let bits = Bits::of_chunk(SEED, worker.0 as u64);
        Sample { keys: Vec::new(), seen: 0, next: 0, largest: 1.0, bits }
    }

    #[inline]
    pub(super) fn see(&mut self, key: &K) {
        if self.seen == self.next {
            self.take(key);
        }
        self.seen += 1;
    }

    #[cold]
    fn take(&mut self, key: &K) {
        let mut key = Pair { key: key.clone(), value: [] };
        key.truncate(TEXT_BYTES);
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
        let mut received = give_to_all(worker, self.keys)?;
        let keys = std::mem::take(&mut received.by_worker);
        let samples: Vec<(Vec<KeyAlone<K>>, u64)> = keys.into_iter().zip(records).collect();
        // What does not fit together would make parts of no use.
        let is_one = |(keys, records): &(Vec<KeyAlone<K>>, u64)| {
            keys.len() as u64 == KEYS.min(*records as usize) as u64
        };
        match samples.iter().position(|sample| !is_one(sample)) {
            None => {
                let keys = |keys: Vec<KeyAlone<K>>| keys.into_iter().map(|alone| alone.key);
                let samples = samples.into_iter().map(|(all, records)| (keys(all), records));
                Ok(Splits::of_samples(samples, worker.workers()))
            }
            Some(from) => Err(received.refuse(WorkerId(from), "a sample of another length")),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_object::TextKey;

    use super::*;

    #[test]
    fn keys_are_drawn_from_all_and_no_text_takes_much() {
        let mut sample = Sample::of(WorkerId(0));
        let begin = "ß".repeat(300);
        for number in 0..20 * KEYS {
            sample.see(&TextKey::from(&*format!("{number:06}{begin}")));
        }
        assert_eq!((sample.keys.len(), sample.seen), (KEYS, 20 * KEYS as u64));
        assert!(sample.keys.iter().all(|alone| (255..=TEXT_BYTES).contains(&alone.key.len())));
        let low = sample.keys.iter().filter(|alone| &alone.key[..6] < "040960").count();
        assert!((KEYS * 4 / 10..KEYS * 6 / 10).contains(&low), "{low} of the first half");
    }
}
