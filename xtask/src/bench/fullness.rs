//! How much of a node's store may be live while all of it is overwritten, by the node's memory and the lengths of values.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use crate::command;

const MEMORY: [&str; 4] = ["64MiB", "128MiB", "256MiB", "512MiB"];

/// Lengths of values, in bytes: one, or drawn between two.
const LENS: [&str; 9] = [
    "700-1300",
    "4000",
    "16384",
    "1000-64000",
    "12000-40000",
    "20000-40000",
    "33000",
    "70000-130000",
    "1000-120000",
];

/// In percent of what the index leaves to the log.
const WANTED: u64 = 90;

/// Overwrites each data set as often as there are rounds, which hardly matters: what is refused is refused in the first.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut reports = Vec::new();
    for memory in MEMORY {
        let mut run = Command::new(bench.workspace.release_program("fullness"));
        run.args(["--memory", memory, "--rounds", &bench.rounds.to_string(), "--lens"]);
        run.args(LENS);
        println!("$ {}", command::line(&run));
        let printed = command::output(&mut run)?;
        for line in printed.lines() {
            let report: Value =
                serde_json::from_str(line).with_context(|| format!("fullness printed {line}"))?;
            reports.push(report);
        }
    }
    println!(
        "\npercent of what the index leaves to the log that may be live (at least {WANTED} wanted)"
    );
    let head: String = MEMORY.iter().map(|memory| format!("{memory:>9}")).collect();
    println!("{:<16}{head}", "bytes of values");
    for (row, lens) in LENS.iter().enumerate() {
        let percents = reports.iter().skip(row).step_by(LENS.len());
        let line: String =
            percents.map(|report| format!("{:>9}", report["percent"].to_string())).collect();
        println!("{lens:<16}{line}");
    }
    Ok(json!(reports))
}
