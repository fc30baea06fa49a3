//! All records in the order of their keys, over all workers.

mod by_hash;
mod cursor;
mod merge;
mod sample;
mod sorter;
mod splits;

use std::cell::RefCell;
use std::cmp::Ordering;

use weft_object::{Pair, Record, Wire};

pub(crate) use self::by_hash::{Place, sort_by_hash};
pub(crate) use self::cursor::Cursor;
use self::sample::Sample;
pub(crate) use self::sorter::Sorter;
use crate::dataset::{Dataset, KeyAlone};
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::spool::Spool;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// See [`Dataset::sort_by_key`].
#[derive(Debug)]
pub struct SortByKey<D> {
    pub(crate) upstream: D,
}

impl<D, K, V> Dataset for SortByKey<D>
where
    D: Dataset<Item = Pair<K, V>>,
    K: Ord + Clone,
    V: Wire,
    Pair<K, V>: Record,
    KeyAlone<K>: Record,
{
    type Item = Pair<K, V>;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(Pair<K, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::SortByKey);
        let spilling = worker.spilling().clone();
        let (mut waiting, mut sample) = (Spool::new(spilling.clone()), Sample::new(worker));
        self.upstream.run(worker, |pair| {
            sample.see(&pair.key);
            waiting.push(pair)
        })?;
        let mut splits = sample.agree(worker)?;
        let sorter = RefCell::new(Sorter::new(spilling, by_key::<K, V>));
        let take = |pair| sorter.borrow_mut().push(pair);
        let mut exchange = Exchange::open_pulled(worker, |_, pair| take(pair));
        let own = worker.id().0;
        waiting.drain(|pair| match splits.place(&pair.key) {
            to if to == own => {
                exchange.keep();
                take(pair)
            }
            to => exchange.push(WorkerId(to), pair),
        })?;
        exchange.finish()?;
        let mut sorted = sorter.into_inner().finish()?;
        while let Some(pair) = sorted.next()? {
            sink(pair)?;
        }
        Ok(())
    }
}

pub(crate) fn by_key<K: Ord, V>(one: &Pair<K, V>, other: &Pair<K, V>) -> Ordering {
    one.key.cmp(&other.key)
}
