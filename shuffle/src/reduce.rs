//! Exchanges that combine the values of a key.

mod by_index;
mod leaving;
mod reduction;
mod table;
mod windows;

use std::cell::RefCell;
use std::hash::{BuildHasher as _, Hash};
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use weft_object::{Pair, Record, Wire};

use self::leaving::Leaving;
use self::reduction::Reduction;
use self::table::Table;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// See [`Dataset::reduce_by_key`] and [`Dataset::reduce_by_index`].
#[derive(Debug)]
pub struct ReduceByKey<D, Keys, F> {
    pub(crate) upstream: D,
    pub(crate) keys: Keys,
    pub(crate) combine: F,
}

/// Keys of any kind, spread over the workers by their hash.
#[derive(Debug)]
pub struct ByHash;

/// Keys that are numbers, spread over the workers in ranges.
#[derive(Debug)]
pub struct ByIndex(pub(crate) Ranges);

/// Which worker has which of the numbers from 0 on: one range after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// Where each worker's range begins, and behind them where the last one ends.
    starts: Arc<[u64]>,
}

impl Ranges {
    /// The ranges of workers that have `counts` numbers each.
    pub fn of_counts(counts: &[u64]) -> Self {
        let mut end = 0;
        let ends = counts.iter().map(|count| {
            end = u64::saturating_add(end, *count);
            end
        });
        Self { starts: std::iter::once(0).chain(ends).collect() }
    }

    /// The range of `worker`.
    pub fn of(&self, worker: WorkerId) -> Range<u64> {
        self.starts[worker.0]..self.starts[worker.0 + 1]
    }

    /// The worker that has a number, if that is below [`total`](Self::total).
    pub(crate) fn home_of(&self, number: u64) -> WorkerId {
        // Whose range is empty begins where the next one does.
        WorkerId(self.starts.partition_point(|start| *start <= number).saturating_sub(1))
    }

    /// How many numbers there are.
    pub fn total(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }
}

/// The worker that has `key`, of `workers`. The same on all of them: the hash has a fixed seed.
pub fn worker_of<K: Hash>(key: &K, workers: usize) -> WorkerId {
    home_of(hash_of(key), workers)
}

/// The hash by which keys are told apart on all workers alike.
pub(crate) fn hash_of<K: Hash>(key: &K) -> u64 {
    FixedState::default().hash_one(key)
}

/// The worker that has the keys with a hash, of `workers`.
pub(crate) fn home_of(hash: u64, workers: usize) -> WorkerId {
    WorkerId(((u128::from(hash) * workers as u128) >> 64) as usize)
}

/// All pairs of a worker are combined as long as memory has room for their keys, and go then to where these belong. So what is done for each record depends neither on
/// that place, which no processor can foresee, nor on a hash to tell it by.
impl<D, K, V, F> Dataset for ReduceByKey<D, ByHash, F>
where
    D: Dataset<Item = Pair<K, V>>,
    K: Eq + Hash,
    V: Wire,
    Pair<K, V>: Record,
    F: Fn(V, V) -> V + Copy,
{
    type Item = Pair<K, V>;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(Pair<K, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::ReduceByKey);
        let (combine, spilling) = (self.combine, worker.spilling().clone());
        let budget = &spilling.budget;
        // Two thirds of what is for this at all stay: what leaves has its key combined again where it goes.
        let (limit_own, limit_leaving) = (budget.share(), budget.share() / 2);
        let own = RefCell::new(Reduction::new(spilling.clone(), limit_own, combine));
        let take = |pair| own.borrow_mut().add(pair);
        let mut exchange = Exchange::open_pulled(worker, |_, pair| take(pair));
        let mut leave = |pair: Pair<K, V>| match worker_of(&pair.key, worker.workers()) {
            home if home == worker.id() => {
                exchange.keep();
                take(pair)
            }
            home => exchange.push(home, pair),
        };
        let mut leaving = Leaving::new(Table::new(budget, limit_leaving), combine);
        self.upstream.run(worker, |pair| leaving.add(pair, &mut leave))?;
        leaving.finish(&mut leave)?;
        exchange.finish()?;
        own.into_inner().finish(&mut sink)
    }
}
