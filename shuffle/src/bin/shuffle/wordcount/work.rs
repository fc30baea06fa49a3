//! What a worker does.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::Context as _;
use weft_shuffle::job::wordcount::{self, Top};
use weft_shuffle::{Dataset as _, JobError, Share, TextFile, Worker, WorkerId, records};

use super::{Counted, READING, TopWord, Wordcount};
use crate::event::{Event, Outcome, tell};
use crate::work::while_telling;

/// Bytes of counts that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A worker's part of the job.
pub(super) fn run(job: &Wordcount, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let text = TextFile::open(&job.input)?.skip_malformed(job.skip_bad);
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let path = job.output().map(|output| output.file_of(worker.id())).unwrap_or_default();
    let cannot_write = || format!("cannot write {}", path.display());
    let mut out = match &job.output {
        Some(_) => Some(BufWriter::with_capacity(
            WRITE_BYTES,
            File::create_new(&path).with_context(cannot_write)?,
        )),
        None => None,
    };
    let (mut words, mut distinct, mut top) = (0, 0, Top::new(job.top));
    while_telling(report, READING, |read| {
        wordcount::count(text.lines(share, read)).run(worker, |count| {
            (words, distinct) = (words + count.value, distinct + 1);
            top.see(&count);
            let Some(out) = &mut out else { return Ok(()) };
            let wrote = writeln!(out, "{}\t{}", count.key, count.value);
            wrote.map_err(|error| JobError::Job(format!("{}: {error}", cannot_write())))
        })
    })?;
    out.map_or(Ok(()), |mut out| out.flush()).with_context(cannot_write)?;
    let lines_skipped = text.skipped_in_all(worker)?;
    let words = worker.gather(words)?.iter().sum();
    let distinct_by_worker = worker.gather(distinct)?;
    let sent = worker.gather(worker.bytes_sent())?;
    let spilled = worker.gather(worker.bytes_spilled())?;
    let peaks = worker.gather(worker.peak_memory_bytes().unwrap_or(0))?;
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
            seconds: worker.clock().now().since(began).as_secs_f64(),
            bytes_shuffled: sent.iter().sum(),
            bytes_spilled: spilled.iter().sum(),
            peak_memory_bytes: peaks.into_iter().max().unwrap_or(0),
            top: top
                .map(|count| TopWord { word: count.key.to_string(), count: count.value })
                .collect(),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}
