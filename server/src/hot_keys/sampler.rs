//! Which requests are looked at: about one in [`HOT_KEYS_SAMPLED_ONE_IN`], each as likely as any other, whatever became of those before.
//!
//! Instead of drawing a number for each request, the length of the gap to the next sample is drawn, which is distributed geometrically
//! then. So clients whose requests come in a period have no part of it that is never seen, and a request costs a decrement.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::counters::{SHARDS, shard_of_this_thread};
use crate::limits::HOT_KEYS_SAMPLED_ONE_IN;

/// Draws the samples of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampler {
    state: u64,
    /// Requests up to the next sample.
    gap: u32,
}

impl Sampler {
    /// Draws the same samples for the same seed.
    pub(super) fn new(seed: u64) -> Sampler {
        let mut sampler = Sampler { state: seed, gap: 0 };
        sampler.draw_gap();
        sampler
    }

    /// Whether the next request is a sample.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.gap > 0 {
            self.gap -= 1;
            return false;
        }
        self.draw_gap();
        true
    }

    #[cold]
    fn draw_gap(&mut self) {
        let missed = 1.0 - 1.0 / f64::from(HOT_KEYS_SAMPLED_ONE_IN);
        // Above 0 and at most 1, so that its logarithm is finite and the gap some thousands at most.
        let uniform = ((self.random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.gap = (uniform.ln() / missed.ln()) as u32;
    }

    /// 64 random bits (SplitMix64).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The samplers of all threads, between their batches.
///
/// All begin alike, so that what a simulated node draws does not depend on the thread that it runs on. Threads that share one may
/// draw the same gaps, which makes no request more likely than another.
#[derive(Debug)]
pub(super) struct Samplers {
    shards: [CachePadded<Shard>; SHARDS],
}

#[derive(Debug)]
struct Shard {
    state: AtomicU64,
    gap: AtomicU32,
}

impl Samplers {
    pub(super) fn new(seed: u64) -> Samplers {
        let Sampler { state, gap } = Sampler::new(seed);
        let shard = |_| CachePadded::new(Shard { state: state.into(), gap: gap.into() });
        Samplers { shards: array::from_fn(shard) }
    }

    /// The one of this thread.
    #[inline]
    pub(super) fn take(&self) -> Sampler {
        let Shard { state, gap } = &*self.shards[shard_of_this_thread()];
        Sampler { state: state.load(Ordering::Relaxed), gap: gap.load(Ordering::Relaxed) }
    }

    /// Has this thread go on with `sampler`.
    #[inline]
    pub(super) fn give_back(&self, sampler: Sampler) {
        let shard = &self.shards[shard_of_this_thread()];
        shard.state.store(sampler.state, Ordering::Relaxed);
        shard.gap.store(sampler.gap, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_a_sample_at_every_place_of_a_period() {
        let one_in = HOT_KEYS_SAMPLED_ONE_IN as usize;
        for period in [2, 7, one_in, one_in + 1, 2 * one_in] {
            let mut sampler = Sampler::new(7);
            let mut by_place = vec![0_u32; period];
            let rounds = 400_000 / period;
            for place in (0..rounds).flat_map(|_| 0..period) {
                by_place[place] += u32::from(sampler.is_due());
            }
            let expected = rounds as f64 / one_in as f64;
            for (place, &count) in by_place.iter().enumerate() {
                let off = (f64::from(count) - expected).abs();
                assert!(
                    off < 5.0 * expected.sqrt(),
                    "{count} of {expected} at {place} of {period}"
                );
            }
        }
    }

    #[test]
    fn a_thread_goes_on_where_it_was() {
        let samplers = Samplers::new(9);
        let mut whole = Sampler::new(9);
        for _ in 0..1_000 {
            let mut part = samplers.take();
            for _ in 0..3 {
                assert_eq!(part.is_due(), whole.is_due());
            }
            samplers.give_back(part);
        }
    }
}
