//! The report as one JSON object, whose shape scripts rely on (docs/cli.md).

use serde::{Serialize, Serializer};

use super::{Report, thousandths};
use crate::measurement::{Interval, Measurements, Metric, Status};

#[derive(Serialize)]
struct Object<'a> {
    target: &'a str,
    workload: &'a str,
    mode: &'a str,
    /// Null if there was none.
    link: Option<&'a str>,
    overall: Overall,
    cpu_seconds: Cpu,
    operations: Operations<'a>,
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

/// An object by the names of the operations that occurred.
struct Operations<'a>(&'a Measurements);

impl Serialize for Operations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let operations = self.0.metrics();
        serializer.collect_map(
            operations.map(|(operation, metric)| {
                (operation.name(), Operation::new(metric, self.0.interval))
            }),
        )
    }
}

/// Latencies are those of the operations that succeeded, and null if none did.
#[derive(Serialize)]
struct Operation {
    count: u64,
    ok: u64,
    errors: u64,
    avg_us: Option<f64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
}

impl Operation {
    fn new(metric: &Metric, interval: Interval) -> Operation {
        // With both intervals measured, this is the one from when an operation began.
        let latencies = match interval {
            Interval::Operation | Interval::Both => &metric.ok,
            Interval::Intended => &metric.ok_intended,
        };
        let known = |us| (latencies.count() > 0).then(|| thousandths(us));
        let percentile = |percent| known(latencies.percentile_us(percent));
        Operation {
            count: metric.count(),
            ok: metric.returned(Status::Ok),
            errors: metric.errors(),
            avg_us: known(latencies.mean_us()),
            p50_us: percentile(50.0),
            p95_us: percentile(95.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            max_us: known(latencies.max_us()),
        }
    }
}

pub(super) fn object(report: &Report<'_>) -> String {
    let object = Object {
        target: report.target,
        workload: report.workload,
        mode: report.mode,
        link: report.link,
        overall: Overall {
            runtime_ms: report.runtime_ms(),
            throughput_ops_s: thousandths(report.throughput()),
        },
        cpu_seconds: Cpu {
            driver: thousandths(report.outcome.cpu.driver),
            server: report.outcome.cpu.server.as_ref().ok().copied().map(thousandths),
        },
        operations: Operations(&report.outcome.measurements),
    };
    serde_json::to_string_pretty(&object).expect("texts and numbers are JSON") + "\n"
}
