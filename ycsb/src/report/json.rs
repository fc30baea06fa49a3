//! The report as one JSON object, whose shape scripts rely on (docs/cli.md).

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Report, thousandths};
use crate::measurement::{Interval, Measurements, Metric, Status};

#[derive(Serialize)]
struct Object<'a> {
    target: &'a str,
    workload: &'a str,
    mode: &'a str,
    overall: Overall,
    cpu_seconds: Cpu,
    /// By the names of the operations that occurred.
    operations: Map<String, Value>,
}

#[derive(Serialize)]
struct Overall {
    runtime_ms: u64,
    throughput_ops_s: f64,
}

#[derive(Serialize)]
struct Cpu {
    driver: f64,
    /// Null if it is not known.
    server: Option<f64>,
}

/// Latencies are those of the operations that succeeded.
#[derive(Serialize)]
struct Operation {
    count: u64,
    ok: u64,
    errors: u64,
    avg_us: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

pub(super) fn object(report: &Report<'_>) -> String {
    let object = Object {
        target: report.target,
        workload: report.workload,
        mode: report.mode,
        overall: Overall {
            runtime_ms: report.runtime_ms(),
            throughput_ops_s: thousandths(report.throughput()),
        },
        cpu_seconds: Cpu {
            driver: thousandths(report.outcome.cpu.driver),
            server: report.outcome.cpu.server.as_ref().ok().copied().map(thousandths),
        },
        operations: operations(&report.outcome.measurements),
    };
    serde_json::to_string_pretty(&object).expect("texts and numbers are JSON") + "\n"
}

fn operations(measurements: &Measurements) -> Map<String, Value> {
    let operation = |metric: &Metric| {
        // With both intervals measured, this is the one from when an operation began.
        let latencies = match measurements.interval {
            Interval::Operation | Interval::Both => &metric.ok,
            Interval::Intended => &metric.ok_intended,
        };
        let percentile = |percent| thousandths(latencies.percentile_us(percent));
        let operation = Operation {
            count: metric.count(),
            ok: metric.returned(Status::Ok),
            errors: metric.errors(),
            avg_us: thousandths(latencies.mean_us()),
            p50_us: percentile(50.0),
            p95_us: percentile(95.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            max_us: thousandths(latencies.max_us()),
        };
        serde_json::to_value(operation).expect("numbers are JSON")
    };
    let occurred = measurements.metrics();
    occurred.map(|(kind, metric)| (kind.name().to_owned(), operation(metric))).collect()
}
