//! Shows the whole of it on one machine: a cluster, a value there and back, a load beside redis, and a
//! graph that is ranked.

mod ranking;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{self, run as run_command};
use crate::playground::{Playground, Setting};
use crate::redis::Redis;
use crate::setup;
use crate::stages::Stages;
use crate::workspace::Workspace;
use crate::ycsb::{Mode, Report, Target, Ycsb, report_path};

const NODES: u32 = 3;
const REQUESTERS: u32 = 16;
const RECORDS: u32 = 100_000;
const OPERATIONS: u32 = 400_000;

/// One line of the summary.
struct Row {
    target: &'static str,
    mode: &'static str,
    report: Report,
}

/// Runs the demonstration; whatever it starts is stopped, also when it fails.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("setup", || setup::for_demo(workspace))?;
    stages.run("build", || run_command(Command::new("cargo").args(["build", "--release"])))?;

    let folder = workspace.target().join("demo");
    fs::create_dir_all(&folder)?;
    let playground = stages.run("cluster", || {
        let started =
            Playground::start(workspace, NODES, &folder.join("playground"), Setting::default())?;
        for node in started.nodes() {
            println!("node {} at {}, process {}", node.id, node.address, node.pid);
        }
        Ok(started)
    })?;
    stages.run("put and get", || put_and_get(&playground))?;

    let mut rows = Vec::new();
    let weft = Target::Weft { cluster: playground.cluster().to_owned() };
    stages.run("ycsb b, weft", || drive(workspace, &weft, &folder, &mut rows))?;
    drop(playground);
    if let Some(redis) = Redis::start(&folder.join("redis"), None)? {
        let target = Target::Redis { port: redis.port() };
        stages.run("ycsb b, redis", || drive(workspace, &target, &folder, &mut rows))?;
    }
    let ranks = stages.run("pagerank", || ranking::run(workspace, &folder))?;

    println!("\n{}", stages.table());
    println!("YCSB B (95 % reads, 5 % updates, zipfian), {RECORDS} records of 1 KB,");
    println!("{REQUESTERS} concurrent requests; weft has {NODES} nodes, redis is one process.\n");
    print!("{}", summary(&rows));
    print!("\n{ranks}");
    println!("\nreports and ranks: {}", folder.display());
    Ok(())
}

fn put_and_get(playground: &Playground) -> Result<()> {
    const VALUE: &str = "carried by the weft";
    run_command(playground.kv().args(["put", "greeting", VALUE]))?;
    let mut get = playground.kv();
    get.args(["get", "greeting"]);
    println!("$ {}", command::line(&get));
    let value = command::output(&mut get)?;
    println!("{value}");
    if value.trim_end() != VALUE {
        bail!("`{}` returned {value:?}, and {VALUE:?} was put", command::line(&get));
    }
    Ok(())
}

fn drive(workspace: &Workspace, target: &Target, folder: &Path, rows: &mut Vec<Row>) -> Result<()> {
    Ycsb::load(workspace, None)
        .target(target, Mode::Async, REQUESTERS)
        .workload("workloadb")
        .property("recordcount", RECORDS)
        .report(&report_path(folder, target, Mode::Async, "load"))?;
    for mode in Mode::ALL {
        let report = Ycsb::run(workspace, None)
            .target(target, mode, REQUESTERS)
            .workload("workloadb")
            .property("recordcount", RECORDS)
            .property("operationcount", OPERATIONS)
            .report(&report_path(folder, target, mode, "run"))?;
        if report.errors() > 0 {
            bail!("{} of {OPERATIONS} operations on {} failed", report.errors(), target.name());
        }
        rows.push(Row { target: target.name(), mode: mode.name(), report });
    }
    Ok(())
}

fn summary(rows: &[Row]) -> String {
    let mut table = format!(
        "{:<16} {:>9}  {:>26}  {:>26}  {:>15}\n{:<16} {:>9}  {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8}  {:>7} {:>7}\n",
        "",
        "",
        "read us",
        "update us",
        "CPU s / M ops",
        "",
        "ops/s",
        "p50",
        "p95",
        "p99",
        "p50",
        "p95",
        "p99",
        "driver",
        "server"
    );
    for Row { target, mode, report } in rows {
        let throughput = report.throughput().map_or("-".to_owned(), |ops| format!("{ops:.0}"));
        table += &format!("{:<16} {throughput:>9}", format!("{target} {mode}"));
        for operation in ["READ", "UPDATE"] {
            table += " ";
            for figure in ["p50_us", "p95_us", "p99_us"] {
                table += &format!(" {:>8}", cell(report.figure(operation, figure), 0));
            }
        }
        let [driver, server] = ["driver", "server"].map(|side| report.cpu_seconds_a_million(side));
        table += &format!("  {:>7} {:>7}\n", cell(driver, 2), cell(server, 2));
    }
    table
}

fn cell(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.decimals$}"))
}
