//! What a worker does.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use weft_shuffle::job::terasort::{self, RECORD_BYTES};
use weft_shuffle::{Dataset as _, JobError, RecordFile, Worker, WorkerId};

use super::{READING, Sort, Sorted, WRITING};
use crate::event::{Event, Outcome, tell};
use crate::work::while_telling;

/// Bytes of records that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A worker's part of the job.
pub(super) fn run(job: &Sort, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let file = RecordFile::<RECORD_BYTES>::open(&job.input)?;
    let share = file.share(worker.id().0, worker.workers());
    let path = job.output().file_of(worker.id());
    let cannot_write = || format!("cannot write {}", path.display());
    let mut out =
        BufWriter::with_capacity(WRITE_BYTES, File::create_new(&path).with_context(cannot_write)?);
    let written = while_telling(report, WRITING, |written| {
        let sorted = while_telling(report, READING, |read| {
            let sorted = terasort::sort(file.records(share, read));
            sorted.run(worker, |record| {
                let wrote = out.write_all(&record.key).and_then(|()| out.write_all(&record.value));
                wrote.map_err(|error| JobError::Job(format!("{}: {error}", cannot_write())))?;
                written.fetch_add(RECORD_BYTES as u64, Ordering::Relaxed);
                Ok(())
            })
        });
        sorted.map(|()| written.load(Ordering::Relaxed))
    })?;
    out.flush().with_context(cannot_write)?;
    let records_by_worker = worker.gather(written / RECORD_BYTES as u64)?;
    let sent = worker.gather(worker.bytes_sent())?;
    let spilled = worker.gather(worker.bytes_spilled())?;
    let peaks = worker.gather(worker.peak_memory_bytes().unwrap_or(0))?;
    let records = records_by_worker.iter().sum();
    anyhow::ensure!(records == file.len(), "{records} of {} records came out", file.len());
    if worker.id() == WorkerId(0) {
        tell(&Event::Done(Outcome::Sort(Sorted {
            records,
            records_by_worker,
            seconds: worker.clock().now().since(began).as_secs_f64(),
            bytes_shuffled: sent.iter().sum(),
            bytes_spilled: spilled.iter().sum(),
            peak_memory_bytes: peaks.into_iter().max().unwrap_or(0),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}
