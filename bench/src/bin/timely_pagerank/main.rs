//! `timely_pagerank`: PageRank with Timely Dataflow, f64, in processes as Weft's workers are, on the
//! same edges as `shuffle pagerank`. With `--combine`, as who knows Timely would write it: a worker
//! adds up what its vertices give to a vertex and sends only the sum.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures time and prints")]

mod graph;
mod rank;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use serde::{Deserialize, Serialize};
use timely::container::CapacityContainerBuilder;
use weft_bench::timely_cluster;

use self::graph::Graph;
use self::rank::{Ranked, rank};

/// Rank a graph with Timely Dataflow, and print seconds and the result as JSON
#[derive(Clone, Debug, Parser)]
struct Args {
    /// An edge a line, as `shuffle pagerank` reads it
    #[arg(long)]
    input: PathBuf,
    /// Processes, 1 to 64
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// Rounds, 1 to 1000000
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    iterations: u64,
    /// Add up what a worker's vertices give to a vertex before it is sent
    #[arg(long)]
    combine: bool,
    /// How many of the highest ranks to print
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Be this worker
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

/// What comes out of an operator that keeps what it is sent.
type Nothing = CapacityContainerBuilder<Vec<()>>;

/// What one worker has: its vertices, and the edges that begin at them.
#[derive(Serialize, Deserialize)]
struct Report {
    load_seconds: f64,
    /// Of each round.
    seconds: Vec<f64>,
    vertices: u64,
    edges: u64,
    rank_sum: f64,
    top: Vec<Rank>,
}

#[derive(Serialize, Deserialize)]
struct Rank {
    vertex: u64,
    rank: f64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let workers = usize::from(args.workers);
    if let Some(worker) = args.worker {
        return timely_cluster::join(worker, workers, move |worker| {
            let began = Instant::now();
            let graph = Graph::load(worker, &args.input)?;
            let load_seconds = began.elapsed().as_secs_f64();
            let edges = graph.edges.len() as u64;
            let own = graph.identifiers.iter().skip(worker.index()).step_by(workers);
            let own: Vec<u64> = own.copied().collect();
            let Ranked { ranks, seconds } = rank(worker, graph, args.combine, args.iterations);
            let rank_sum = ranks.iter().sum();
            let ranks = own.into_iter().zip(ranks).map(|(vertex, rank)| Rank { vertex, rank });
            let vertices = ranks.len() as u64;
            let top = highest(ranks, args.top);
            Ok(Report { load_seconds, seconds, vertices, edges, rank_sum, top })
        });
    }
    let reports: Vec<Report> = timely_cluster::start(workers)?;
    // All workers end a round within the time that a message takes.
    let seconds = &reports[0].seconds;
    let mut sorted = seconds.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let ranked = serde_json::json!({
        "vertices": reports.iter().map(|report| report.vertices).sum::<u64>(),
        "edges": reports.iter().map(|report| report.edges).sum::<u64>(),
        "workers": workers,
        "combine": args.combine,
        "iterations": args.iterations,
        "load_seconds": reports.iter().map(|report| report.load_seconds).fold(0.0, f64::max),
        "seconds_per_iteration": sorted[sorted.len() / 2],
        "seconds": seconds,
        "rank_sum": reports.iter().map(|report| report.rank_sum).sum::<f64>(),
        "top": highest(reports.iter().flat_map(|report| &report.top), args.top),
    });
    writeln!(std::io::stdout(), "{ranked}").context("cannot print")
}

/// The highest ranks first; of equal ones, the lower vertex.
fn highest<R: std::borrow::Borrow<Rank>>(ranks: impl Iterator<Item = R>, top: usize) -> Vec<R> {
    let mut ranks: Vec<R> = ranks.collect();
    ranks.sort_unstable_by(|one, other| {
        let (one, other) = (one.borrow(), other.borrow());
        other.rank.total_cmp(&one.rank).then(one.vertex.cmp(&other.vertex))
    });
    ranks.truncate(top);
    ranks
}
