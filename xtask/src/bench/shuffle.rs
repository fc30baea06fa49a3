//! The shuffle's jobs, each beside what people would use in its place.

mod messages;
mod pagerank;
mod sort;
mod wordcount;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use super::series::{Better, Series};
use crate::workspace::Workspace;
use crate::{command, setup};

const WORKERS: &str = "2";

/// One job after the other.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let spark = Spark::find(bench.workspace);
    Ok(json!({
        "pagerank": pagerank::run(bench, spark.as_ref())?,
        "messages": messages::run(bench)?,
        "wordcount": wordcount::run(bench, spark.as_ref())?,
        "sort": sort::run(bench, spark.as_ref())?,
    }))
}

/// Where Spark's libraries are.
struct Spark(PathBuf);

impl Spark {
    /// Nothing where it cannot be had: the figures beside it are then not there.
    fn find(workspace: &Workspace) -> Option<Spark> {
        let libraries = setup::for_spark(workspace);
        libraries.map(Spark).inspect_err(|error| println!("going on without Spark: {error:#}")).ok()
    }

    /// One of the programs in `bench/spark`, with two cores and as much memory, on files.
    fn program(&self, name: &str, memory: &str, files: &[&Path]) -> Command {
        let mut program = Command::new("python3");
        program.args(["-B", &format!("bench/spark/{name}.py")]).args(files);
        program.args([WORKERS, memory]).env("PYTHONPATH", &self.0);
        program
    }
}

/// An input of the benchmarks in `bench.folder`, which `shuffle generate` makes once.
fn input(bench: &Bench<'_>, name: &str, arguments: &[&str]) -> Result<PathBuf> {
    let path = bench.folder.join(name);
    if !path.exists() {
        let mut generate = Command::new(bench.workspace.release_program("shuffle"));
        generate.arg("generate").args(arguments);
        command::run(generate.arg("--output").arg(&path))?;
    }
    Ok(path)
}

/// A program of this workspace with its arguments, on an input.
fn program(bench: &Bench<'_>, name: &str, arguments: &[&str], input: &Path) -> Command {
    let mut program = Command::new(bench.workspace.release_program(name));
    program.args(arguments).arg("--input").arg(input);
    program
}

/// The object that a program prints.
fn report(mut program: Command) -> Result<Value> {
    println!("$ {}", command::line(&program));
    let printed = command::output(&mut program)?;
    serde_json::from_str(&printed).with_context(|| format!("it printed {printed}"))
}

/// A figure of a report.
fn figure(report: &Value, name: &str) -> Result<f64> {
    report[name].as_f64().with_context(|| format!("a report without {name}"))
}

/// The rounds of a figure of time.
fn seconds() -> Series {
    Series::new(Better::Lower, None)
}
