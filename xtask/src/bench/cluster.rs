//! Clusters of real processes: what is felt of nodes that are killed, stopped and started again, and what replicas and disks cost.
//!
//! The nodes and who asks them share the machine's processors.

mod costs;
mod events;

use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::Bench;
use crate::command;

/// How nodes are killed, unless something else is said.
const KILLS: u32 = 20;

/// Times that whole clusters are stopped in each way at most: each takes half a minute.
const RESTARTS_MAX: u32 = 3;

/// What of the suite `cluster` is run, and of how much.
#[derive(Args)]
pub(super) struct ClusterOptions {
    /// Only this part of the suite `cluster`; may be given several times.
    #[arg(long = "part", value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// Objects that the clusters of the suite `cluster` hold, of 100 bytes.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u32,
    /// How often the suite `cluster` kills a node.
    #[arg(long, default_value_t = KILLS)]
    kills: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Nodes that are killed, one after the other.
    Failover,
    /// A node that is stopped for longer than its leases last, and goes on.
    Stopped,
    /// The node that leads the coordinators is killed.
    Coordinator,
    /// Puts with one, two and three replicas, and reads.
    Writes,
    /// Puts of each durability.
    Durability,
    /// All nodes stop, or are killed, and start again.
    Restart,
}

/// A line of the table.
struct Row {
    what: String,
    figure: String,
    /// What is wanted, and whether it is so.
    wanted: Option<(String, bool)>,
}

/// Runs the parts, and prints one table of all of them.
pub(super) fn run(bench: &Bench<'_>, options: &ClusterOptions) -> Result<Value> {
    let mut figures = Map::new();
    let mut rows = Vec::new();
    for part in Part::value_variants() {
        if !options.parts.is_empty() && !options.parts.contains(part) {
            continue;
        }
        let report = part.report(bench, options)?;
        rows.extend(part.rows(&report)?);
        figures.insert(part.name(), report);
    }
    println!();
    rows.iter().for_each(Row::print);
    Ok(figures.into())
}

impl Part {
    fn name(self) -> String {
        self.to_possible_value().expect("no part is hidden").get_name().to_owned()
    }

    fn report(self, bench: &Bench<'_>, options: &ClusterOptions) -> Result<Value> {
        let mut run = Command::new(bench.workspace.release_program("cluster"));
        run.arg(self.name()).arg("--folder").arg(bench.folder.join("nodes"));
        run.args(["--keys", &options.keys.to_string()]);
        let rounds = match self {
            Self::Failover => ["--kills".to_owned(), options.kills.to_string()],
            Self::Coordinator => ["--kills".to_owned(), bench.rounds.to_string()],
            Self::Restart => ["--rounds".to_owned(), bench.rounds.min(RESTARTS_MAX).to_string()],
            Self::Stopped | Self::Writes | Self::Durability => {
                ["--rounds".to_owned(), bench.rounds.to_string()]
            }
        };
        run.args(rounds);
        println!("$ {}", command::line(&run));
        let printed = command::output(&mut run)?;
        serde_json::from_str(&printed).with_context(|| format!("cluster printed {printed}"))
    }

    fn rows(self, report: &Value) -> Result<Vec<Row>> {
        match self {
            Self::Failover => events::failover(report),
            Self::Stopped => events::stopped(report),
            Self::Coordinator => events::coordinator(report),
            Self::Writes => costs::writes(report),
            Self::Durability => costs::durability(report),
            Self::Restart => events::restart(report),
        }
    }
}

impl Row {
    fn new(what: impl Into<String>, figure: String) -> Row {
        Row { what: what.into(), figure, wanted: None }
    }

    fn wanted(self, wanted: impl Into<String>, is_so: bool) -> Row {
        Row { wanted: Some((wanted.into(), is_so)), ..self }
    }

    fn print(&self) {
        let Row { what, figure, wanted } = self;
        let wanted = match wanted {
            None => String::new(),
            Some((wanted, true)) => format!("   {wanted} wanted"),
            Some((wanted, false)) => format!("   {wanted} wanted: MISSED"),
        };
        println!("{what:<58} {figure}{wanted}");
    }
}

/// The number at `pointer`.
fn number(report: &Value, pointer: &str) -> Result<f64> {
    let found = report.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("the report has no number {pointer}: {report}"))
}

/// The list at `pointer`.
fn list<'v>(report: &'v Value, pointer: &str) -> Result<&'v [Value]> {
    let found = report.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice);
    found.with_context(|| format!("the report has no list {pointer}: {report}"))
}
