//! Records that are kept, to be gone through several times.

use weft_object::Record;

use crate::dataset::Dataset;
use crate::error::JobError;
use crate::spool::Spool;
use crate::worker::Worker;

/// What a plan has come to on this worker; a reference to it is a dataset. See [`Dataset::cache`].
#[derive(Debug)]
pub struct Cached<R> {
    records: Spool<R>,
}

impl<R: Record> Cached<R> {
    pub(crate) fn of<D: Dataset<Item = R>>(
        worker: &Worker,
        plan: D,
    ) -> Result<Cached<R>, JobError> {
        let mut records = Spool::new(worker.spilling().clone());
        plan.run(worker, |record| records.push(record))?;
        Ok(Cached { records })
    }
}

impl<R: Record + Clone> Dataset for &Cached<R> {
    type Item = R;

    fn run(
        self,
        _: &Worker,
        mut sink: impl FnMut(R) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.records.for_each(|record| sink(record.clone()))
    }
}
