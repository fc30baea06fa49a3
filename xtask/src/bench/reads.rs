//! Reads that ycsb does not ask for: many keys at a time, one requester alone, and values of 64 KiB, beside bare TCP.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Bench;
use super::series::{Better, Series, median};
use crate::command;
use crate::playground::{Playground, Setting};

const SERVER_CPU: Option<u32> = Some(0);
const DRIVER_CPU: Option<u32> = Some(1);

/// What the node may take: room for the larger of the two sets of [`LARGE`] values, and for what is on its way.
const MEMORY: &str = "7GiB";

const SMALL_KEYS: u64 = 1_000_000;
/// Millions of keys a second that multi-gets are wanted to bring.
const MULTI_GET_WANTED: f64 = 6.0;

const LARGE: u64 = 64 << 10;

/// One of the figures that have a bare socket beside them.
struct Case {
    name: &'static str,
    unit: &'static str,
    better: Better,
    wanted: f64,
    /// How `object_reads` is asked, and which member of its report counts, in how many of [`unit`](Self::unit).
    arguments: Vec<String>,
    ours: (&'static str, f64),
    /// How netbench is asked, and where the bare socket's figure is in its report.
    netbench: &'static [&'static str],
    raw: (&'static str, f64),
}

/// Loads one node anew for each kind of object, and reads.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut figures = Map::new();
    let mut lines = String::new();

    let node = Node::start(bench)?;
    node.load(SMALL_KEYS, 32)?;
    let keys = format!("--keys={SMALL_KEYS}");
    let mut rates = Vec::new();
    for _ in bench.each_round() {
        let report = node.read(&[keys.clone(), "--batch=64".into(), "--concurrency=8".into()])?;
        rates.push(figure(&report, "/keys_a_second")? / 1e6);
    }
    let rate = median(rates.iter().copied()).context("no round was run")?;
    lines += &format!(
        "multi-get of 64          {rate:>9.3} M keys/s (at least {MULTI_GET_WANTED} wanted)\n"
    );
    figures.insert("multi_get_mkeys".into(), json!({"median": rate, "rounds": rates}));
    let alone = Case {
        name: "one requester, p50",
        unit: "us",
        better: Better::Lower,
        wanted: 1.15,
        arguments: vec![keys.clone(), "--poll=busy".into()],
        ours: ("/p50_us", 1.0),
        netbench: &["latency", "--poll", "busy"],
        raw: ("/raw/p50_us", 1.0),
    };
    alone.measure(bench, &node, &mut lines, &mut figures)?;
    let by_itself = Case {
        name: "the same, link auto",
        arguments: vec![keys, "--poll=busy".into(), "--link=auto".into()],
        ..alone
    };
    by_itself.measure(bench, &node, &mut lines, &mut figures)?;
    drop(node);

    for (name, keys, wanted) in [("64 KiB, of 4 MiB", 64, 0.8), ("64 KiB, of 4 GiB", 64 << 10, 0.6)]
    {
        let node = Node::start(bench)?;
        node.load(keys, LARGE)?;
        let case = Case {
            name,
            unit: "GB/s",
            better: Better::Higher,
            wanted,
            arguments: vec![
                format!("--keys={keys}"),
                format!("--value-size={LARGE}"),
                "--concurrency=16".into(),
            ],
            ours: ("/bytes_a_second", 1e9),
            netbench: &["bandwidth"],
            raw: ("/raw/bytes_per_second", 1e9),
        };
        case.measure(bench, &node, &mut lines, &mut figures)?;
        let counters = node.playground.counters()?;
        let (sent, copied) = (counters.of("values.gathered")?, counters.of("values.copied")?);
        lines += &format!(
            "    {sent} values sent from where they lay, {copied} copied in the node (none wanted)\n"
        );
        figures[name]["values"] = json!({"sent_from_the_log": sent, "copied": copied});
    }
    print!("\n{lines}");
    Ok(figures.into())
}

impl Case {
    /// Ours and the bare socket's, in turns.
    fn measure(
        &self,
        bench: &Bench<'_>,
        node: &Node<'_>,
        lines: &mut String,
        figures: &mut Map<String, Value>,
    ) -> Result<()> {
        let mut series = Series::new(self.better, None);
        for _ in bench.each_round() {
            let ours = figure(&node.read(&self.arguments)?, self.ours.0)? / self.ours.1;
            let mut netbench = Command::new(bench.workspace.release_program("netbench"));
            netbench.args(self.netbench).args(["--runs", "1", "--json"]);
            let raw = figure(&printed_by(&mut netbench)?, self.raw.0)? / self.raw.1;
            series.push(ours, raw);
        }
        *lines += &series.line(self.name, self.unit, Some(self.wanted));
        lines.push('\n');
        figures.insert(self.name.into(), series.json());
        Ok(())
    }
}

/// A node, and who reads from it.
struct Node<'a> {
    bench: &'a Bench<'a>,
    playground: Playground,
}

impl<'a> Node<'a> {
    fn start(bench: &'a Bench<'a>) -> Result<Self> {
        let folder = bench.folder.join("playground");
        let setting = Setting { cpu: SERVER_CPU, memory: Some(MEMORY), ..Setting::default() };
        let playground = Playground::start(bench.workspace, 1, &folder, setting)?;
        Ok(Self { bench, playground })
    }

    fn load(&self, keys: u64, value_bytes: u64) -> Result<()> {
        let arguments =
            [format!("--keys={keys}"), format!("--value-size={value_bytes}"), "--load".into()];
        self.read(&arguments).map(drop)
    }

    fn read(&self, arguments: &[String]) -> Result<Value> {
        let program = self.bench.workspace.release_program("object_reads");
        let mut reads = command::on_cpu(&program, DRIVER_CPU);
        printed_by(reads.args(["--cluster", self.playground.cluster()]).args(arguments))
    }
}

fn printed_by(program: &mut Command) -> Result<Value> {
    println!("$ {}", command::line(program));
    let printed = command::output(program)?;
    serde_json::from_str(&printed).with_context(|| format!("this is no report: {printed}"))
}

fn figure(report: &Value, pointer: &str) -> Result<f64> {
    let figure = report.pointer(pointer).and_then(Value::as_f64);
    figure.with_context(|| format!("a report has no {pointer}: {report}"))
}
