//! Concurrent requests for small records, beside redis, both driven by the same code.
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

/// The part of what redis reached async at which processor time is compared.
const PACE: f64 = 0.5;

/// What is asked of both, once they hold `records` of it.
struct Case {
    name: &'static str,
    workload: &'static str,
    records: u64,
    fields: u32,
    field_bytes: u32,
    /// What the workload file does not say.
    properties: &'static [(&'static str, &'static str)],
    /// In turn, each with the operations of a round, some three seconds at the speed of the slower side, and the ratio to redis
    /// that is wanted.
    modes: [(Mode, u64, f64); 2],
    /// Whether processor time at one pace is compared too.
    compares_cpu: bool,
}

/// Nothing but reads, of keys that lie anywhere.
const READS: &[(&str, &str)] =
    &[("requestdistribution", "uniform"), ("readproportion", "1"), ("updateproportion", "0")];

const CASES: [Case; 3] = [
    Case {
        name: "reads of 32 B",
        workload: "workloadc",
        records: 1_000_000,
        fields: 1,
        field_bytes: 32,
        properties: READS,
        modes: [(Mode::Blocking, 400_000, 1.5), (Mode::Async, 3_000_000, 3.0)],
        compares_cpu: true,
    },
    Case {
        name: "reads of 1 KiB",
        workload: "workloadc",
        records: 200_000,
        fields: 1,
        field_bytes: 1024,
        properties: READS,
        modes: [(Mode::Blocking, 300_000, 2.0), (Mode::Async, 2_000_000, 2.0)],
        compares_cpu: false,
    },
    Case {
        name: "YCSB A, 10 of 100 B",
        workload: "workloada",
        records: 200_000,
        fields: 10,
        field_bytes: 100,
        properties: &[],
        modes: [(Mode::Blocking, 200_000, 1.3), (Mode::Async, 600_000, 2.5)],
        compares_cpu: false,
    },
];

/// One case after the other, each with stores of its own that are loaded once and asked in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut figures = Map::new();
    let mut lines = String::new();
    for case in &CASES {
        figures.insert(case.name.into(), case.run(bench, &mut lines)?);
    }
    print!("\n{lines}");
    Ok(figures.into())
}

/// Weft, and redis beside it.
struct Pair {
    ours: Target,
    peer: Target,
}

impl Case {
    fn run(&self, bench: &Bench<'_>, lines: &mut String) -> Result<Value> {
        let folder = bench.folder.join("playground");
        let playground = Playground::start(bench.workspace, 1, &folder, SERVER_CPU, None)?;
        let redis = Redis::start(&bench.folder.join("redis"), SERVER_CPU)?
            .context("the search path has no redis-server: run `cargo xtask setup`")?;
        let pair = Pair {
            ours: Target::Weft { cluster: playground.cluster().to_owned() },
            peer: Target::Redis { port: redis.port() },
        };
        for target in [&pair.ours, &pair.peer] {
            let load = Ycsb::load(bench.workspace, DRIVER_CPU);
            let load = self.shape(load.target(target, Mode::Async, REQUESTERS));
            load.report(&report_path(&bench.folder, target, Mode::Async, &self.report("load")))?;
        }
        let mut figures = Map::new();
        for (mode, operations, wanted) in self.modes {
            let mut series = Series::new(Better::Higher, self.baseline(bench, mode));
            let mut reports = Vec::new();
            for round in bench.each_round() {
                let asked = |target| self.ask(bench, target, mode, operations, round, None);
                let (ours, peer) = (asked(&pair.ours)?, asked(&pair.peer)?);
                series.push(ours.throughput()? / 1e6, peer.throughput()? / 1e6);
                reports.push(json!({"weft": ours.json(), "redis": peer.json()}));
            }
            let name = format!("{}, {}", self.name, mode.name());
            *lines += &format!("{}\n", series.line(&name, "Mops/s", Some(wanted)));
            if let (Mode::Async, true, Some(summary)) = (mode, self.compares_cpu, series.summary())
            {
                let pace = (PACE * summary.peer * 1e6) as u32;
                figures.insert("cpu_s_a_million".into(), self.spend(bench, &pair, pace, lines)?);
            }
            figures.insert(mode.name().into(), json!({"mops": series.json(), "reports": reports}));
        }
        Ok(figures.into())
    }

    /// The processor time of both sides at `pace` operations a second, for two seconds a round.
    fn spend(
        &self,
        bench: &Bench<'_>,
        pair: &Pair,
        pace: u32,
        lines: &mut String,
    ) -> Result<Value> {
        let mut series = Series::new(Better::Lower, None);
        for round in bench.each_round() {
            let spent = |target| -> Result<f64> {
                let operations = u64::from(pace) * 2;
                let report = self.ask(bench, target, Mode::Async, operations, round, Some(pace))?;
                let of = |side| report.cpu_seconds_a_million(side);
                let both = of("driver").zip(of("server")).map(|(driver, server)| driver + server);
                both.context("the report has no processor time of both sides")
            };
            series.push(spent(&pair.ours)?, spent(&pair.peer)?);
        }
        let name = format!("{}, async, {:.2} Mops/s", self.name, f64::from(pace) / 1e6);
        *lines += &format!("{}\n", series.line(&name, "CPU s a million", Some(1.0)));
        Ok(json!({"pace": pace, "sides": series.json()}))
    }

    /// What the report of `what` is called.
    fn report(&self, what: &str) -> String {
        format!("{}-{}B-{what}", self.workload, self.fields * self.field_bytes)
    }

    /// What redis reaches where nothing else runs, of the case of which that is known.
    fn baseline(&self, bench: &Bench<'_>, mode: Mode) -> Option<f64> {
        let baseline = bench.machine.baseline().filter(|_| self.field_bytes == 32)?;
        let ops = match mode {
            Mode::Blocking => baseline.redis_blocking,
            Mode::Async => baseline.redis_async,
        };
        Some(ops / 1e6)
    }

    /// Has `target` asked for so much, at `pace` operations a second or as fast as it goes.
    fn ask(
        &self,
        bench: &Bench<'_>,
        target: &Target,
        mode: Mode,
        operations: u64,
        round: u32,
        pace: Option<u32>,
    ) -> Result<Report> {
        let what = if pace.is_some() { "paced" } else { "run" };
        let name = self.report(&format!("{what}-{round}"));
        let mut run = Ycsb::run(bench.workspace, DRIVER_CPU).target(target, mode, REQUESTERS);
        if let Some(pace) = pace {
            run = run.rate(pace);
        }
        let run = self.shape(run).property("operationcount", operations);
        let report = run.report(&report_path(&bench.folder, target, mode, &name))?;
        if report.errors() > 0 {
            bail!("{} operations of {} failed", report.errors(), target.name());
        }
        Ok(report)
    }

    /// Keys of 16 B, in an order that says nothing of their hash.
    fn shape(&self, ycsb: Ycsb) -> Ycsb {
        let ycsb = ycsb
            .workload(self.workload)
            .property("recordcount", self.records)
            .property("fieldcount", self.fields)
            .property("fieldlength", self.field_bytes)
            .property("insertorder", "ordered")
            .property("zeropadding", 12);
        self.properties.iter().fold(ycsb, |ycsb, (name, value)| ycsb.property(name, value))
    }
}
