//! Which keys the node was asked for the most of late.
//!
//! Of all requests that name a key that the node owns, and of the keys of multi-requests, whether or not there are objects and of whatever
//! table, about one in [`HOT_KEYS_SAMPLED_ONE_IN`] is looked at (`sampler`), and counted by Space-Saving with [`HOT_KEYS_COUNTED`] counters
//! (`space_saving`). All counts are halved every [`HOT_KEYS_HALVED_EVERY`], and with them the time that they stand for: so a count by
//! this time is a rate, in which what was long ago plays no part.
//!
//! No request waits for another one's sample: one that finds the counters taken is missed. Which ones are has nothing to do with their
//! keys, so all counts are raised by the part that was missed when they are told.

mod sampler;
mod space_saving;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_protocol::{HotKeysReply, KeyHeat, Operation, TableId};
use weft_transport::{Charge, Memory, MemoryError, Purpose, Time};

pub(crate) use self::sampler::Sampler;
use self::sampler::Samplers;
use self::space_saving::{Counted, Counter, SpaceSaving};
use crate::limits::{HOT_KEYS_COUNTED, HOT_KEYS_HALVED_EVERY, HOT_KEYS_SAMPLED_ONE_IN};

/// After so many halvings in a row nothing of what was before is left: counters hold fewer than 2^53 requests.
const HALVINGS_MAX: u64 = 64;

/// What a request does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    pub(crate) fn of(operation: Operation) -> Access {
        if operation.is_mutation() { Access::Write } else { Access::Read }
    }
}

/// The counts, and who draws what is counted.
#[derive(Debug)]
pub(crate) struct HotKeys {
    samplers: Samplers,
    counts: Mutex<Counts>,
    /// Samples that found the counters taken and that `counts` does not know of.
    missed: AtomicU64,
    _charge: Charge,
}

#[derive(Debug)]
struct Counts {
    keys: SpaceSaving,
    /// Samples that were missed, faded like those that were not.
    missed: f64,
    /// Seconds that the counts stand for.
    covered_s: f64,
    /// Up to when they do.
    counted_until: Time,
    halved_at: Time,
}

/// The keys that were asked for the most.
#[derive(Debug)]
pub(crate) struct Hottest {
    covered_ms: u64,
    requests: f64,
    /// Requests by sample.
    scale: f64,
    counters: Vec<Counter>,
}

impl HotKeys {
    /// No key was asked for before `now`. What is kept is charged to `memory` at once, for good.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`].
    pub(crate) fn new(memory: &Memory, seed: u64, now: Time) -> Result<HotKeys, MemoryError> {
        let bytes = size_of::<HotKeys>() + SpaceSaving::bytes(HOT_KEYS_COUNTED);
        let charge = memory.charge(bytes as u64, Purpose::Session)?;
        let counts = Counts {
            keys: SpaceSaving::new(HOT_KEYS_COUNTED),
            missed: 0.0,
            covered_s: 0.0,
            counted_until: now,
            halved_at: now,
        };
        Ok(HotKeys {
            samplers: Samplers::new(seed),
            counts: Mutex::new(counts),
            missed: AtomicU64::new(0),
            _charge: charge,
        })
    }

    /// Says which of the next requests of this thread are samples.
    #[inline]
    pub(crate) fn sampler(&self) -> Sampler {
        self.samplers.take()
    }

    /// Has this thread go on with `sampler` later.
    #[inline]
    pub(crate) fn give_back(&self, sampler: Sampler) {
        self.samplers.give_back(sampler);
    }

    /// Counts a sample, unless the counters are taken.
    pub(crate) fn count(&self, table: TableId, key: &[u8], access: Access, now: Time) {
        // Before the counters are taken: a key may be long.
        let key = Counted::new(table, key);
        let Some(mut counts) = self.counts.try_lock() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        counts.pass_to(now);
        counts.missed += self.take_missed();
        counts.keys.count(key, access);
    }

    /// Forgets keys of tables that are not kept.
    pub(crate) fn keep_tables(&self, is_kept: impl Fn(TableId) -> bool) {
        self.counts.lock().keys.keep_tables(is_kept);
    }

    /// The hottest keys of tables that are there, at most so many.
    pub(crate) fn hottest(
        &self,
        keys_max: usize,
        is_there: impl Fn(TableId) -> bool,
        now: Time,
    ) -> Hottest {
        let mut counts = self.counts.lock();
        counts.pass_to(now);
        counts.missed += self.take_missed();
        let (total, missed) = (counts.keys.total(), counts.missed);
        let one_in = f64::from(HOT_KEYS_SAMPLED_ONE_IN);
        Hottest {
            covered_ms: (counts.covered_s * 1e3) as u64,
            requests: one_in * (total + missed),
            scale: if total > 0.0 { one_in * (total + missed) / total } else { one_in },
            counters: counts.keys.hottest(keys_max, is_there),
        }
    }

    /// Samples that were missed since this was called, mostly none.
    fn take_missed(&self) -> f64 {
        if self.missed.load(Ordering::Relaxed) == 0 {
            return 0.0;
        }
        self.missed.swap(0, Ordering::Relaxed) as f64
    }
}

impl Counts {
    /// Halves the counts as often as it is time for by `now`.
    fn pass_to(&mut self, now: Time) {
        let halvings = now.since(self.halved_at).as_nanos() / HOT_KEYS_HALVED_EVERY.as_nanos();
        for _ in 0..halvings.min(u128::from(HALVINGS_MAX)) {
            let at = self.halved_at + HOT_KEYS_HALVED_EVERY;
            self.cover(at);
            self.keys.halve();
            self.missed /= 2.0;
            self.covered_s /= 2.0;
            self.halved_at = at;
        }
        if halvings > u128::from(HALVINGS_MAX) {
            // What was covered is that of all time but for a split of a nanosecond.
            (self.counted_until, self.halved_at) = (now, now);
        }
        self.cover(now);
    }

    /// Threads read the clock before they take the lock, so one may come late: time stands still for it.
    fn cover(&mut self, until: Time) {
        self.covered_s += until.since(self.counted_until).as_secs_f64();
        self.counted_until = self.counted_until.max(until);
    }
}

impl Hottest {
    /// The answer to the hot-keys operation.
    pub(crate) fn reply(&self) -> HotKeysReply<'_> {
        let heat = |counter| self.heat(counter);
        HotKeysReply {
            covered_ms: self.covered_ms,
            requests: self.requests.round() as u64,
            sampled_one_in: self.scale.ceil() as u32,
            keys: self.counters.iter().map(heat).filter(|key| key.requests() > 0).collect(),
        }
    }

    fn heat<'c>(&self, counter: &'c Counter) -> KeyHeat<'c> {
        let requests = |samples: f64| (samples * self.scale).round() as u64;
        KeyHeat {
            table: counter.table,
            key_len: counter.len,
            kept: &counter.kept,
            checksum: counter.checksum,
            reads: requests(counter.reads),
            writes: requests(counter.writes),
            error: (counter.error * self.scale).ceil() as u64,
        }
    }
}

#[cfg(test)]
mod tests;
