//! What a worker does.

use std::io::Write as _;

use anyhow::Context as _;
use weft_shuffle::job::kmeans::Clusters;
use weft_shuffle::{PointFile, Share, Worker, WorkerId};

use super::{Cluster, Clustered, Kmeans, MOVING, READING};
use crate::event::{Event, Outcome, tell};
use crate::output_file::OutputFile;
use crate::usage::Usage;
use crate::work::while_telling;

/// A worker's part of the job.
pub(super) fn run(job: &Kmeans, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let file = PointFile::open(&job.input)?.skip_malformed(job.skip_bad);
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let points = while_telling(report, READING, |read| file.points(worker, share, read))?;
    worker.has_read(&job.input);
    let lines_skipped = file.skipped_in_all(worker)?;
    let count = worker.gather(points.len())?.iter().sum();
    let load_seconds = worker.clock().now().since(began).as_secs_f64();
    let (mut first_round, mut rounds) = (None, 0);
    let tells = worker.id() == WorkerId(0) && report;
    let clusters = job.method().run(worker, &points, |round| {
        first_round.get_or_insert(round);
        rounds = round + 1;
        if tells {
            // Without anybody to tell, the end of standard input ends this process.
            let _ = tell(&Event::Progress { phase: MOVING, done: rounds as u64 });
        }
    })?;
    // By worker 0, once what the job took is known, too.
    job.output.iter().for_each(|file| worker.has_written(file));
    let usage = Usage::gather(worker, began)?;
    if worker.id() == WorkerId(0) {
        job.output().map_or(Ok(()), |output| write(&output, &clusters))?;
        let Clusters { centres, sizes, cost, is_settled } = clusters;
        let clusters = centres.iter().zip(sizes);
        tell(&Event::Done(Outcome::Kmeans(Clustered {
            points: count,
            dimensions: centres.dimensions(),
            lines_skipped,
            load_seconds,
            first_round: first_round.unwrap_or(0),
            rounds,
            is_settled,
            cost,
            usage,
            clusters: clusters
                .map(|(centre, points)| Cluster { points, centre: centre.to_vec() })
                .collect(),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}

/// Numbers that come back bit by bit when they are read.
fn write(output: &OutputFile<'_>, clusters: &Clusters) -> anyhow::Result<()> {
    let failed = || output.cannot_write();
    let mut file = output.create()?;
    for centre in clusters.centres.iter() {
        let numbers: Vec<String> = centre.iter().map(f64::to_string).collect();
        writeln!(file, "{}", numbers.join(",")).with_context(failed)?;
    }
    file.flush().with_context(failed)
}
