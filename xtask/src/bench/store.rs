//! Concurrent requests for small records, beside redis, both driven by the same code.
//!
//! The server has one core and the driver the other, so that neither gains by taking more.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::Bench;
use super::series::{Better, Series};
use crate::playground::{Playground, Setting};
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
    /// Whether what a client on the same host does by itself, and processor time at one pace, are compared too.
    in_depth: bool,
}

/// One run of what a case asks.
#[derive(Clone, Copy)]
struct Asked {
    /// What its report is called, before the round.
    name: &'static str,
    mode: Mode,
    operations: u64,
    /// Operations a second, where it is not to be as fast as it goes.
    pace: Option<u32>,
}

/// Weft, and redis beside it.
struct Pair {
    ours: Target,
    peer: Target,
}

/// What Weft's client is told: to take the link that it takes by itself on the same host.
const BY_ITSELF: Option<(&str, &str)> = Some(("weft.link", "auto"));
/// The same: to sleep while there is nothing to do.
const PARKING: Option<(&str, &str)> = Some(("weft.poll", "park"));

const SPINNING_NODE: Setting<'_> =
    Setting { cpu: SERVER_CPU, memory: None, poll: None, replicas: None };
const PARKING_NODE: Setting<'_> = Setting { poll: Some("park"), ..SPINNING_NODE };

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
        in_depth: true,
    },
    Case {
        name: "reads of 1 KiB",
        workload: "workloadc",
        records: 200_000,
        fields: 1,
        field_bytes: 1024,
        properties: READS,
        modes: [(Mode::Blocking, 300_000, 2.0), (Mode::Async, 2_000_000, 2.0)],
        in_depth: false,
    },
    Case {
        name: "YCSB A, 10 of 100 B",
        workload: "workloada",
        records: 200_000,
        fields: 10,
        field_bytes: 100,
        properties: &[],
        modes: [(Mode::Blocking, 200_000, 1.3), (Mode::Async, 600_000, 2.5)],
        in_depth: false,
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

impl Case {
    fn run(&self, bench: &Bench<'_>, lines: &mut String) -> Result<Value> {
        let server = Redis::start(&bench.folder.join("redis"), SERVER_CPU)?
            .context("the search path has no redis-server: run `cargo xtask setup`")?;
        let redis = Target::Redis { port: server.port() };
        let socket = server.socket().to_string_lossy();
        self.load(bench, &redis)?;
        let mut figures = Map::new();
        let mut half_of_redis = None;
        self.beside(bench, SPINNING_NODE, &redis, |pair| {
            for (mode, operations, wanted) in self.modes {
                let asked = Asked { name: "run", mode, operations, pace: None };
                let peer_mops =
                    self.compare(bench, pair, (asked, wanted, &socket), &mut figures, lines)?;
                half_of_redis = peer_mops.map(|mops| (PACE * mops * 1e6) as u32);
            }
            let Some(pace) = half_of_redis.filter(|_| self.in_depth) else { return Ok(()) };
            let spent = self.spend(bench, pair, ("paced", pace), None, lines)?;
            figures.insert("cpu_s_a_million".into(), spent);
            Ok(())
        })?;
        if let Some(pace) = half_of_redis.filter(|_| self.in_depth) {
            self.beside(bench, PARKING_NODE, &redis, |pair| {
                let spent = self.spend(bench, pair, ("parked", pace), PARKING, lines)?;
                figures.insert("cpu_s_a_million_parked".into(), spent);
                Ok(())
            })?;
        }
        Ok(figures.into())
    }

    /// Does `measure` with a node that is as `setting` says and holds what is asked for, beside `redis`, which does too.
    fn beside(
        &self,
        bench: &Bench<'_>,
        setting: Setting<'_>,
        redis: &Target,
        measure: impl FnOnce(&Pair) -> Result<()>,
    ) -> Result<()> {
        let folder = bench.folder.join("playground");
        let playground = Playground::start(bench.workspace, 1, &folder, setting)?;
        let ours = Target::Weft { cluster: playground.cluster().to_owned() };
        self.load(bench, &ours)?;
        measure(&Pair { ours, peer: redis.clone() })
    }

    fn load(&self, bench: &Bench<'_>, target: &Target) -> Result<()> {
        let load = Ycsb::load(bench.workspace, DRIVER_CPU).target(target, Mode::Async, REQUESTERS);
        let path = report_path(&bench.folder, target, Mode::Async, &self.report("load"));
        self.shape(load).report(&path).map(drop)
    }

    /// Asks both over TCP, as fast as it goes, in turns; where it is looked at in depth, also each over what is fastest on the same
    /// host: the link that Weft's client takes by itself, and the Unix `socket` of redis.
    /// Returns what redis reached, in millions of operations a second.
    fn compare(
        &self,
        bench: &Bench<'_>,
        pair: &Pair,
        (asked, wanted, socket): (Asked, f64, &str),
        figures: &mut Map<String, Value>,
        lines: &mut String,
    ) -> Result<Option<f64>> {
        let mode = asked.mode;
        let new_series = || Series::new(Better::Higher, self.baseline(bench, mode));
        let (mut over_tcp, mut on_one_host) = (new_series(), Series::new(Better::Higher, None));
        let mut reports = Vec::new();
        for round in bench.each_round() {
            let ours = self.ask(bench, &pair.ours, asked, round, None)?;
            let peer = self.ask(bench, &pair.peer, asked, round, None)?;
            over_tcp.push(ours.throughput()? / 1e6, peer.throughput()? / 1e6);
            reports.push(json!({"weft": ours.json(), "redis": peer.json()}));
            if self.in_depth {
                let asked = Asked { name: "one-host", ..asked };
                let ours = self.ask(bench, &pair.ours, asked, round, BY_ITSELF)?;
                let peer =
                    self.ask(bench, &pair.peer, asked, round, Some(("redis.socket", socket)))?;
                on_one_host.push(ours.throughput()? / 1e6, peer.throughput()? / 1e6);
            }
        }
        let name = format!("{}, {}", self.name, mode.name());
        *lines += &format!("{}\n", over_tcp.line(&name, "Mops/s", Some(wanted)));
        figures.insert(
            mode.name().into(),
            json!({"mops": over_tcp.json(), "mops_on_one_host": on_one_host.json(), "reports": reports}),
        );
        if self.in_depth {
            let name = format!("{name}, on one host");
            *lines += &format!("{}\n", on_one_host.line(&name, "Mops/s", None));
        }
        Ok(over_tcp.summary().map(|summary| summary.peer))
    }

    /// The processor time of both sides at `pace` operations a second, for two seconds a round.
    fn spend(
        &self,
        bench: &Bench<'_>,
        pair: &Pair,
        (name, pace): (&'static str, u32),
        property: Option<(&str, &str)>,
        lines: &mut String,
    ) -> Result<Value> {
        let (mut spent, mut waited) =
            (Series::new(Better::Lower, None), Series::new(Better::Lower, None));
        let operations = u64::from(pace) * 2;
        let asked = Asked { name, mode: Mode::Async, operations, pace: Some(pace) };
        for round in bench.each_round() {
            let ask = |target, property| self.ask(bench, target, asked, round, property);
            let reports = [ask(&pair.ours, property)?, ask(&pair.peer, None)?];
            let [ours, peer] = reports.each_ref().map(|report| {
                let of = |side| report.cpu_seconds_a_million(side);
                let both = of("driver").zip(of("server")).map(|(driver, server)| driver + server);
                both.context("the report has no processor time of both sides")
            });
            spent.push(ours?, peer?);
            let [ours, peer] = reports.each_ref().map(|report| {
                report.figure("READ", "p50_us").context("the report has no latency of reads")
            });
            waited.push(ours?, peer?);
        }
        let name = format!("{}, async, {name}, {:.2} Mops/s", self.name, f64::from(pace) / 1e6);
        *lines += &format!("{}\n", spent.line(&name, "CPU s a million", Some(1.0)));
        *lines += &format!("{}\n", waited.line(&format!("{name}, p50"), "us", None));
        Ok(json!({"pace": pace, "sides": spent.json(), "p50_us": waited.json()}))
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

    /// Has `target` asked, with one more `property` if it is given.
    fn ask(
        &self,
        bench: &Bench<'_>,
        target: &Target,
        asked: Asked,
        round: u32,
        property: Option<(&str, &str)>,
    ) -> Result<Report> {
        let Asked { name, mode, operations, pace } = asked;
        let path =
            report_path(&bench.folder, target, mode, &self.report(&format!("{name}-{round}")));
        let mut run = Ycsb::run(bench.workspace, DRIVER_CPU).target(target, mode, REQUESTERS);
        if let Some((name, value)) = property {
            run = run.property(name, value);
        }
        if let Some(pace) = pace {
            run = run.rate(pace);
        }
        let report = self.shape(run).property("operationcount", operations).report(&path)?;
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
