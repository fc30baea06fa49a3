//! Two gigabytes of records, sorted by two workers that have a gibibyte of memory each, and by Spark with as much.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Spark, WORKERS, figure, input, program, report, seconds};
use crate::bench::Bench;

const RECORDS: &str = "20000000";
const MEMORY: &str = "1GiB";
/// What both workers have together.
const SPARK_MEMORY: &str = "2g";

/// Our seconds and Spark's, as a ratio, that is wanted at most.
const RATIO_WANTED: f64 = 0.2;

/// Sorts the same records with both, in turns, and looks whether they are sorted.
pub(super) fn run(bench: &Bench<'_>, spark: Option<&Spark>) -> Result<Value> {
    let name = format!("terasort-{RECORDS}");
    let records = input(bench, &name, &["terasort", "--records", RECORDS])?;
    let unsorted = validate(bench, &records)?;
    let mut series = seconds();
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        let output = bench.folder.join("sorted");
        let arguments = ["sort", "--json", "--workers", WORKERS, "--memory", MEMORY];
        let mut sort = program(bench, "shuffle", &arguments, &records);
        sort.arg("--output").arg(&output);
        let ours = timed(bench, &unsorted, &output, sort)?;
        let mut peer = Value::Null;
        if let Some(spark) = spark {
            let sort = spark.program("sort", SPARK_MEMORY, &[&records, &output]);
            peer = timed(bench, &unsorted, &output, sort)?;
            series.push(figure(&ours, "seconds")?, figure(&peer, "seconds")?);
        }
        reports.push(json!({"shuffle": ours, "spark": peer}));
    }
    println!("\n2 GB of records, sorted by two workers");
    println!("{}", series.line("Spark", "s", Some(RATIO_WANTED)));
    Ok(json!({"seconds": series.json(), "reports": reports}))
}

/// What a sort reports, if what it has written is what there was, in order.
fn timed(bench: &Bench<'_>, unsorted: &Value, output: &Path, sort: Command) -> Result<Value> {
    let report = report(sort)?;
    let sorted = validate(bench, output)?;
    fs::remove_dir_all(output)?;
    ensure!(sorted["unordered"] == 0, "it is not sorted: {sorted}");
    for what in ["records", "checksum"] {
        ensure!(sorted[what] == unsorted[what], "{unsorted} was sorted, and {sorted} came out");
    }
    Ok(report)
}

/// What `shuffle validate` says, in order or not.
fn validate(bench: &Bench<'_>, path: &Path) -> Result<Value> {
    let mut validate = Command::new(bench.workspace.release_program("shuffle"));
    let output = validate.args(["validate", "--json"]).arg(path).output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
