//! Two gigabytes of records, sorted by two workers that have a gibibyte of memory each, and by Spark with as much.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::bench::series::{Better, Series};
use crate::{command, setup};

const WORKERS: &str = "2";
const RECORDS: u64 = 20_000_000;
const MEMORY: &str = "1GiB";
/// What both workers have together.
const SPARK_MEMORY: &str = "2g";

/// Our seconds and Spark's, as a ratio, that is wanted at most.
const RATIO_WANTED: f64 = 0.2;

/// Sorts the same records with both, in turns, and looks whether they are sorted.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let spark = match setup::for_spark(bench.workspace) {
        Ok(libraries) => Some(libraries),
        Err(error) => {
            println!("going on without Spark: {error:#}");
            None
        }
    };
    let records = records(bench)?;
    let unsorted = validate(bench, &records)?;
    let mut series = Series::new(Better::Lower, None);
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        let output = bench.folder.join("sorted");
        let ours = timed(bench, &unsorted, &output, ours(bench, &records, &output))?;
        let mut peer = Value::Null;
        if let Some(libraries) = &spark {
            let sorting = by_spark(libraries, &records, &output);
            peer = timed(bench, &unsorted, &output, sorting)?;
            series.push(seconds(&ours)?, seconds(&peer)?);
        }
        reports.push(json!({"shuffle": ours, "spark": peer}));
    }
    println!("\n{}", series.line("sort, 2 GB", "s", Some(RATIO_WANTED)));
    Ok(json!({"seconds": series.json(), "reports": reports}))
}

/// The records, made once.
fn records(bench: &Bench<'_>) -> Result<PathBuf> {
    let path = bench.folder.join(format!("terasort-{RECORDS}"));
    if !path.exists() {
        let mut generate = Command::new(bench.workspace.release_program("shuffle"));
        generate.args(["generate", "terasort", "--records", &RECORDS.to_string(), "--output"]);
        command::run(generate.arg(&path))?;
    }
    Ok(path)
}

fn ours(bench: &Bench<'_>, records: &Path, output: &Path) -> Command {
    let mut sort = Command::new(bench.workspace.release_program("shuffle"));
    sort.args(["sort", "--json", "--workers", WORKERS, "--memory", MEMORY]);
    sort.arg("--input").arg(records).arg("--output").arg(output);
    sort
}

fn by_spark(libraries: &Path, records: &Path, output: &Path) -> Command {
    let mut sort = Command::new("python3");
    sort.args(["-B", "bench/spark/sort.py"]).arg(records).arg(output);
    sort.args([WORKERS, SPARK_MEMORY]).env("PYTHONPATH", libraries);
    sort
}

/// What a sort reports, if what it has written is what there was, in order.
fn timed(bench: &Bench<'_>, unsorted: &Value, output: &Path, mut sort: Command) -> Result<Value> {
    println!("$ {}", command::line(&sort));
    let printed = command::output(&mut sort)?;
    let report = serde_json::from_str(&printed).with_context(|| format!("it printed {printed}"))?;
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

fn seconds(report: &Value) -> Result<f64> {
    report["seconds"].as_f64().context("a report without seconds")
}
