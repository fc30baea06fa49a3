//! PageRank of a synthetic graph of 16 M edges, beside a plain program with two threads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::bench::series::{Better, Series};
use crate::command;

const WORKERS: u32 = 2;
const ITERATIONS: u32 = 20;

/// An iteration of the plain program and one of ours, as a ratio, that is wanted at most.
const RATIO_WANTED: f64 = 3.0;

/// How far the highest rank of the two may be apart, relatively: a fast wrong answer is no figure.
const RANKS_APART_MAX: f64 = 1e-9;

/// Ranks the same file with both, in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let graph = graph(bench)?;
    let mut series = Series::new(Better::Lower, None);
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        let peer = report(bench, "csr_pagerank", &["--threads", &WORKERS.to_string()], &graph)?;
        let arguments = ["pagerank", "--json", "--top", "1", "--workers", &WORKERS.to_string()];
        let ours = report(bench, "shuffle", &arguments, &graph)?;
        compare(&peer["top"], &ours["top"][0])?;
        series.push(seconds(&ours)? * 1e3, seconds(&peer)? * 1e3);
        reports.push(json!({"shuffle": ours, "csr": peer}));
    }
    println!("\n{}", series.line("iteration, 16 M edges", "ms", Some(RATIO_WANTED)));
    Ok(json!({"milliseconds": series.json(), "reports": reports}))
}

/// A seeded R-MAT graph of a million vertices, made once.
fn graph(bench: &Bench<'_>) -> Result<PathBuf> {
    let path = bench.folder.join("rmat-1048576-16777216.txt");
    if !path.exists() {
        let mut generate = Command::new(bench.workspace.release_program("shuffle"));
        generate.args(["generate", "rmat", "--vertices", "1048576", "--edges", "16777216"]);
        command::run(generate.arg("--output").arg(&path))?;
    }
    Ok(path)
}

fn report(bench: &Bench<'_>, program: &str, arguments: &[&str], graph: &Path) -> Result<Value> {
    let mut run = Command::new(bench.workspace.release_program(program));
    run.args(arguments).args(["--iterations", &ITERATIONS.to_string(), "--input"]).arg(graph);
    println!("$ {}", command::line(&run));
    let printed = command::output(&mut run)?;
    serde_json::from_str(&printed).with_context(|| format!("{program} printed {printed}"))
}

fn seconds(report: &Value) -> Result<f64> {
    report["seconds_per_iteration"].as_f64().context("a report without seconds an iteration")
}

/// Fails unless both have the same vertex on top with the same rank.
fn compare(peer: &Value, ours: &Value) -> Result<()> {
    let rank = |top: &Value| top["rank"].as_f64().context("a report without ranks");
    let apart = (rank(ours)? - rank(peer)?).abs() / rank(peer)?;
    if ours["vertex"] != peer["vertex"] || apart > RANKS_APART_MAX {
        bail!("the two programs disagree: {ours} here, {peer} there");
    }
    Ok(())
}
