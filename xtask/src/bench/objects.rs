//! Graphs of objects: building, sending, receiving and using them, beside formats that encode.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use crate::command;

/// At which sizes a table is printed, as logarithms.
const TABLES: [u64; 3] = [10, 17, 20];

/// What the check of an element may take at 2^17 elements, in nanoseconds, by shape.
const CHECKS_WANTED: [(&str, f64); 3] = [("linked-points", 1.3), ("pairs", 2.5), ("sharing", 4.0)];

/// How much faster our check is to be than rkyv's serialization and check.
const FASTER_WANTED: f64 = 3.0;

/// Each step is taken as often as this a round.
const TIMES_A_ROUND: u32 = 5;

/// Takes all shapes, sizes and formats.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let drawn = bench.folder.join("objects.svg");
    let mut run = Command::new("taskset");
    run.args(["--cpu-list", "1"]).arg(bench.workspace.release_program("objects"));
    run.args(["--rounds", &(TIMES_A_ROUND * bench.rounds).to_string(), "--svg"]).arg(&drawn);
    println!("$ {}", command::line(&run));
    let printed = command::output(&mut run)?;
    let reports = printed
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("objects printed {line}")));
    let reports: Vec<Value> = reports.collect::<Result<_>>()?;
    for logarithm in TABLES {
        table(&reports, logarithm);
    }
    steps(&reports);
    goals(&reports);
    println!("\ndrawn: {}", drawn.display());
    Ok(json!(reports))
}

fn table(reports: &[Value], logarithm: u64) {
    println!(
        "\n2^{logarithm} elements, nanoseconds an element; the last column is what sending takes in all"
    );
    println!(
        "{:<15}{:<16}{:>9}{:>9}{:>9}{:>9}{:>10}{:>12}",
        "shape", "format", "build", "send", "receive", "use", "bytes", "send, us"
    );
    let of_size = |report: &&Value| report["logarithm"] == logarithm;
    for report in reports.iter().filter(of_size) {
        let count = (1_u64 << logarithm) as f64;
        let step = |step: &str| {
            let ns = report["ns"][step].as_f64();
            ns.map_or_else(|| format!("{:>9}", "-"), |ns| format!("{:>9.2}", ns / count))
        };
        let (shape, format) = (text(report, "shape"), text(report, "format"));
        let bytes = report["bytes"].as_f64().unwrap_or(0.0) / count;
        let send = report["ns"]["send"].as_f64().unwrap_or(0.0) / 1e3;
        println!(
            "{shape:<15}{format:<16}{}{}{}{}{bytes:>10.2}{send:>12.2}",
            step("build"),
            step("send"),
            step("receive"),
            step("use")
        );
    }
}

/// As Naos's table 3: what each step takes of 8,192 floats, 1,024 points and 1,024 pairs, with percentiles, and bytes beside the payload.
fn steps(reports: &[Value]) {
    const ROWS: [(&str, u64, f64); 3] =
        [("floats", 13, 4.0), ("linked-points", 10, 16.0), ("pairs", 10, 9.0)];
    println!(
        "\nmicroseconds a step, median and 5th to 95th percentile, and bytes on the wire by payload"
    );
    println!(
        "{:<15}{:<16}{:>22}{:>22}{:>22}{:>22}{:>7}",
        "shape", "format", "build", "send", "receive", "use", "bytes"
    );
    for (shape, logarithm, payload) in ROWS {
        let is_row = |report: &&Value| report["shape"] == shape && report["logarithm"] == logarithm;
        for report in reports.iter().filter(is_row) {
            let step = |at: usize, step: &str| {
                let us = |value: &Value| value.as_f64().map(|ns| ns / 1e3);
                let [low, high] = ["p5_ns", "p95_ns"].map(|key| us(&report[key][at]));
                match (us(&report["ns"][step]), low, high) {
                    (Some(median), Some(low), Some(high)) => {
                        format!("{median:.2} ({low:.2} to {high:.2})")
                    }
                    _ => "-".to_owned(),
                }
            };
            let bytes = report["bytes"].as_f64().unwrap_or(0.0);
            println!(
                "{shape:<15}{:<16}{:>22}{:>22}{:>22}{:>22}{:>7.2}",
                text(report, "format"),
                step(0, "build"),
                step(1, "send"),
                step(2, "receive"),
                step(3, "use"),
                bytes / (payload * (1_u64 << logarithm) as f64)
            );
        }
    }
}

fn goals(reports: &[Value]) {
    println!("\nat 2^17 elements");
    for (shape, wanted) in CHECKS_WANTED {
        let step = |format: &str, step: &str| {
            let found = reports.iter().find(|report| {
                report["logarithm"] == 17 && report["shape"] == shape && report["format"] == format
            });
            Some(found?["ns"][step].as_f64()? / f64::from(1 << 17))
        };
        let ours = step("weft", "receive");
        let theirs = step("rkyv", "send").zip(step("rkyv", "receive"));
        let build = step("weft", "build").zip(step("rkyv", "build"));
        let (Some(ours), Some((send, receive)), Some((build, heap))) = (ours, theirs, build) else {
            continue;
        };
        println!("{shape:<15}check {ours:.2} ns an element (at most {wanted} wanted)");
        println!(
            "{:<15}rkyv's serialization and check take {:.2} as long (at least {FASTER_WANTED} wanted)",
            "",
            (send + receive) / ours
        );
        println!(
            "{:<15}built in {:.2} of the time that boxes and vectors take (at most 1 wanted)",
            "",
            build / heap
        );
    }
}

fn text<'a>(report: &'a Value, key: &str) -> &'a str {
    report[key].as_str().unwrap_or_default()
}
