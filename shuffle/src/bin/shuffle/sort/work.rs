//! What a worker does.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use weft_shuffle::job::terasort::{self, RECORD_BYTES};
use weft_shuffle::{Dataset as _, RecordFile, Worker, WorkerId};

use super::{READING, Sort, Sorted, WRITING};
use crate::event::{Event, Outcome, tell};
use crate::usage::Usage;
use crate::work::while_telling;

/// A worker's part of the job.
pub(super) fn run(job: &Sort, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let file = RecordFile::<RECORD_BYTES>::open(&job.input)?;
    let share = file.share(worker.id().0, worker.workers());
    let mut out = job.output().create(worker.id())?;
    let written = while_telling(report, WRITING, |written| {
        let sorted = while_telling(report, READING, |read| {
            let sorted = terasort::sort(file.records(share, read));
            sorted.run(worker, |record| {
                out.write(|out| {
                    out.write_all(&record.key)?;
                    out.write_all(&record.value)
                })?;
                written.fetch_add(RECORD_BYTES as u64, Ordering::Relaxed);
                Ok(())
            })
        });
        sorted.map(|()| written.load(Ordering::Relaxed))
    })?;
    out.finish()?;
    worker.has_written(&job.output);
    let records_by_worker = worker.gather(written / RECORD_BYTES as u64)?;
    let usage = Usage::gather(worker, began)?;
    let records = records_by_worker.iter().sum();
    anyhow::ensure!(records == file.len(), "{records} of {} records came out", file.len());
    if worker.id() == WorkerId(0) {
        tell(&Event::Done(Outcome::Sort(Sorted { records, records_by_worker, usage })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}
