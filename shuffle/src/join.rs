//! Two datasets brought together by their keys.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

use weft_object::{Pair, Wire};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::reduce::worker_of;
use crate::sort::{Sorter, by_key};
use crate::stages::Verb;
use crate::worker::Worker;

/// See [`Dataset::join`].
#[derive(Debug)]
pub struct Join<D, E> {
    pub(crate) left: D,
    pub(crate) right: E,
}

/// See [`Dataset::join_small`].
#[derive(Debug)]
pub struct JoinSmall<D, E> {
    pub(crate) large: D,
    pub(crate) small: E,
}

/// Both sides go to where their keys hash to, are sorted there within the worker's memory, and gone through side by side: so no side has to be small, and all that is in memory at once is what the right side
/// has of one key. It is the sort-merge join of databases.
impl<D, E, K, V, W> Dataset for Join<D, E>
where
    D: Dataset<Item = Pair<K, V>>,
    E: Dataset<Item = Pair<K, W>>,
    K: Wire + Ord + Hash,
    V: Wire,
    W: Wire,
{
    type Item = (K, V, W);

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut((K, V, W)) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let recorder = worker.recorder();
        let _verb = recorder.enter(Verb::Join);
        let spilling = worker.spilling();
        let left = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, V>));
        let right = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, W>));
        let (sorted, of_left) = recorder.aside(|| sort_here(worker, self.left, &left));
        sorted?;
        left.borrow_mut().keep_at_most(spilling.budget.share())?;
        sort_here(worker, self.right, &right)?;
        recorder.joined(of_left);
        let (mut left, mut right) = (left.into_inner().finish()?, right.into_inner().finish()?);
        let (mut next, mut group) = (right.next()?, Group { key: None, values: Vec::new() });
        while let Some(Pair { key, value }) = left.next()? {
            if group.key != Some(key) {
                group.key = Some(key);
                group.values.clear();
                while let Some(pair) = next.filter(|pair| pair.key <= key) {
                    if pair.key == key {
                        group.values.push(pair.value);
                    }
                    next = right.next()?;
                }
            }
            group.values.iter().try_for_each(|other| sink((key, value, *other)))?;
        }
        Ok(())
    }
}

/// What the right side has of the key that the left one is at.
struct Group<K, W> {
    key: Option<K>,
    values: Vec<W>,
}

/// An exchange: the sorter takes the pairs whose keys belong to this worker.
fn sort_here<K: Wire + Hash, V: Wire>(
    worker: &Worker,
    pairs: impl Dataset<Item = Pair<K, V>>,
    sorter: &RefCell<Sorter<Pair<K, V>, impl Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering + Copy>>,
) -> Result<(), JobError> {
    let take = |pair| sorter.borrow_mut().push(pair);
    let mut exchange = Exchange::open_pulled(worker, |_, pair| take(pair));
    pairs.run(worker, |pair| match worker_of(&pair.key, worker.workers()) {
        home if home == worker.id() => {
            exchange.keep();
            take(pair)
        }
        home => exchange.push(home, pair),
    })?;
    exchange.finish()
}

/// The small side goes to everybody, and the large one nowhere: it is gone through where it is.
impl<D, E, K, V, W> Dataset for JoinSmall<D, E>
where
    D: Dataset<Item = Pair<K, V>>,
    E: Dataset<Item = Pair<K, W>>,
    K: Wire + Eq + Hash,
    V: Copy,
    W: Wire,
{
    type Item = (K, V, W);

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut((K, V, W)) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let recorder = worker.recorder();
        let _verb = recorder.enter(Verb::JoinSmall);
        let mut small: HashMap<K, Vec<W>, foldhash::fast::RandomState> = HashMap::default();
        let (took, of_small) = recorder.aside(|| {
            self.small.broadcast().run(worker, |pair| {
                small.entry(pair.key).or_default().push(pair.value);
                Ok(())
            })
        });
        took?;
        self.large.run(worker, |Pair { key, value }| {
            let others = small.get(&key).into_iter().flatten();
            others.into_iter().try_for_each(|other| sink((key, value, *other)))
        })?;
        recorder.joined(of_small);
        Ok(())
    }
}
