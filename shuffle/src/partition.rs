//! Exchanges that move records as they are.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_object::{Record, Wire};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::spool::Spool;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// See [`Dataset::partition_by`].
#[derive(Debug)]
pub struct PartitionBy<D, F> {
    pub(crate) upstream: D,
    pub(crate) place: F,
}

impl<D, F> Dataset for PartitionBy<D, F>
where
    D: Dataset<Item: Record>,
    F: FnMut(&D::Item) -> WorkerId,
{
    type Item = D::Item;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let _verb = worker.recorder().enter(Verb::PartitionBy);
        let by_worker = RefCell::new(Spool::several(worker.spilling(), worker.workers()));
        route(worker, self.upstream, self.place, |from, record| {
            by_worker.borrow_mut()[from.0].push(record)
        })?;
        let mut by_worker = by_worker.into_inner().into_iter();
        by_worker.try_for_each(|records| records.drain(&mut sink))
    }
}

/// An exchange: `take` gets the records whose place this worker is, with whom they come from, as they come.
pub(crate) fn route<D: Dataset<Item: Record>>(
    worker: &Worker,
    records: D,
    mut place: impl FnMut(&D::Item) -> WorkerId,
    take: impl Fn(WorkerId, D::Item) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let mut exchange = Exchange::open_pulled(worker, &take);
    records.run(worker, |record| match place(&record) {
        to if to == worker.id() => {
            exchange.keep();
            take(to, record)
        }
        to => exchange.push(to, record),
    })?;
    exchange.finish()
}

/// What each worker has sent to this one, in order.
pub(crate) struct Received<T> {
    stage: u32,
    pub(crate) by_worker: Vec<Vec<T>>,
}

impl<T> Received<T> {
    /// The error of a worker that has sent what it may not.
    pub(crate) fn refuse(&self, worker: WorkerId, what: &'static str) -> JobError {
        JobError::Protocol { worker, stage: self.stage, what }
    }
}

/// An exchange: each record goes to the worker beside it, which may be this one.
pub(crate) fn all_to_all<T: Wire>(
    worker: &Worker,
    mut records: impl Iterator<Item = (WorkerId, T)>,
) -> Result<Received<T>, JobError> {
    let received = Arc::new(Mutex::new(worker.ids().map(|_| Vec::new()).collect::<Vec<_>>()));
    let taking = Arc::clone(&received);
    let mut exchange = Exchange::open(worker, move |from, pages| {
        let mut received = taking.lock();
        pages.for_each(|page| received[from.0].extend_from_slice(page));
        Ok(())
    });
    let mut kept = Vec::new();
    records.try_for_each(|(to, record)| {
        if to != worker.id() {
            return exchange.push(to, record);
        }
        kept.push(record);
        Ok(())
    })?;
    let stage = exchange.stage();
    exchange.keep_all(kept.len());
    exchange.finish()?;
    let mut by_worker = std::mem::take(&mut *received.lock());
    by_worker[worker.id().0] = kept;
    Ok(Received { stage, by_worker })
}

/// An exchange: all workers get what each gives.
pub(crate) fn give_to_all<R: Record>(
    worker: &Worker,
    own: Vec<R>,
) -> Result<Received<R>, JobError> {
    let by_worker = RefCell::new(worker.ids().map(|_| Vec::new()).collect::<Vec<_>>());
    let mut exchange = Exchange::open_pulled(worker, |from: WorkerId, record| {
        by_worker.borrow_mut()[from.0].push(record);
        Ok(())
    });
    own.iter().try_for_each(|record| exchange.push_to_others(record))?;
    let stage = exchange.stage();
    exchange.keep_all(own.len());
    exchange.finish()?;
    let mut by_worker = by_worker.into_inner();
    by_worker[worker.id().0] = own;
    Ok(Received { stage, by_worker })
}

/// See [`Worker::gather`].
pub(crate) fn gather<T: Wire>(worker: &Worker, record: T) -> Result<Vec<T>, JobError> {
    let received = all_to_all(worker, worker.ids().map(|to| (to, record)))?;
    let one_each = received.by_worker.iter().enumerate().map(|(from, records)| {
        let [record] = records[..] else {
            return Err(received.refuse(WorkerId(from), "not one record of a gathering"));
        };
        Ok(record)
    });
    one_each.collect()
}

impl Worker {
    /// An exchange of one record: what every worker gave, in the order of the workers, on all of
    /// them.
    ///
    /// # Errors
    /// A worker is lost or stops the job.
    pub fn gather<T: Wire>(&self, record: T) -> Result<Vec<T>, JobError> {
        let _verb = self.recorder().enter(Verb::Gather);
        gather(self, record)
    }

    /// The sum of what every worker gave, added up in the same order on all of them.
    ///
    /// # Errors
    /// See [`gather`](Self::gather).
    pub fn sum(&self, part: f64) -> Result<f64, JobError> {
        Ok(self.gather(part)?.iter().sum())
    }
}
