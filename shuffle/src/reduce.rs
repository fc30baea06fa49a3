//! Exchanges that combine the values of a key.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash};
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use weft_object::{Pair, Wire};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::index_table::IndexTable;
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

    /// How many numbers there are.
    pub fn total(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }
}

/// The worker that has `key`, of `workers`. The same on all of them: the hash has a fixed seed.
pub fn worker_of<K: Hash>(key: &K, workers: usize) -> WorkerId {
    let hash = FixedState::default().hash_one(key);
    WorkerId(((u128::from(hash) * workers as u128) >> 64) as usize)
}

/// Opens an exchange whose records are added to `table` as they come.
fn open<T: Send + 'static, R: Wire>(
    worker: &Worker,
    table: T,
    mut add: impl FnMut(&mut T, R) -> Result<(), &'static str> + Send + 'static,
) -> (Exchange<'_, R>, Arc<Mutex<T>>) {
    let table = Arc::new(Mutex::new(table));
    let received = Arc::clone(&table);
    let exchange = Exchange::open(worker, move |_, pages| {
        let mut received = received.lock();
        pages.flatten().try_for_each(|record| add(&mut received, *record))
    });
    (exchange, table)
}

impl<D, K, V, F> Dataset for ReduceByKey<D, ByHash, F>
where
    D: Dataset<Item = Pair<K, V>>,
    K: Wire + Eq + Hash,
    V: Wire,
    F: Fn(V, V) -> V + Copy + Send + 'static,
{
    type Item = Pair<K, V>;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(Pair<K, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let combine = self.combine;
        let (mut exchange, received) = open(worker, HashTable::default(), move |table, pair| {
            add(table, pair, combine);
            Ok(())
        });
        let mut sent = HashTable::default();
        self.upstream.run(worker, |pair| {
            add(&mut sent, pair, combine);
            Ok(())
        })?;
        let mut own = HashTable::default();
        for (key, value) in sent {
            match worker_of(&key, worker.workers()) {
                to if to == worker.id() => add(&mut own, Pair { key, value }, combine),
                to => exchange.push(to, Pair { key, value })?,
            }
        }
        exchange.finish()?;
        for (key, value) in std::mem::take(&mut *received.lock()) {
            add(&mut own, Pair { key, value }, combine);
        }
        own.into_iter().try_for_each(|(key, value)| sink(Pair { key, value }))
    }
}

type HashTable<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

fn add<K: Eq + Hash, V: Copy>(
    table: &mut HashTable<K, V>,
    pair: Pair<K, V>,
    combine: impl Fn(V, V) -> V,
) {
    let combined = |known: &mut V| *known = combine(*known, pair.value);
    table.entry(pair.key).and_modify(combined).or_insert(pair.value);
}

impl<D, V, F> Dataset for ReduceByKey<D, ByIndex, F>
where
    D: Dataset<Item = Pair<u64, V>>,
    V: Wire + Default,
    F: Fn(V, V) -> V + Copy + Send + 'static,
{
    type Item = Pair<u64, V>;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(Pair<u64, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let (combine, ranges) = (self.combine, &self.keys.0);
        let table = IndexTable::new(ranges.of(worker.id()));
        let (mut exchange, received) = open(worker, table, move |table, Pair { key, value }| {
            let is_ours = table.add(key, value, combine);
            if is_ours { Ok(()) } else { Err("a key that belongs to another worker") }
        });
        let mut table = IndexTable::new(0..ranges.total());
        self.upstream.run(worker, |Pair { key, value }| {
            if table.add(key, value, combine) {
                return Ok(());
            }
            Err(JobError::Job(format!("key {key} is outside the {} known ones", ranges.total())))
        })?;
        for to in worker.ids().filter(|to| *to != worker.id()) {
            table.entries(ranges.of(to)).try_for_each(|pair| exchange.push(to, pair))?;
        }
        exchange.finish()?;
        let mut received = received.lock();
        for Pair { key, value } in table.entries(ranges.of(worker.id())) {
            received.add(key, value, combine);
        }
        received.entries(ranges.of(worker.id())).try_for_each(&mut sink)
    }
}
