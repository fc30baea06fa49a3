//! `encoded_pagerank`: the rounds of `shuffle pagerank --shape naos` and `naos-sparse`, over the same exchange, with messages that are encoded by bitcode or rkyv where
//! Weft's are objects in the segment that is sent.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures time and prints")]

mod carried;
mod meeting;
mod models;
mod with_bitcode;
mod with_rkyv;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use weft_bench::timely_cluster;
use weft_shuffle::job::pagerank::{MessageLinks, PageRank};
use weft_shuffle::{Dataset as _, EdgeList, JobError, LinkPolicy, Share, Worker, records};

/// Rank a graph by messages that are encoded, and print seconds and the result as JSON
#[derive(Clone, Debug, Parser)]
struct Args {
    /// An edge a line, as `shuffle pagerank` reads it
    #[arg(long)]
    input: PathBuf,
    /// Processes, 1 to 64
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// Rounds, 1 to 1000000
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    #[arg(long)]
    format: Format,
    #[arg(long, default_value = "objects")]
    message: Message,
    /// What connects the workers: auto, tcp or shm
    #[arg(long, default_value = "tcp")]
    link: LinkPolicy,
    /// How many of the highest ranks to print
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Be this worker
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Bitcode,
    /// With the check of what comes, and without a copy of it
    Rkyv,
}

/// What a message is in the program, before it is encoded and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Message {
    /// A vector of boxes, one an update: an object each, as Weft's and Naos's are
    Objects,
    /// A vector of updates, one behind the other
    Values,
    /// Two vectors, of vertices and of sums for them: beside `naos-sparse`
    Arrays,
}

/// What a worker says in the end.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    vertices: u64,
    edges: u64,
    seconds: Vec<f64>,
    bytes_sent: u64,
    /// On worker 0.
    top: Vec<Rank>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Rank {
    vertex: u64,
    rank: f64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let workers = usize::from(args.workers);
    if let Some(worker) = args.worker {
        return meeting::join(worker, workers, args.link, |worker| rank(worker, &args));
    }
    let mut reports: Vec<Report> = timely_cluster::start(workers)?;
    let top = std::mem::take(&mut reports[0].top);
    // All workers end a round within the time that a message takes.
    let mut seconds = reports[0].seconds.clone();
    seconds.sort_unstable_by(f64::total_cmp);
    let bytes_sent: u64 = reports.iter().map(|report| report.bytes_sent).sum();
    let ranked = serde_json::json!({
        "format": name(args.format),
        "message": name(args.message),
        "vertices": reports[0].vertices,
        "edges": reports.iter().map(|report| report.edges).sum::<u64>(),
        "workers": workers,
        "iterations": args.iterations,
        "seconds_per_iteration": seconds[seconds.len() / 2],
        "seconds_per_iteration_p5": seconds[seconds.len() / 20],
        "bytes_shuffled_per_iteration": bytes_sent / u64::from(args.iterations),
        "top": top,
    });
    writeln!(std::io::stdout(), "{ranked}").context("cannot print")
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A worker's part.
fn rank(worker: &Worker, args: &Args) -> anyhow::Result<Report> {
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let edges = EdgeList::open(&args.input)?;
    let links = MessageLinks::spread(worker, edges.records(share, &AtomicU64::new(0)))?;
    anyhow::ensure!(links.vertices() > 0, "{} has no edges", args.input.display());
    worker.gather(links.edges())?;

    let method = PageRank { iterations: args.iterations as usize, damping: 0.85 };
    let (clock, sent_before) = (worker.clock(), worker.bytes_sent());
    let mut times = Vec::with_capacity(method.iterations + 1);
    let ranks = carry(worker, args, &links, &method, |_| times.push(clock.now()))?;
    times.push(clock.now());
    let bytes_sent = worker.bytes_sent() - sent_before;
    let mut ranks = records(ranks).collect(worker)?;
    ranks.sort_unstable_by(|one, other| {
        other.rank.total_cmp(&one.rank).then(one.vertex.cmp(&other.vertex))
    });
    let top = ranks.iter().take(args.top);
    let report = Report {
        vertices: links.vertices(),
        edges: links.edges(),
        seconds: times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect(),
        bytes_sent,
        top: top.map(|rank| Rank { vertex: rank.vertex, rank: rank.rank }).collect(),
    };
    // Nobody leaves before all have come to the end.
    worker.gather(worker.id().0 as u64)?;
    Ok(report)
}

fn carry(
    worker: &Worker,
    args: &Args,
    links: &MessageLinks,
    method: &PageRank,
    at_round: impl FnMut(usize),
) -> Result<Vec<weft_shuffle::job::pagerank::Rank>, JobError> {
    let carry = match (args.format, args.message) {
        (Format::Bitcode, Message::Objects) => with_bitcode::objects,
        (Format::Bitcode, Message::Values) => with_bitcode::values,
        (Format::Bitcode, Message::Arrays) => with_bitcode::arrays,
        (Format::Rkyv, Message::Objects) => with_rkyv::objects,
        (Format::Rkyv, Message::Values) => with_rkyv::values,
        (Format::Rkyv, Message::Arrays) => with_rkyv::arrays,
    };
    let mut buffers = carried::Buffers::default();
    method.rank_by_messages(worker, links, at_round, |worker, leaving, sums| {
        carry(worker, leaving, sums, &mut buffers)
    })
}
