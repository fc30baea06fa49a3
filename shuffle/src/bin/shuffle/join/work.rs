//! What a worker does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use serde::Serialize;
use weft_shuffle::{Dataset, EdgeList, JobError, Share, Worker, WorkerId};

use super::{Join, Joined, READING_LEFT, READING_RIGHT, WRITING};
use crate::event::{Event, Outcome, tell};
use crate::usage::Usage;
use crate::work::while_telling;

/// Two pairs with the same key, as a line of JSON.
#[derive(Serialize)]
struct PairLine {
    key: u64,
    left: u64,
    right: u64,
}

/// A worker's part of the job.
pub(super) fn run(job: &Join, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let open = |path| EdgeList::open(path).map(|side| side.skip_malformed(job.skip_bad));
    let (left, right) = (open(&job.left)?, open(&job.right)?);
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let mut out = job.output().create(worker.id())?;
    let (of_left, of_right, joined) = (Cell::new(0_u64), Cell::new(0_u64), Cell::new(0_u64));
    while_telling(report, WRITING, |written| {
        while_telling(report, READING_RIGHT, |right_read| {
            while_telling(report, READING_LEFT, |left_read| {
                let left = counted(left.records(share, left_read), &of_left);
                let right = counted(right.records(share, right_read), &of_right);
                let mut write = |(key, value, other)| {
                    joined.set(joined.get() + 1);
                    written.store(joined.get(), Ordering::Relaxed);
                    let line = format_args!("{key}\t{value}\t{other}");
                    out.write(|out| {
                        job.format.write(out, line, &PairLine { key, left: value, right: other })
                    })
                };
                match job.small_right {
                    true => left.join_small(right).run(worker, &mut write),
                    false => left.join(right).run(worker, &mut write),
                }
            })
        })
    })?;
    out.finish()?;
    worker.has_written(&job.output);
    let lines_skipped = left.skipped_in_all(worker)? + right.skipped_in_all(worker)?;
    let all = |counted: Cell<u64>| -> Result<Vec<u64>, JobError> { worker.gather(counted.get()) };
    let (of_left, of_right, joined) = (all(of_left)?, all(of_right)?, all(joined)?);
    let usage = Usage::gather(worker, began)?;
    if worker.id() == WorkerId(0) {
        tell(&Event::Done(Outcome::Join(Joined {
            left: of_left.iter().sum(),
            right: of_right.iter().sum(),
            joined: joined.iter().sum(),
            joined_by_worker: joined,
            lines_skipped,
            usage,
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}

/// The same records, as many as `count` says in the end.
fn counted<D: Dataset>(records: D, count: &Cell<u64>) -> impl Dataset<Item = D::Item> {
    records.map(|record| {
        count.set(count.get() + 1);
        record
    })
}
