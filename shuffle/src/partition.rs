//! Exchanges that move records as they are.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_object::{Record, Wire};

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::Exchange;
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
        sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let by_worker = RefCell::new(worker.ids().map(|_| Vec::new()).collect::<Vec<_>>());
        route(worker, self.upstream, self.place, |from, record| {
            by_worker.borrow_mut()[from.0].push(record);
            Ok(())
        })?;
        by_worker.into_inner().into_iter().flatten().try_for_each(sink)
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
        to if to == worker.id() => take(to, record),
        to => exchange.push(to, record),
    })?;
    exchange.finish()
}

/// An exchange: what each worker has sent to this one, in order, by worker.
pub(crate) fn all_to_all<T: Wire>(
    worker: &Worker,
    mut records: impl Iterator<Item = (WorkerId, T)>,
) -> Result<Vec<Vec<T>>, JobError> {
    let (own, received) = by_worker(worker);
    let mut exchange = open(worker, &received);
    let mut kept = Vec::new();
    records.try_for_each(|(to, record)| {
        if to != own {
            return exchange.push(to, record);
        }
        kept.push(record);
        Ok(())
    })?;
    exchange.finish()?;
    let mut received = std::mem::take(&mut *received.lock());
    received[own.0] = kept;
    Ok(received)
}

impl Worker {
    /// An exchange of one record: what every worker gave, in the order of the workers, on all of
    /// them.
    ///
    /// # Errors
    /// A worker is lost or stops the job.
    pub fn gather<T: Wire>(&self, record: T) -> Result<Vec<T>, JobError> {
        let (own, received) = by_worker(self);
        let mut exchange = open(self, &received);
        for to in self.ids().filter(|to| *to != own) {
            exchange.push(to, record)?;
        }
        let stage = exchange.stage();
        exchange.finish()?;
        let mut received = std::mem::take(&mut *received.lock());
        received[own.0] = vec![record];
        let one_each = received.iter().enumerate().map(|(from, records)| match records[..] {
            [record] => Ok(record),
            _ => {
                let (worker, what) = (WorkerId(from), "not one record of a gathering");
                Err(JobError::Protocol { worker, stage, what })
            }
        });
        one_each.collect()
    }

    /// The sum of what every worker gave, added up in the same order on all of them.
    ///
    /// # Errors
    /// See [`gather`](Self::gather).
    pub fn sum(&self, part: f64) -> Result<f64, JobError> {
        Ok(self.gather(part)?.iter().sum())
    }
}

/// What has come, by the worker that it is from.
pub(crate) type Received<T> = Arc<Mutex<Vec<Vec<T>>>>;

/// This worker, and nothing from any yet.
pub(crate) fn by_worker<T>(worker: &Worker) -> (WorkerId, Received<T>) {
    (worker.id(), Arc::new(Mutex::new(worker.ids().map(|_| Vec::new()).collect())))
}

/// An exchange of records that stay as they are, in order a sending worker.
pub(crate) fn open<'w, T: Wire>(worker: &'w Worker, received: &Received<T>) -> Exchange<'w, T> {
    let received = Arc::clone(received);
    Exchange::open(worker, move |from, pages| {
        let mut received = received.lock();
        pages.for_each(|page| received[from.0].extend_from_slice(page));
        Ok(())
    })
}
