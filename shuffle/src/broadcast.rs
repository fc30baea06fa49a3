//! An exchange that gives all records to everybody.

use weft_object::Wire;

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::partition::all_to_all;
use crate::stages::Verb;
use crate::worker::Worker;

/// See [`Dataset::broadcast`].
#[derive(Debug)]
pub struct Broadcast<D> {
    pub(crate) upstream: D,
}

impl<D: Dataset<Item: Wire>> Dataset for Broadcast<D> {
    type Item = D::Item;

    fn run(
        self,
        worker: &Worker,
        sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::Broadcast);
        let own = self.upstream.to_vec(worker)?;
        let copies = own.iter().flat_map(|record| worker.ids().map(move |to| (to, *record)));
        let received = all_to_all(worker, copies)?;
        received.by_worker.into_iter().flatten().try_for_each(sink)
    }
}
