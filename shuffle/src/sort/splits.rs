//! Which worker gets which keys, so that all get as many records.

use std::cmp::Ordering;

/// Where the keys of one worker end and those of the next begin.
#[derive(Debug, Clone)]
pub(crate) struct Splits<K> {
    /// In order, no key twice.
    splits: Vec<Split<K>>,
}

/// A key at which a worker's part ends.
#[derive(Debug, Clone)]
struct Split<K> {
    key: K,
    /// The worker that has the keys before it.
    first: usize,
    /// Where, between 0 and 1, the shares end that this worker and those behind it have of the records with this very key; the last ends at 1.
    ends: Vec<f64>,
    /// How many records with this key have been given a worker.
    placed: u64,
}

impl<K: Ord + Clone> Splits<K> {
    /// By samples: some keys of each worker's records, and how many records it has.
    pub(crate) fn of_samples<I>(
        samples: impl IntoIterator<Item = (I, u64)>,
        workers: usize,
    ) -> Splits<K>
    where
        I: IntoIterator<Item = K, IntoIter: ExactSizeIterator>,
    {
        let weighed = samples.into_iter().flat_map(|(keys, records)| {
            let keys = keys.into_iter();
            let weight = records as f64 / keys.len() as f64;
            keys.map(move |key| (key, weight))
        });
        let mut weighed: Vec<(K, f64)> = weighed.collect();
        weighed.sort_by(|(one, _), (other, _)| one.cmp(other));
        let part = weighed.iter().map(|(_, weight)| weight).sum::<f64>() / workers as f64;
        let mut splits = Vec::new();
        // Everything before the key, and the worker that this falls to.
        let (mut before, mut first) = (0.0, 0);
        for same in weighed.chunk_by(|(one, _), (other, _)| one == other) {
            let weight = same.iter().map(|(_, weight)| weight).sum::<f64>();
            let parts_end = (first + 1..workers).map(|worker| part * worker as f64);
            let mut ends: Vec<f64> = parts_end
                .take_while(|end| *end <= before + weight)
                .map(|end| ((end - before) / weight).clamp(0.0, 1.0))
                .collect();
            if !ends.is_empty() {
                let next = first + ends.len();
                ends.push(1.0);
                splits.push(Split { key: same[0].0.clone(), first, ends, placed: 0 });
                first = next;
            }
            before += weight;
        }
        Splits { splits }
    }

    /// The worker that a record with this key goes to. Those of a key that is in the parts of several workers are spread over these.
    #[inline]
    pub(crate) fn place(&mut self, key: &K) -> usize {
        match self.splits.binary_search_by(|split| split.key.cmp(key)) {
            Err(0) => 0,
            // Behind a split begins what its last worker has.
            Err(at) => self.splits[at - 1].first + self.splits[at - 1].ends.len() - 1,
            Ok(at) => self.splits[at].spread(),
        }
    }
}

impl<K> Split<K> {
    /// Spread evenly: the fractional parts of the multiples of the golden ratio lie as evenly as they can, however many there are.
    fn spread(&mut self) -> usize {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let at = (self.placed as f64 * GOLDEN).fract();
        self.placed += 1;
        let share = self.ends.partition_point(|end| end.total_cmp(&at) != Ordering::Greater);
        self.first + share.min(self.ends.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many records each worker gets, and that none has a key before those of the worker ahead of it.
    fn placed(keys: &[u32], splits: &mut Splits<u32>, workers: usize) -> Vec<usize> {
        let mut parts = vec![Vec::new(); workers];
        keys.iter().for_each(|key| parts[splits.place(key)].push(*key));
        let ends = parts.iter().filter_map(|part| Some((part.iter().min()?, part.iter().max()?)));
        assert!(ends.collect::<Vec<_>>().windows(2).all(|pair| pair[0].1 <= pair[1].0));
        parts.iter().map(Vec::len).collect()
    }

    #[test]
    fn all_get_as_many_though_many_keys_are_the_same() {
        let distinct: Vec<u32> = (0..10_000).collect();
        let same = vec![7; 10_000];
        // Four tenths have one key.
        let skewed = (0..10_000).map(|at| if at % 10 < 4 { 2_000 } else { at }).collect();
        for keys in [distinct, same, skewed] {
            for workers in 1..=7 {
                let (one, other) = keys.split_at(3_000);
                let samples = [one, other].map(|keys| (keys.to_vec(), keys.len() as u64));
                let mut splits = Splits::of_samples(samples, workers);
                let counts = placed(&keys, &mut splits, workers);
                let most = counts.iter().max().unwrap() * workers;
                assert!(most < keys.len() * 101 / 100 + 10 * workers, "{counts:?}");
            }
        }
    }

    #[test]
    fn a_key_counts_as_many_records_as_it_stands_for() {
        // One worker has a thousand times as many records as the other, and as many samples.
        let low = ((0..1_000).collect(), 1_000);
        let high: (Vec<u32>, u64) = ((1_000..2_000).collect(), 1_000_000);
        let mut splits = Splits::of_samples([low, high], 2);
        let keys: Vec<u32> = (1_000..2_000).collect();
        let counts = placed(&keys, &mut splits, 2);
        assert!(counts[0].abs_diff(counts[1]) < 10, "{counts:?}");
    }

    #[test]
    fn who_knows_nothing_gives_all_to_one() {
        let mut splits = Splits::<u32>::of_samples([(Vec::new(), 0), (Vec::new(), 0)], 3);
        assert_eq!(placed(&[1, 2, 3], &mut splits, 3), [3, 0, 0]);
    }

    proptest! {
        #[test]
        fn whatever_the_keys_are_they_go_to_workers_in_order(
            keys in prop::collection::vec(0_u32..50, 1..200),
            sampled in 1_usize..200,
            workers in 1_usize..9,
        ) {
            let sample = keys[..sampled.min(keys.len())].to_vec();
            let mut splits = Splits::of_samples([(sample, keys.len() as u64)], workers);
            placed(&keys, &mut splits, workers);
        }
    }
}
