//! A partition's index beside those that it could have had: memory an object, and the worst insertion of ten million.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use super::series::median;
use crate::command;

const CANDIDATES: [&str; 6] =
    ["weft", "hashbrown", "hashbrown-hashes", "hashbrown-tables", "dashmap", "btree"];

/// What the index may take for an object on average, in bytes.
const BYTES_WANTED: f64 = 12.0;

/// What is printed of each report: a heading, and where it is.
const FIGURES: [(&str, &str); 9] = [
    ("B, mean", "/bytes_an_object/mean"),
    ("least", "/bytes_an_object/least"),
    ("most", "/bytes_an_object/most"),
    ("put, ns", "/put/mean_ns"),
    ("worst, us", "/put/worst_us"),
    ("> 100 us", "/put/above_100_us"),
    ("> 1 ms", "/put/above_1_ms"),
    ("get, ns", "/get_ns"),
    ("batched", "/get_batched_ns"),
];

/// Fills a store behind each, in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut reports: Vec<Vec<Value>> = vec![Vec::new(); CANDIDATES.len()];
    for _ in bench.each_round() {
        for (candidate, reports) in CANDIDATES.iter().zip(&mut reports) {
            reports.push(report(bench, candidate)?);
        }
    }
    println!(
        "\nbytes of index an object while the second to tenth tenth of all come (of ours at most {BYTES_WANTED} \
         wanted), and processor time"
    );
    let head: String = FIGURES.iter().map(|(head, _)| format!("{head:>11}")).collect();
    println!("{:<18}{head}", "index");
    let mut medians = Vec::new();
    for (candidate, reports) in CANDIDATES.iter().zip(&reports) {
        let of = |pointer: &str| {
            let figures = reports.iter().map(|report| report.pointer(pointer)?.as_f64());
            let figures: Option<Vec<f64>> = figures.collect();
            figures.and_then(|figures| median(figures.into_iter()))
        };
        let figures: Option<Vec<f64>> = FIGURES.iter().map(|(_, pointer)| of(pointer)).collect();
        let figures = figures.with_context(|| format!("a report of {candidate} lacks a figure"))?;
        let line: String = figures.iter().map(|figure| format!("{figure:>11.1}")).collect();
        println!("{candidate:<18}{line}");
        let figures = FIGURES.iter().map(|(_, pointer)| *pointer).zip(figures);
        medians.push(json!({"index": candidate, "medians": figures.collect::<Vec<_>>()}));
    }
    Ok(json!({"medians": medians, "reports": reports}))
}

fn report(bench: &Bench<'_>, candidate: &str) -> Result<Value> {
    let mut run = Command::new(bench.workspace.release_program("index_choice"));
    run.args(["--index", candidate]);
    println!("$ {}", command::line(&run));
    let printed = command::output(&mut run)?;
    serde_json::from_str(&printed).with_context(|| format!("index_choice printed {printed}"))
}
