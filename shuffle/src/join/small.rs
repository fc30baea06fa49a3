//! A join of which one side is small.

use std::hash::Hash;

use weft_object::{Pair, Record, Wire};

use super::small_side::SmallSide;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::stages::Verb;
use crate::worker::Worker;

/// See [`Dataset::join_small`].
#[derive(Debug)]
pub struct JoinSmall<D, E> {
    pub(crate) large: D,
    pub(crate) small: E,
}

/// The small side goes to everybody, and the large one nowhere: it is gone through where it is.
impl<D, E, K, V, W> Dataset for JoinSmall<D, E>
where
    D: Dataset<Item = Pair<K, V>>,
    E: Dataset<Item = Pair<K, W>>,
    K: Eq + Hash + Clone,
    V: Copy,
    W: Wire,
    Pair<K, W>: Record,
{
    type Item = (K, V, W);

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut((K, V, W)) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let recorder = worker.recorder();
        let _verb = recorder.enter(Verb::JoinSmall);
        let mut small = SmallSide::new(&worker.spilling().budget);
        let (took, of_small) =
            recorder.aside(|| self.small.broadcast().run(worker, |pair| small.add(pair)));
        took?;
        self.large.run(worker, |Pair { key, value }| {
            small.of_key(&key).iter().try_for_each(|other| sink((key.clone(), value, *other)))
        })?;
        recorder.joined(of_small);
        Ok(())
    }
}
