//! What a worker does.

use std::io::Write as _;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use weft_shuffle::job::pagerank::{PageRank, Rank, Shaped};
use weft_shuffle::{Dataset, EdgeList, Share, Worker, WorkerId, records};

use super::{LOADING, Pagerank, RANKING, Ranked, TopRank};
use crate::event::{Event, Outcome, tell};
use crate::output_file::OutputFile;
use crate::usage::Usage;
use crate::work::while_telling;

/// A worker's part of the job.
pub(super) fn run(job: &Pagerank, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let clock = worker.clock();
    let began = clock.now();
    let list = EdgeList::open(&job.input)?.skip_malformed(job.skip_bad);
    let (graph, lines_skipped) =
        while_telling(report, LOADING, |read| load(job, worker, &list, read))?;
    // All have loaded when all have said so.
    let edges_by_worker = worker.gather(graph.edges())?;
    anyhow::ensure!(graph.vertices() > 0, "{} has no edges", job.input.display());
    let load_seconds = clock.now().since(began).as_secs_f64();

    let sent_before = worker.bytes_sent();
    let tells = worker.id() == WorkerId(0) && report;
    let mut times = Vec::with_capacity(job.iterations + 1);
    let method = PageRank { iterations: job.iterations, damping: job.damping };
    let mut first_round = None;
    let mut note = |rounds| {
        first_round.get_or_insert(rounds);
        times.push(clock.now());
        if tells {
            // Without anybody to tell, the end of standard input ends this process.
            let _ = tell(&Event::Progress { phase: RANKING, done: rounds as u64 });
        }
    };
    let ranks = method.rank(worker, &graph, &mut note)?;
    note(job.iterations);
    let sent = worker.gather(worker.bytes_sent() - sent_before)?;
    let vertices = graph.vertices();
    // Its memory is for the ranks of all from here on.
    drop(graph);

    let mut ranks = records(ranks).collect(worker)?;
    let usage = Usage::gather(worker, began)?;
    if worker.id() == WorkerId(0) {
        ranks.sort_unstable_by(|one, other| {
            other.rank.total_cmp(&one.rank).then(one.vertex.cmp(&other.vertex))
        });
        job.output().map_or(Ok(()), |output| write(job, &output, &ranks))?;
        job.output.iter().for_each(|file| worker.has_written(file));
        let top = ranks.iter().take(job.top);
        tell(&Event::Done(Outcome::Pagerank(Ranked {
            vertices,
            edges: edges_by_worker.iter().sum(),
            edges_by_worker,
            lines_skipped,
            load_seconds,
            first_round: first_round.unwrap_or(0),
            seconds: times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect(),
            bytes_shuffled: sent.iter().sum(),
            usage,
            top: top.map(|rank| TopRank { vertex: rank.vertex, rank: rank.rank }).collect(),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}

/// The graph, and how many lines of the input all workers have skipped.
fn load(
    job: &Pagerank,
    worker: &Worker,
    list: &EdgeList,
    read: &AtomicU64,
) -> anyhow::Result<(Shaped, u64)> {
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let graph = job.shape.spread(worker, list.records(share, read))?;
    Ok((graph, list.skipped_in_all(worker)?))
}

/// Vertex, tab, rank with 17 significant digits, which is every bit of it, as is what JSON has.
fn write(job: &Pagerank, output: &OutputFile<'_>, ranks: &[Rank]) -> anyhow::Result<()> {
    let failed = || output.cannot_write();
    let mut file = output.create()?;
    for &Rank { vertex, rank, .. } in ranks {
        let line = format_args!("{vertex}\t{rank:.16e}");
        job.format.write(&mut file, line, &TopRank { vertex, rank }).with_context(failed)?;
    }
    file.flush().with_context(failed)
}
