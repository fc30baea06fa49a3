//! What a worker does.

use std::io::Write as _;

use anyhow::Context as _;
use weft_shuffle::job::top::Top;
use weft_shuffle::job::wordcount;
use weft_shuffle::{Dataset as _, Share, TextFile, Worker, WorkerId, records};

use super::{Counted, READING, TopWord, Wordcount};
use crate::event::{Event, Outcome, tell};
use crate::output_folder::PartFile;
use crate::usage::Usage;
use crate::work::while_telling;

/// A worker's part of the job.
pub(super) fn run(job: &Wordcount, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let text = TextFile::open(&job.input)?.skip_malformed(job.skip_bad);
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let mut out = job.output().map(|output| output.create(worker.id())).transpose()?;
    let (mut words, mut distinct, mut top) = (0, 0, Top::new(job.top));
    while_telling(report, READING, |read| {
        wordcount::count(job.fault.in_words(text.words(share, read))).run(worker, |count| {
            (words, distinct) = (words + count.value, distinct + 1);
            top.see(&count);
            let Some(out) = &mut out else { return Ok(()) };
            out.write(|out| writeln!(out, "{}\t{}", count.key, count.value))
        })
    })?;
    out.map_or(Ok(()), PartFile::finish)?;
    job.output.iter().for_each(|folder| worker.has_written(folder));
    let lines_skipped = text.skipped_in_all(worker)?;
    let words = worker.gather(words)?.iter().sum();
    let distinct_by_worker = worker.gather(distinct)?;
    let usage = Usage::gather(worker, began)?;
    let tops = records(top.into_vec()).collect(worker)?;
    if worker.id() == WorkerId(0) {
        let mut top = Top::new(job.top);
        tops.iter().for_each(|count| top.see(count));
        let top = top.into_vec().into_iter();
        tell(&Event::Done(Outcome::Wordcount(Counted {
            words,
            distinct: distinct_by_worker.iter().sum(),
            distinct_by_worker,
            lines_skipped,
            usage,
            top: top
                .map(|count| TopWord { word: count.key.to_string(), count: count.value })
                .collect(),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}
