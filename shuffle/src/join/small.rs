//! A join of which one side is small.

use std::collections::HashMap;
use std::hash::Hash;

use weft_object::{Pair, Wire};

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
