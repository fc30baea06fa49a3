//! The transport beside bare TCP and bare rings: round trips, one-way messages, bytes; then what `netbench`
//! measures in rounds of its own.
//!
//! `netbench` pins server and client to a core each and measures the machine's limit in the same run,
//! so a round here is one invocation of it for every case.

mod own_rounds;

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Bench;
use super::machine::Baseline;
use super::series::{Better, Series, median};
use crate::command;

/// One figure of the transport, and what it is held against.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    figure: Figure,
    /// The ratio to the machine's limit that is wanted.
    wanted: Option<f64>,
    /// Figures that are wanted by themselves, whatever the machine.
    absolute: &'static [Absolute],
    /// What the bare socket reaches on a quiet machine; bare rings were not measured on all.
    raw_baseline: Option<fn(&Baseline) -> f64>,
}

/// A figure that is wanted by itself.
struct Absolute {
    /// Of netbench's report.
    member: &'static str,
    unit: &'static str,
    scale: f64,
    wanted: f64,
    better: Better,
}

/// Microseconds at most.
const fn micros(member: &'static str, wanted: f64) -> Absolute {
    Absolute { member, unit: "us", scale: 1.0, wanted, better: Better::Lower }
}

/// Millions of messages a second at least.
const fn messages(wanted: f64) -> Absolute {
    let member = "messages_per_second";
    Absolute { member, unit: "M/s", scale: 1e6, wanted, better: Better::Higher }
}

/// Which member of netbench's report a case reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    MedianMicros,
    Messages,
    Bytes,
}

const CASES: &[Case] = &[
    Case {
        name: "round trip, park",
        args: &["latency", "--poll", "park"],
        figure: Figure::MedianMicros,
        wanted: Some(1.1),
        absolute: &[],
        raw_baseline: Some(|baseline| baseline.tcp_blocking_us),
    },
    Case {
        name: "round trip, adaptive",
        args: &["latency", "--poll", "adaptive"],
        figure: Figure::MedianMicros,
        wanted: Some(1.1),
        absolute: &[],
        raw_baseline: Some(|baseline| baseline.tcp_blocking_us),
    },
    Case {
        name: "round trip, busy",
        args: &["latency", "--poll", "busy"],
        figure: Figure::MedianMicros,
        wanted: Some(1.25),
        absolute: &[],
        raw_baseline: Some(|baseline| baseline.tcp_busy_us),
    },
    Case {
        name: "round trip, shm, busy",
        args: &["latency", "--poll", "busy", "--link", "shm"],
        figure: Figure::MedianMicros,
        wanted: None,
        absolute: &[micros("p50_us", 0.6), micros("p99_us", 2.0)],
        raw_baseline: None,
    },
    Case {
        name: "messages, 1 sender",
        args: &["rate"],
        figure: Figure::Messages,
        wanted: Some(0.4),
        absolute: &[messages(25.0)],
        raw_baseline: Some(|baseline| baseline.tcp_messages),
    },
    Case {
        name: "messages, 16 to 4",
        args: &["rate", "--senders", "16", "--handlers", "4"],
        figure: Figure::Messages,
        wanted: None,
        absolute: &[messages(20.0)],
        raw_baseline: Some(|baseline| baseline.tcp_messages),
    },
    Case {
        name: "messages, shm",
        args: &["rate", "--link", "shm"],
        figure: Figure::Messages,
        wanted: None,
        absolute: &[messages(30.0)],
        raw_baseline: None,
    },
    Case {
        name: "bytes, 1 MiB messages",
        args: &["bandwidth", "--size", "1048576"],
        figure: Figure::Bytes,
        wanted: Some(0.85),
        absolute: &[],
        raw_baseline: Some(|baseline| baseline.tcp_bytes),
    },
    Case {
        name: "bytes, streamed bodies",
        args: &["bandwidth", "--body", "1073741824"],
        figure: Figure::Bytes,
        wanted: None,
        absolute: &[],
        raw_baseline: Some(|baseline| baseline.tcp_bytes),
    },
    Case {
        name: "bytes, bodies, shm",
        args: &["bandwidth", "--body", "1073741824", "--link", "shm"],
        figure: Figure::Bytes,
        wanted: None,
        absolute: &[],
        raw_baseline: None,
    },
    Case {
        name: "bytes, 1 MiB, shm",
        args: &["bandwidth", "--size", "1048576", "--link", "shm"],
        figure: Figure::Bytes,
        wanted: Some(0.85),
        absolute: &[],
        raw_baseline: None,
    },
];

/// The figures of one case over all rounds.
struct Outcome {
    series: Series,
    reports: Vec<Value>,
}

/// Runs every case once a round.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let baseline = bench.machine.baseline();
    let mut outcomes: Vec<Outcome> = CASES
        .iter()
        .map(|case| Outcome {
            series: Series::new(
                case.figure.better(),
                baseline
                    .zip(case.raw_baseline)
                    .map(|(known, raw)| raw(known) / case.figure.scale()),
            ),
            reports: Vec::new(),
        })
        .collect();
    for _ in bench.each_round() {
        for (case, outcome) in CASES.iter().zip(&mut outcomes) {
            // On a machine that is busy elsewhere netbench may have nothing to report.
            match netbench(bench, case) {
                Ok(report) => outcome.push(case.figure, report)?,
                Err(error) => println!("{error:#}; this round does not count"),
            }
        }
    }

    let mut figures = Map::new();
    println!();
    for (case, outcome) in CASES.iter().zip(outcomes) {
        println!("{}", outcome.series.line(case.name, case.figure.unit(), case.wanted));
        for absolute in case.absolute {
            println!("    {}", outcome.line(absolute));
        }
        let mut figure = outcome.series.json();
        let sides = [("weft", ""), ("raw", "/raw"), ("machine", "/machine")];
        for (side, place) in sides {
            if let Some((longest, count)) = outcome.gaps(place) {
                println!("    {side}: longest gap {longest:.0} us, {count:.1} over 1 ms a second");
                figure["gaps"][side] = json!({"longest_us": longest, "over_1ms_a_second": count});
            }
        }
        figure["reports"] = outcome.reports.into();
        figures.insert(case.name.to_owned(), figure);
    }
    own_rounds::run(bench, &mut figures)?;
    Ok(figures.into())
}

fn netbench(bench: &Bench<'_>, case: &Case) -> Result<Value> {
    let cpus = ["--runs", "1", "--server-cpu", "0", "--client-cpu", "1"];
    report(bench, case.args.iter().chain(&cpus).map(|argument| (*argument).to_owned()))
}

/// What netbench says, told so.
fn report(bench: &Bench<'_>, arguments: impl Iterator<Item = String>) -> Result<Value> {
    let mut netbench = Command::new(bench.workspace.release_program("netbench"));
    println!("$ {}", command::line(netbench.args(arguments).arg("--json")));
    let printed = command::output(&mut netbench)?;
    serde_json::from_str(&printed)
        .with_context(|| format!("`netbench --json` printed something else: {printed}"))
}

impl Outcome {
    /// What is wanted of a figure by itself, and its median.
    fn line(&self, absolute: &Absolute) -> String {
        let Absolute { member, unit, scale, wanted, better } = absolute;
        let values = self.reports.iter().filter_map(|report| report[member].as_f64());
        let median = median(values).unwrap_or(f64::NAN) / scale;
        let sign = if *better == Better::Higher { "at least" } else { "at most" };
        format!("{}: {median:.2} {unit} ({sign} {wanted} wanted)", member.replace('_', " "))
    }

    /// Medians of the longest gap, in microseconds, and of the gaps over 1 ms a second, of the side
    /// at `place` in netbench's reports.
    fn gaps(&self, place: &str) -> Option<(f64, f64)> {
        let median_of = |member: &str| {
            let values = self.reports.iter().map(|report| report.pointer(place)?[member].as_f64());
            median(values.flatten())
        };
        Some((median_of("longest_gap_us")?, median_of("gaps_over_1ms_per_second")?))
    }

    fn push(&mut self, figure: Figure, report: Value) -> Result<()> {
        let read = |side: &Value| {
            let value = side[figure.member()].as_f64();
            value.map(|value| value / figure.scale()).context("netbench reported no figure")
        };
        self.series.push(read(&report)?, read(&report["raw"])?);
        self.reports.push(report);
        Ok(())
    }
}

impl Figure {
    fn member(self) -> &'static str {
        match self {
            Figure::MedianMicros => "p50_us",
            Figure::Messages => "messages_per_second",
            Figure::Bytes => "bytes_per_second",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Figure::MedianMicros => "us",
            Figure::Messages => "M/s",
            Figure::Bytes => "GB/s",
        }
    }

    fn scale(self) -> f64 {
        match self {
            Figure::MedianMicros => 1.0,
            Figure::Messages => 1e6,
            Figure::Bytes => 1e9,
        }
    }

    fn better(self) -> Better {
        match self {
            Figure::MedianMicros => Better::Lower,
            Figure::Messages | Figure::Bytes => Better::Higher,
        }
    }
}
