//! PageRank of a synthetic graph of LiveJournal's size, beside Timely Dataflow and a plain program with two threads; and of a smaller one beside Spark, too.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Spark, WORKERS, figure, input, program, report, seconds};
use crate::bench::Bench;
use crate::bench::series::median;

const ITERATIONS: &str = "20";

/// LiveJournal's vertices and edges, as GAP and Naos count them.
const LARGE: [&str; 4] = ["--vertices", "4847571", "--edges", "68993773"];
/// One that Spark ranks in minutes.
const SMALL: [&str; 4] = ["--vertices", "262144", "--edges", "4194304"];
const SPARK_ITERATIONS: &str = "5";
const SPARK_MEMORY: &str = "8g";

/// How far the highest ranks of two programs may be apart, relatively: a fast wrong answer is no figure.
const RANKS_APART_MAX: f64 = 1e-9;

/// GraphX gives what vertices without edges have to all others in the end only, which is the same once ranks change no more.
const GRAPHX_APART_MAX: f64 = 0.01;

/// Who ranks the same file, with what is wanted of an iteration of ours and theirs at most, as a ratio.
const PEERS: [(&str, &str, &[&str], f64); 3] = [
    ("Timely, sums", "timely_pagerank", &["--workers", WORKERS, "--combine"], 1.0),
    ("Timely, every edge", "timely_pagerank", &["--workers", WORKERS], 1.0),
    ("plain loop, 2 threads", "csr_pagerank", &["--threads", WORKERS], 1.2),
];

/// Our other shapes, which send an update an edge, with what is wanted of them beside Timely with every edge.
const SHAPES: [(&str, &str, f64); 2] =
    [("verbs alone, by number", "indexed", 1.0), ("by identifier, hashed", "keyed", 3.0)];
const EVERY_EDGE: usize = 1;

/// Ranks the same file with all, in turns.
pub(super) fn run(bench: &Bench<'_>, spark: Option<&Spark>) -> Result<Value> {
    let graph = graph(bench, LARGE)?;
    let (mut series, mut of_shapes) = (PEERS.map(|_| seconds()), SHAPES.map(|_| seconds()));
    let (mut links, mut scaling) = (seconds(), seconds());
    let (mut reports, mut loads, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    let megabytes = graph.metadata()?.len() as f64 / 1e6;
    for _ in bench.each_round() {
        let ours = ours(bench, &graph, &["--link", "shm"])?;
        loads.push(megabytes / figure(&ours, "load_seconds")? / WORKERS.parse::<f64>()?);
        let mut of_peers = Vec::new();
        for ((_, peer, arguments, _), series) in PEERS.iter().zip(&mut series) {
            let arguments = [arguments, ["--iterations", ITERATIONS].as_slice()].concat();
            let peer = report(program(bench, peer, &arguments, &graph))?;
            compare(&peer["top"], &ours["top"][0])?;
            of_peers.push(milliseconds(&peer)?);
            reads.extend(figure(&peer, "read_seconds").ok().map(|seconds| megabytes / seconds));
            series.push(milliseconds(&ours)?, milliseconds(&peer)?);
            reports.push(peer);
        }
        for ((_, shape, _), series) in SHAPES.iter().zip(&mut of_shapes) {
            let shaped = self::ours(bench, &graph, &["--link", "shm", "--shape", shape])?;
            compare(&shaped["top"], &ours["top"][0])?;
            series.push(milliseconds(&shaped)?, of_peers[EVERY_EDGE]);
            reports.push(shaped);
        }
        let by_tcp = self::ours(bench, &graph, &["--link", "tcp"])?;
        links.push(milliseconds(&by_tcp)?, milliseconds(&ours)?);
        let alone = self::ours(bench, &graph, &["--workers", "1"])?;
        scaling.push(milliseconds(&ours)?, milliseconds(&alone)?);
        reports.extend([ours, by_tcp, alone]);
    }
    println!("\nPageRank of 69 M edges, an iteration, two workers over shared memory");
    for ((name, _, _, wanted), series) in PEERS.iter().zip(&series) {
        println!("{}", series.line(name, "ms", Some(*wanted)));
    }
    for ((name, _, wanted), series) in SHAPES.iter().zip(&of_shapes) {
        println!("{}", series.line(name, "ms", Some(*wanted)));
    }
    println!("{}", links.line("TCP to shared memory", "ms", Some(1.3)));
    println!("{}", scaling.line("two workers to one", "ms", Some(0.71)));
    // What GAP calls its read time, which its builder's comes after, is the second of these.
    println!(
        "{:26} {:.0} MB/s a worker (250 wanted)",
        "text to a graph",
        median(loads.iter().copied()).unwrap_or(0.0)
    );
    println!(
        "{:26} {:.0} MB/s a core, the same reader",
        "text to pairs alone",
        median(reads.iter().copied()).unwrap_or(0.0)
    );
    let of_peers = PEERS
        .iter()
        .zip(&series)
        .map(|((name, ..), series)| json!({"peer": name, "milliseconds": series.json()}));
    let of_shapes = SHAPES
        .iter()
        .zip(&of_shapes)
        .map(|((_, shape, _), series)| json!({"shape": shape, "milliseconds": series.json()}));
    let beside_spark = spark.map(|spark| beside_spark(bench, spark)).transpose()?;
    Ok(json!({
        "peers": of_peers.collect::<Vec<_>>(),
        "shapes_to_every_edge": of_shapes.collect::<Vec<_>>(),
        "tcp_to_shm": links.json(),
        "two_workers_to_one": scaling.json(),
        "load_megabytes_a_second_a_worker": loads,
        "read_megabytes_a_second_a_core": reads,
        "spark": beside_spark,
        "reports": reports,
    }))
}

/// One run of each: Spark's takes minutes.
fn beside_spark(bench: &Bench<'_>, spark: &Spark) -> Result<Value> {
    let graph = graph(bench, SMALL)?;
    let arguments = ["--link", "shm", "--iterations", SPARK_ITERATIONS];
    let ours = ours(bench, &graph, &arguments)?;
    let beside = |name, script, apart_max| {
        let mut ranking = spark.program(script, SPARK_MEMORY, &[&graph]);
        ranking.args(["--iterations", SPARK_ITERATIONS]);
        let peer = report(ranking)?;
        compare_within(apart_max, &peer["top"], &ours["top"][0])?;
        let mut series = seconds();
        series.push(milliseconds(&ours)?, milliseconds(&peer)?);
        println!("{}", series.line(name, "ms", None));
        anyhow::Ok(series.json())
    };
    Ok(json!({
        "rdd": beside("Spark, 4 M edges", "pagerank", RANKS_APART_MAX)?,
        "graphx": beside("GraphX, 4 M edges", "graphx", GRAPHX_APART_MAX)?,
    }))
}

/// A seeded R-MAT graph.
pub(super) fn graph(bench: &Bench<'_>, size: [&str; 4]) -> Result<PathBuf> {
    let [_, vertices, _, edges] = size;
    let arguments = [["rmat"].as_slice(), &size].concat();
    input(bench, &format!("rmat-{vertices}-{edges}.txt"), &arguments)
}

pub(super) fn ours(bench: &Bench<'_>, graph: &Path, arguments: &[&str]) -> Result<Value> {
    let mut ranking = program(bench, "shuffle", &["pagerank", "--json", "--top", "1"], graph);
    for (flag, value) in [("--workers", WORKERS), ("--iterations", ITERATIONS)] {
        if !arguments.contains(&flag) {
            ranking.args([flag, value]);
        }
    }
    ranking.args(arguments);
    report(ranking)
}

pub(super) fn milliseconds(report: &Value) -> Result<f64> {
    Ok(figure(report, "seconds_per_iteration")? * 1e3)
}

/// Fails unless both have the same vertex on top with the same rank.
pub(super) fn compare(peer: &Value, ours: &Value) -> Result<()> {
    compare_within(RANKS_APART_MAX, peer, ours)
}

fn compare_within(apart_max: f64, peer: &Value, ours: &Value) -> Result<()> {
    // Some print the highest alone.
    let peer = peer.get(0).unwrap_or(peer);
    let rank = |top: &Value| top["rank"].as_f64().context("a report without ranks");
    let apart = (rank(ours)? - rank(peer)?).abs() / rank(peer)?;
    if ours["vertex"] != peer["vertex"] || apart > apart_max {
        bail!("the two programs disagree: {ours} here, {peer} there");
    }
    Ok(())
}
