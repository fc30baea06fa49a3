//! PageRank in Naos's shapes: objects that are built in the segment they are sent in, beside the same rounds with messages that bitcode and rkyv encode.

use anyhow::Result;
use serde_json::{Value, json};

use super::pagerank::{compare, graph, milliseconds, ours};
use super::{WORKERS, program, report, seconds};
use crate::bench::Bench;

const VERTICES_AND_EDGES: [&str; 4] = ["--vertices", "1048576", "--edges", "16777216"];
const ITERATIONS: &str = "20";

/// Our seconds and theirs, as a ratio, that is wanted at most: 1.5 times as fast.
const WANTED: f64 = 1.0 / 1.5;

/// What is compared: the shape of ours, and the format and the message of theirs, with what is wanted of it.
struct Row {
    name: &'static str,
    shape: &'static str,
    format: &'static str,
    message: &'static str,
    wanted: Option<f64>,
}

/// The same objects, one an edge, on both sides; and beside them updates that are no objects there, and arrays on both sides.
const ROWS: [Row; 6] = [
    row("objects by bitcode", "naos", "bitcode", "objects", Some(WANTED)),
    row("objects by rkyv", "naos", "rkyv", "objects", Some(WANTED)),
    row("to values by bitcode", "naos", "bitcode", "values", None),
    row("to values by rkyv", "naos", "rkyv", "values", None),
    row("arrays by bitcode", "naos-sparse", "bitcode", "arrays", None),
    row("arrays by rkyv", "naos-sparse", "rkyv", "arrays", None),
];

const fn row(
    name: &'static str,
    shape: &'static str,
    format: &'static str,
    message: &'static str,
    wanted: Option<f64>,
) -> Row {
    Row { name, shape, format, message, wanted }
}

/// Ranks the same file with all, in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let graph = graph(bench, VERTICES_AND_EDGES)?;
    let mut series = ROWS.map(|_| seconds());
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        let [naos, sparse] = ["naos", "naos-sparse"].map(|shape| {
            ours(bench, &graph, &["--shape", shape, "--iterations", ITERATIONS, "--link", "tcp"])
        });
        let (naos, sparse) = (naos?, sparse?);
        for (row, series) in ROWS.iter().zip(&mut series) {
            let ours = if row.shape == "naos" { &naos } else { &sparse };
            let what = ["--format", row.format, "--message", row.message, "--link", "tcp"];
            let how = ["--workers", WORKERS, "--iterations", ITERATIONS, "--top", "1"];
            let arguments = [what, how].concat();
            let peer = report(program(bench, "encoded_pagerank", &arguments, &graph))?;
            compare(&peer["top"], &ours["top"][0])?;
            series.push(milliseconds(ours)?, milliseconds(&peer)?);
            reports.push(peer);
        }
        reports.extend([naos, sparse]);
    }
    println!("\nPageRank of 16 M edges in Naos's shapes, an iteration, two workers over TCP");
    for (row, series) in ROWS.iter().zip(&series) {
        println!("{}", series.line(row.name, "ms", row.wanted));
    }
    let rows = ROWS.iter().zip(&series).map(|(row, series)| {
        let (shape, format, message) = (row.shape, row.format, row.message);
        json!({"shape": shape, "format": format, "message": message, "milliseconds": series.json()})
    });
    Ok(json!({"rows": rows.collect::<Vec<_>>(), "reports": reports}))
}
