//! Small reads under concurrency, beside redis, both driven by the same code.
//!
//! The server has one core and the driver the other, so that neither gains by taking more.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::Bench;
use super::series::{Better, Series};
use crate::playground::Playground;
use crate::redis::Redis;
use crate::ycsb::{Mode, Report, Target, Ycsb, report_path};

const SERVER_CPU: Option<u32> = Some(0);
const DRIVER_CPU: Option<u32> = Some(1);
const REQUESTERS: u32 = 100;
const KEYS: u64 = 1_000_000;

/// The reads of one round: about three seconds at the speed of the slower side.
fn operations(mode: Mode) -> u64 {
    match mode {
        Mode::Blocking => 400_000,
        Mode::Async => 3_000_000,
    }
}

/// The ratio to redis that each mode is held against.
fn wanted(mode: Mode) -> f64 {
    match mode {
        Mode::Blocking => 1.5,
        Mode::Async => 3.0,
    }
}

/// Loads both stores once, then reads from them in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let playground =
        Playground::start(bench.workspace, 1, &bench.folder.join("playground"), SERVER_CPU, None)?;
    let redis = Redis::start(&bench.folder.join("redis"), SERVER_CPU)?
        .context("the search path has no redis-server: run `cargo xtask setup`")?;
    let weft = Target::Weft { cluster: playground.cluster().to_owned() };
    let peer = Target::Redis { port: redis.port() };
    for target in [&weft, &peer] {
        shape(Ycsb::load(bench.workspace, DRIVER_CPU).target(target, Mode::Async, REQUESTERS))
            .report(&report_path(&bench.folder, target, Mode::Async, "load"))?;
    }

    let mut figures = Map::new();
    let mut lines = String::new();
    for mode in Mode::ALL {
        let baseline = bench.machine.baseline().map(|baseline| match mode {
            Mode::Blocking => baseline.redis_blocking,
            Mode::Async => baseline.redis_async,
        });
        let mut series = Series::new(Better::Higher, baseline.map(|ops| ops / 1e6));
        let mut reports = Vec::new();
        for round in bench.each_round() {
            let ours = read(bench, &weft, mode, round)?;
            let theirs = read(bench, &peer, mode, round)?;
            series.push(ours.throughput()? / 1e6, theirs.throughput()? / 1e6);
            reports.push(json!({"weft": ours.json(), "redis": theirs.json()}));
        }
        lines += &series.line(&format!("reads, {}", mode.name()), "Mops/s", Some(wanted(mode)));
        lines.push('\n');
        figures.insert(mode.name().into(), json!({"mops": series.json(), "reports": reports}));
    }
    print!("\n{lines}");
    Ok(figures.into())
}

fn read(bench: &Bench<'_>, target: &Target, mode: Mode, round: u32) -> Result<Report> {
    let name = format!("run-{round}");
    let run = Ycsb::run(bench.workspace, DRIVER_CPU).target(target, mode, REQUESTERS);
    let report = shape(run).property("operationcount", operations(mode)).report(&report_path(
        &bench.folder,
        target,
        mode,
        &name,
    ))?;
    if report.errors() > 0 {
        bail!("{} reads of {} failed", report.errors(), target.name());
    }
    Ok(report)
}

/// Keys of 16 B, one field of 32 B, nothing but uniform reads.
fn shape(ycsb: Ycsb) -> Ycsb {
    ycsb.workload("workloadc")
        .property("recordcount", KEYS)
        .property("fieldcount", 1)
        .property("fieldlength", 32)
        .property("insertorder", "ordered")
        .property("zeropadding", 12)
        .property("requestdistribution", "uniform")
        .property("readproportion", 1)
        .property("updateproportion", 0)
}
