//! Values of keys that are numbers: in arrays where memory has room for them, and else a range of the numbers at a time.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_object::{Pair, Wire};

use super::leaving::Leaving;
use super::table::Table;
use super::windows::Windows;
use super::{ByIndex, Ranges, ReduceByKey};
use crate::budget::{Budget, Taken};
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::index_table::IndexTable;
use crate::stages::Verb;
use crate::worker::Worker;

/// What arrays have in any case.
const LEAST_BYTES: u64 = 1 << 20;

/// What is wrong with a worker that sends what another's array is for.
const FOREIGN: &str = "a key that belongs to another worker";

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
        sink: impl FnMut(Pair<u64, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::ReduceByIndex);
        let ByIndex(ranges) = &self.keys;
        let own = ranges.of(worker.id());
        // One for all numbers, of what this worker has, and one for its own, of what comes.
        let bytes = IndexTable::<V>::bytes(ranges.total())
            .saturating_add(IndexTable::<V>::bytes(own.end - own.start));
        match memory_for_arrays(&worker.spilling().budget, bytes) {
            Some(_taken) => in_arrays(worker, self.upstream, ranges, self.combine, sink),
            None => in_windows(worker, self.upstream, ranges, self.combine, sink),
        }
    }
}

/// Memory for so many bytes of arrays, if that leaves some for whatever else needs it at the same time.
fn memory_for_arrays(budget: &Budget, bytes: u64) -> Option<Taken> {
    let limit_bytes = budget.share() + budget.share() / 2;
    match bytes {
        ..=LEAST_BYTES => Some(budget.take_anyway(bytes)),
        _ if bytes <= limit_bytes => budget.take(bytes),
        _ => None,
    }
}

/// All that a worker has is combined before it is sent, and what comes is added at once, on whatever thread receives it.
fn in_arrays<V, F>(
    worker: &Worker,
    pairs: impl Dataset<Item = Pair<u64, V>>,
    ranges: &Ranges,
    combine: F,
    mut sink: impl FnMut(Pair<u64, V>) -> Result<(), JobError>,
) -> Result<(), JobError>
where
    V: Wire + Default,
    F: Fn(V, V) -> V + Copy + Send + 'static,
{
    let table = IndexTable::new(ranges.of(worker.id()));
    let received = Arc::new(Mutex::new(table));
    let open = || {
        let taking = Arc::clone(&received);
        Exchange::open(worker, move |_, mut pages| {
            let mut table = taking.lock();
            let mut add = |Pair { key, value }: &Pair<u64, V>| table.add(*key, *value, combine);
            let is_ours = pages.all(|page| page.iter().all(&mut add));
            if is_ours { Ok(()) } else { Err(FOREIGN) }
        })
        .of(Verb::ReduceByIndex)
    };
    // With the first record, so that what others are sending is taken meanwhile, and no sooner: exchanges upstream come first.
    let mut opened = None;
    let mut table = IndexTable::new(0..ranges.total());
    pairs.run(worker, |Pair { key, value }| {
        opened.get_or_insert_with(open);
        if table.add(key, value, combine) { Ok(()) } else { Err(unknown(key, ranges)) }
    })?;
    let mut exchange = opened.unwrap_or_else(open);
    for to in worker.ids().filter(|to| *to != worker.id()) {
        table.entries(ranges.of(to)).try_for_each(|pair| exchange.push(to, pair))?;
    }
    exchange.keep_all(table.count(ranges.of(worker.id())));
    exchange.finish()?;
    let mut received = received.lock();
    for Pair { key, value } in table.entries(ranges.of(worker.id())) {
        received.add(key, value, combine);
    }
    received.entries(ranges.of(worker.id())).try_for_each(&mut sink)
}

/// What a worker has is combined as far as a hash table has room, as by [`reduce_by_key`](Dataset::reduce_by_key), and what comes a window of the numbers at a time.
fn in_windows<V, F>(
    worker: &Worker,
    pairs: impl Dataset<Item = Pair<u64, V>>,
    ranges: &Ranges,
    combine: F,
    mut sink: impl FnMut(Pair<u64, V>) -> Result<(), JobError>,
) -> Result<(), JobError>
where
    V: Wire + Default,
    F: Fn(V, V) -> V + Copy,
{
    let spilling = worker.spilling();
    // As much for the window, and twice as much for what waits.
    let limit_bytes = spilling.budget.share() / 2;
    let mut leaving = Leaving::new(Table::new(&spilling.budget, limit_bytes), combine);
    let windows = Windows::new(
        spilling.clone(),
        limit_bytes.max(LEAST_BYTES),
        ranges.of(worker.id()),
        combine,
    );
    let own = RefCell::new(windows);
    let mut exchange = Exchange::open_pulled(worker, |from, pair: Pair<u64, V>| {
        let is_ours = own.borrow_mut().add(pair)?;
        let stage = worker.last_stage();
        let foreign = || JobError::Protocol { worker: from, stage, what: FOREIGN };
        if is_ours { Ok(()) } else { Err(foreign()) }
    });
    let mut leave = |pair: Pair<u64, V>| match ranges.home_of(pair.key) {
        home if home == worker.id() => {
            exchange.keep();
            own.borrow_mut().add(pair).map(drop)
        }
        home => exchange.push(home, pair),
    };
    pairs.run(worker, |pair| {
        if pair.key >= ranges.total() {
            return Err(unknown(pair.key, ranges));
        }
        leaving.add(pair, &mut leave)
    })?;
    leaving.finish(&mut leave)?;
    exchange.finish()?;
    own.into_inner().finish(&mut sink)
}

#[cold]
fn unknown(key: u64, ranges: &Ranges) -> JobError {
    JobError::Job(format!("key {key} is outside the {} known ones", ranges.total()))
}
