//! What a worker does.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use serde::Serialize;
use weft_shuffle::job::top::Top;
use weft_shuffle::job::wordcount::{self, Count};
use weft_shuffle::{Dataset as _, JobError, Share, TextFile, Worker, WorkerId, records};

use super::table_words::TableWords;
use super::{Counted, READING, TopWord, Wordcount};
use crate::event::{Event, Outcome, tell};
use crate::output_folder::PartFile;
use crate::usage::Usage;
use crate::work::while_telling;

/// A word as a line of JSON.
#[derive(Serialize)]
struct WordLine<'w> {
    word: &'w str,
    count: u64,
}

/// A worker's part of the job.
pub(super) fn run(job: &Wordcount, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let mut out = job.output().map(|output| output.create(worker.id())).transpose()?;
    let table_out = job.output_table()?;
    let mut into_table = table_out.as_ref().map(|table| table.writer());
    let (mut words, mut distinct, mut top) = (0, 0, Top::new(job.top));
    let take = |count: Count| {
        (words, distinct) = (words + count.value, distinct + 1);
        top.see(&count);
        if let Some(into_table) = &mut into_table {
            into_table.write(count.key.as_bytes().into(), count.value.to_string().into_bytes())?;
        }
        let Some(out) = &mut out else { return Ok(()) };
        out.write(|out| {
            let (word, count) = (&*count.key, count.value);
            let line = format_args!("{word}\t{count}");
            job.format.write(out, line, &WordLine { word, count })
        })
    };
    let lines_skipped = while_telling(report, READING, |read| count(job, worker, read, take))?;
    out.map_or(Ok(()), PartFile::finish)?;
    into_table.map_or(Ok(0), |into_table| into_table.finish())?;
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

/// Notes where the words go, which have come out just now.
fn note_written(job: &Wordcount, worker: &Worker) {
    job.output.iter().for_each(|folder| worker.has_written(folder));
    job.output_table.iter().for_each(|table| worker.has_written(&named(table)));
}

/// What a report calls a table.
fn named(table: &str) -> PathBuf {
    format!("table:{table}").into()
}

/// Counts the words of the input, and gives `take` those that are this worker's. Returns how many lines or values of all were skipped.
fn count(
    job: &Wordcount,
    worker: &Worker,
    read: &AtomicU64,
    take: impl FnMut(Count) -> Result<(), JobError>,
) -> anyhow::Result<u64> {
    match (&job.input, job.input_table()?) {
        (_, Some(table)) => {
            let (share, words) = (table.share(worker)?, TableWords::new(&table, job.skip_bad));
            worker.has_read(&named(table.name()));
            wordcount::count(words.of(share.objects(read))).run(worker, take)?;
            note_written(job, worker);
            Ok(words.skipped_in_all(worker)?)
        }
        (Some(input), None) => {
            let text = TextFile::open(input)?.skip_malformed(job.skip_bad);
            let share = Share::new(worker.id().0, worker.workers());
            let share = share.context("a share of the input")?;
            wordcount::count(job.fault.in_words(text.words(share, read))).run(worker, take)?;
            note_written(job, worker);
            Ok(text.skipped_in_all(worker)?)
        }
        (None, None) => anyhow::bail!("there is no input"),
    }
}
