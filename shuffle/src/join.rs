//! Two datasets brought together by their keys.

mod heavy;
mod product;
mod small;
mod small_side;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::Hash;

use weft_object::{Pair, Record, Wire};

use self::heavy::{HeavyHitters, HeavyKeys};
use self::product::Product;
pub use self::small::JoinSmall;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::reduce::hash_of;
use crate::sort::{Cursor, Place, Sorter, by_key, sort_by_hash};
use crate::stages::Verb;
use crate::worker::Worker;

/// See [`Dataset::join`].
#[derive(Debug)]
pub struct Join<D, E> {
    pub(crate) left: D,
    pub(crate) right: E,
}

/// Both sides go to where their keys hash to, are sorted there within the worker's memory, and gone through side by side: so no side has to be small. It is the sort-merge join of databases.
///
/// A key that many pairs of one side have would keep a single worker busy. Each worker finds such keys in what it sends (`shuffle/src/join/heavy.rs`), and from then on spreads their pairs over all workers, where those of the other side go
/// as well: whoever has a pair of the one has all of the other. What is heavy on the left is known to all before they send the right. What is heavy on the right alone is known when the left has been sent; those who have the few
/// pairs of it then send them to all. It is partial redistribution and partial duplication (Xu, Kostamaa, Zhou and Chen, SIGMOD '08), with what is heavy found on the way and not given by statistics.
impl<D, E, K, V, W> Dataset for Join<D, E>
where
    D: Dataset<Item = Pair<K, V>>,
    E: Dataset<Item = Pair<K, W>>,
    K: Ord + Hash + Clone,
    V: Wire,
    W: Wire,
    Pair<K, V>: Record,
    Pair<K, W>: Record,
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
        let mut product = Product::new(spilling.clone());
        let left = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, V>));
        let right = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, W>));
        let (heavy_left, of_left) = recorder.aside(|| {
            let mut heavy = HeavyHitters::new(worker);
            let place = |hash| if heavy.see(hash) { Place::Turn } else { Place::Home };
            sort_by_hash(worker, self.left, &left, place)?;
            heavy.agree(worker)
        });
        let (heavy_left, mut left) = (heavy_left?, left.into_inner());
        left.keep_at_most(spilling.budget.share())?;
        let mut heavy = HeavyHitters::new(worker);
        let place = |hash| match () {
            () if heavy_left.contains(hash) => Place::All,
            () if heavy.see(hash) => Place::Turn,
            () => Place::Home,
        };
        sort_by_hash(worker, self.right, &right, place)?;
        let heavy_right = heavy.agree(worker)?;
        let copies = copy_to_all(worker, &mut left, &heavy_right)?;
        recorder.joined(of_left);
        let mut left = Cursor::new(left.finish_with(copies)?)?;
        let mut right = Cursor::new(right.into_inner().finish()?)?;
        while let (Some(key), Some(other)) = (left.key(), right.key()) {
            match key.cmp(other) {
                Ordering::Less => left.pass()?,
                Ordering::Greater => right.pass()?,
                Ordering::Equal => {
                    let key = key.clone();
                    product.of_key(&key, &mut left, &mut right, &mut sink)?;
                }
            }
        }
        Ok(())
    }
}

/// An exchange, if there are such keys: every worker gets the pairs that the others have of them.
fn copy_to_all<K: Hash, V, F>(
    worker: &Worker,
    pairs: &mut Sorter<Pair<K, V>, F>,
    keys: &HeavyKeys,
) -> Result<Sorter<Pair<K, V>, F>, JobError>
where
    Pair<K, V>: Record,
    F: Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering + Copy,
{
    let copies = RefCell::new(pairs.another());
    if keys.is_empty() {
        return Ok(copies.into_inner());
    }
    let mut exchange = Exchange::open_pulled(worker, |_, pair| copies.borrow_mut().push(pair));
    pairs.for_each(|pair| match keys.contains(hash_of(&pair.key)) {
        true => exchange.push_to_others(pair),
        false => Ok(()),
    })?;
    exchange.finish()?;
    Ok(copies.into_inner())
}
