//! All values of a key together, of one dataset or of two.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::Hash;

use weft_object::{Pair, Record, Wire};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::sort::{Cursor, Place, Sorter, by_key, sort_by_hash};
use crate::stages::Verb;
use crate::worker::Worker;

/// See [`Dataset::group_by_key`].
#[derive(Debug)]
pub struct GroupByKey<D, F> {
    pub(crate) upstream: D,
    pub(crate) group: F,
}

/// See [`Dataset::cogroup`].
#[derive(Debug)]
pub struct Cogroup<D, E, F> {
    pub(crate) left: D,
    pub(crate) right: E,
    pub(crate) group: F,
}

/// The values of a key, in no order. They are read as they are asked for, so that no key's have to fit in memory. If that fails there are no more, and the plan fails.
pub struct Values<'a, V> {
    next: &'a mut dyn FnMut() -> Result<Option<V>, JobError>,
    failed: Option<JobError>,
}

impl<V> std::fmt::Debug for Values<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<V> Iterator for Values<'_, V> {
    type Item = V;

    #[inline]
    fn next(&mut self) -> Option<V> {
        if self.failed.is_some() {
            return None;
        }
        (self.next)().unwrap_or_else(|error| {
            self.failed = Some(error);
            None
        })
    }
}

impl<V> Values<'_, V> {
    /// Goes past those that nobody asked for.
    fn finish(mut self) -> Result<(), JobError> {
        self.by_ref().for_each(drop);
        self.failed.map_or(Ok(()), Err)
    }
}

/// Pairs go to where their keys hash to, are sorted there within the worker's memory, and gone through.
impl<D, K, V, F, T> Dataset for GroupByKey<D, F>
where
    D: Dataset<Item = Pair<K, V>>,
    K: Ord + Hash + Clone,
    V: Wire,
    Pair<K, V>: Record,
    F: FnMut(K, &mut Values<'_, V>) -> T,
{
    type Item = T;

    fn run(
        mut self,
        worker: &Worker,
        mut sink: impl FnMut(T) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::GroupByKey);
        let pairs = RefCell::new(Sorter::new(worker.spilling().clone(), by_key::<K, V>));
        sort_by_hash(worker, self.upstream, &pairs, |_| Place::Home)?;
        let mut pairs = Cursor::new(pairs.into_inner().finish()?)?;
        while let Some(key) = pairs.key().cloned() {
            let grouped = of_key(&key, &mut pairs, |values| (self.group)(key.clone(), values))?;
            sink(grouped)?;
        }
        Ok(())
    }
}

/// The same with both sides, gone through side by side.
impl<D, E, K, V, W, F, T> Dataset for Cogroup<D, E, F>
where
    D: Dataset<Item = Pair<K, V>>,
    E: Dataset<Item = Pair<K, W>>,
    K: Ord + Hash + Clone,
    V: Wire,
    W: Wire,
    Pair<K, V>: Record,
    Pair<K, W>: Record,
    F: FnMut(K, &mut Values<'_, V>, &mut Values<'_, W>) -> T,
{
    type Item = T;

    fn run(
        mut self,
        worker: &Worker,
        mut sink: impl FnMut(T) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let recorder = worker.recorder();
        let _verb = recorder.enter(Verb::Cogroup);
        let spilling = worker.spilling();
        let left = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, V>));
        let right = RefCell::new(Sorter::new(spilling.clone(), by_key::<K, W>));
        let (sorted, of_left) =
            recorder.aside(|| sort_by_hash(worker, self.left, &left, |_| Place::Home));
        sorted?;
        left.borrow_mut().keep_at_most(spilling.budget.share())?;
        sort_by_hash(worker, self.right, &right, |_| Place::Home)?;
        recorder.joined(of_left);
        let mut left = Cursor::new(left.into_inner().finish()?)?;
        let mut right = Cursor::new(right.into_inner().finish()?)?;
        while let Some(key) = left.key().into_iter().chain(right.key()).min().cloned() {
            let grouped = of_key(&key, &mut left, |values| {
                of_key(&key, &mut right, |others| (self.group)(key.clone(), values, others))
            })?;
            sink(grouped?)?;
        }
        Ok(())
    }
}

/// What `group` makes of the values of `key`, which the cursor is past then.
fn of_key<K: Ord, V: Wire, C, T>(
    key: &K,
    pairs: &mut Cursor<K, V, C>,
    group: impl FnOnce(&mut Values<'_, V>) -> T,
) -> Result<T, JobError>
where
    Pair<K, V>: Record,
    C: Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering,
{
    let mut next = || pairs.take_of(key);
    let mut values = Values { next: &mut next, failed: None };
    let grouped = group(&mut values);
    values.finish()?;
    Ok(grouped)
}
