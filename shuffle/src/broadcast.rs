//! An exchange that gives all records to everybody.

use std::cell::RefCell;

use weft_object::Record;

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::spool::Spool;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// See [`Dataset::broadcast`].
#[derive(Debug)]
pub struct Broadcast<D> {
    pub(crate) upstream: D,
}

impl<D: Dataset<Item: Record>> Dataset for Broadcast<D> {
    type Item = D::Item;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::Broadcast);
        let by_worker = RefCell::new(Spool::several(worker.spilling(), worker.workers()));
        let take = |from: WorkerId, record| by_worker.borrow_mut()[from.0].push(record);
        let mut exchange = Exchange::open_pulled(worker, take);
        self.upstream.run(worker, |record| {
            exchange.push_to_others(&record)?;
            exchange.keep();
            take(worker.id(), record)
        })?;
        exchange.finish()?;
        let mut by_worker = by_worker.into_inner().into_iter();
        by_worker.try_for_each(|records| records.drain(&mut sink))
    }
}
