//! Pairs go to where their keys hash to, and are sorted there.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::Hash;

use weft_object::{Pair, Record};

use super::Sorter;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::reduce::{hash_of, home_of};
use crate::worker::{Worker, WorkerId};

/// Where a pair goes.
pub(crate) enum Place {
    /// To the worker that its key hashes to.
    Home,
    /// To one worker after the other.
    Turn,
    /// To every worker.
    All,
}

/// An exchange: the sorter takes the pairs that this worker is to have. `place` is asked for each hash.
pub(crate) fn sort_by_hash<K: Hash, V>(
    worker: &Worker,
    pairs: impl Dataset<Item = Pair<K, V>>,
    sorter: &RefCell<Sorter<Pair<K, V>, impl Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering + Copy>>,
    mut place: impl FnMut(u64) -> Place,
) -> Result<(), JobError>
where
    Pair<K, V>: Record,
{
    let take = |pair| sorter.borrow_mut().push(pair);
    let mut exchange = Exchange::open_pulled(worker, |_, pair| take(pair));
    let (own, workers) = (worker.id(), worker.workers());
    // Not all begin with the same.
    let mut turn = own.0;
    pairs.run(worker, |pair| {
        let hash = hash_of(&pair.key);
        let to = match place(hash) {
            Place::Home => home_of(hash, workers),
            Place::Turn => {
                turn = (turn + 1) % workers;
                WorkerId(turn)
            }
            Place::All => {
                exchange.push_to_others(&pair)?;
                own
            }
        };
        if to != own {
            return exchange.push(to, pair);
        }
        exchange.keep();
        take(pair)
    })?;
    exchange.finish()
}
