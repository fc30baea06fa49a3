//! `csr_pagerank`: what a plain program reaches: PageRank by pulling along a compressed sparse row
//! matrix, f64, in one process with threads, on the same edges as `shuffle pagerank`.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures time and prints")]

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use weft_shuffle::{EdgeList, Share};

/// Rank a graph in one process, and print seconds an iteration as JSON
#[derive(Debug, Parser)]
struct Args {
    #[arg(long)]
    input: PathBuf,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, default_value_t = 20)]
    iterations: usize,
}

const DAMPING: f64 = 0.85;

/// Incoming edges by vertex.
struct Graph {
    offsets: Vec<usize>,
    sources: Vec<u32>,
    out_degrees: Vec<u32>,
    identifiers: Vec<u64>,
    /// How long it took to have the text as pairs of numbers.
    read_seconds: f64,
}

fn main() -> anyhow::Result<()> {
    let Args { input, threads, iterations } = Args::parse();
    anyhow::ensure!(threads > 0, "--threads is at least 1");
    let graph = Graph::read(&input)?;
    let (ranks, mut seconds) = rank(&graph, threads, iterations);
    let best = (0..ranks.len()).max_by(|one, other| ranks[*one].total_cmp(&ranks[*other]));
    let best = best.context("the graph has no edges")?;
    seconds.sort_by(f64::total_cmp);
    let report = serde_json::json!({
        "vertices": ranks.len(),
        "edges": graph.sources.len(),
        "threads": threads,
        "iterations": iterations,
        "read_seconds": graph.read_seconds,
        "seconds_per_iteration": seconds[seconds.len() / 2],
        "top": {"vertex": graph.identifiers[best], "rank": ranks[best]},
    });
    writeln!(std::io::stdout(), "{report}").context("failed to print")
}

impl Graph {
    fn read(input: &std::path::Path) -> anyhow::Result<Self> {
        let mut edges = Vec::new();
        let began = Instant::now();
        let list = EdgeList::open(input)?;
        list.edges(Share::WHOLE, &AtomicU64::new(0), |from, to| edges.push((to, from)))?;
        let read_seconds = began.elapsed().as_secs_f64();
        edges.sort_unstable();
        edges.dedup();
        let mut identifiers: Vec<u64> = edges.iter().flat_map(|(to, from)| [*to, *from]).collect();
        identifiers.sort_unstable();
        identifiers.dedup();
        let numbers: HashMap<u64, u32> =
            identifiers.iter().enumerate().map(|(at, name)| (*name, at as u32)).collect();
        let mut graph = Self {
            offsets: Vec::with_capacity(identifiers.len() + 1),
            sources: Vec::with_capacity(edges.len()),
            out_degrees: vec![0; identifiers.len()],
            identifiers,
            read_seconds,
        };
        let mut edges = edges.into_iter().peekable();
        for identifier in &graph.identifiers {
            graph.offsets.push(graph.sources.len());
            while let Some((_, from)) = edges.next_if(|(to, _)| to == identifier) {
                let from = numbers[&from];
                graph.sources.push(from);
                graph.out_degrees[from as usize] += 1;
            }
        }
        graph.offsets.push(graph.sources.len());
        Ok(graph)
    }

    /// Where each thread's vertices begin, for as many edges a thread.
    fn cuts(&self, threads: usize) -> Vec<usize> {
        let cut = |thread: usize| {
            let edges = self.sources.len() * thread / threads;
            self.offsets.partition_point(|offset| *offset < edges)
        };
        let inner = (1..threads).map(cut);
        std::iter::once(0).chain(inner).chain([self.out_degrees.len()]).collect()
    }
}

/// The ranks, and the seconds of each iteration.
fn rank(graph: &Graph, threads: usize, iterations: usize) -> (Vec<f64>, Vec<f64>) {
    let n = graph.out_degrees.len();
    let cuts = graph.cuts(threads);
    let mut ranks = vec![1.0 / n as f64; n];
    let mut parts = vec![0.0; n];
    let mut seconds = Vec::with_capacity(iterations);
    for _ in 0..iterations {
        let began = Instant::now();
        let dangling: f64 = std::thread::scope(|scope| {
            let mut rest = parts.as_mut_slice();
            let threads: Vec<_> = cuts
                .windows(2)
                .map(|cut| {
                    let (mine, others) = std::mem::take(&mut rest).split_at_mut(cut[1] - cut[0]);
                    rest = others;
                    let (ranks, degrees) =
                        (&ranks[cut[0]..cut[1]], &graph.out_degrees[cut[0]..cut[1]]);
                    scope.spawn(move || give(ranks, degrees, mine))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it only adds")).sum()
        });
        let to_all = (1.0 - DAMPING + DAMPING * dangling) / n as f64;
        std::thread::scope(|scope| {
            let mut rest = ranks.as_mut_slice();
            for cut in cuts.windows(2) {
                let (mine, others) = std::mem::take(&mut rest).split_at_mut(cut[1] - cut[0]);
                rest = others;
                let (parts, first) = (&parts, cut[0]);
                scope.spawn(move || {
                    for (at, rank) in mine.iter_mut().enumerate() {
                        let at = first + at;
                        let sources = &graph.sources[graph.offsets[at]..graph.offsets[at + 1]];
                        let sum: f64 = sources.iter().map(|from| parts[*from as usize]).sum();
                        *rank = to_all + DAMPING * sum;
                    }
                });
            }
        });
        seconds.push(began.elapsed().as_secs_f64());
    }
    (ranks, seconds)
}

/// What each vertex gives along each edge; returns what those without edges have.
fn give(ranks: &[f64], degrees: &[u32], parts: &mut [f64]) -> f64 {
    let mut dangling = 0.0;
    for ((rank, degree), part) in ranks.iter().zip(degrees).zip(parts) {
        if *degree == 0 {
            dangling += rank;
            *part = 0.0;
        } else {
            *part = rank / f64::from(*degree);
        }
    }
    dangling
}
