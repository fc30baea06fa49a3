//! The lines of upstream's report, and the three forms it has for them.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::{Report, thousandths};
use crate::measurement::{Latencies, Series, Status};

/// One line of a report.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    metric: String,
    measurement: String,
    value: Value,
}

fn line(metric: &str, measurement: impl Into<String>, value: impl Into<Value>) -> Line {
    Line { metric: metric.to_owned(), measurement: measurement.into(), value: value.into() }
}

impl Report<'_> {
    /// Upstream's lines, with what it does not tell (how it ran, and at what price) between those
    /// of the whole run and those of its operations.
    pub(super) fn lines(&self, percentiles: &[f64]) -> Vec<Line> {
        let mut lines = vec![
            line("OVERALL", "RunTime(ms)", self.runtime_ms()),
            line("OVERALL", "Throughput(ops/sec)", thousandths(self.throughput())),
            line("CONFIG", "Target", self.target),
            line("CONFIG", "Workload", self.workload),
            line("CONFIG", "Mode", self.mode),
        ];
        lines.extend(self.link.map(|link| line("CONFIG", "Link", link)));
        lines.push(line("CONFIG", "Update", self.update));
        let mut cpu = |who: &str, seconds: Option<f64>| {
            let per_million = seconds.map(|seconds| self.a_million_operations(seconds));
            let (seconds, per_million) = (seconds.map(thousandths), per_million.map(thousandths));
            lines.push(line("CPU", format!("{who}(s)"), seconds));
            lines.push(line("CPU", format!("{who}(s/million ops)"), per_million));
        };
        cpu("Driver", Some(self.outcome.cpu.driver));
        cpu("Server", self.outcome.cpu.server.as_ref().ok().copied());
        for series in self.outcome.measurements.series() {
            push_series(&series, percentiles, &mut lines);
        }
        lines
    }
}

fn push_series(series: &Series<'_>, percentiles: &[f64], lines: &mut Vec<Line>) {
    let Series { name, latencies, returned } = series;
    lines.push(line(name, "Operations", latencies.count()));
    if latencies.count() > 0 {
        push_latencies(name, latencies, percentiles, lines);
    }
    let Some(metric) = returned else { return };
    for status in Status::ALL {
        if metric.returned(status) > 0 {
            let measurement = format!("Return={}", status.name());
            lines.push(line(name, measurement, metric.returned(status)));
        }
    }
}

fn push_latencies(name: &str, latencies: &Latencies, percentiles: &[f64], lines: &mut Vec<Line>) {
    lines.push(line(name, "AverageLatency(us)", thousandths(latencies.mean_us())));
    lines.push(line(name, "MinLatency(us)", latencies.min_us() as u64));
    lines.push(line(name, "MaxLatency(us)", latencies.max_us() as u64));
    for &percentile in percentiles {
        let measurement = format!("{}PercentileLatency(us)", ordinal(percentile));
        lines.push(line(name, measurement, latencies.percentile_us(percentile) as u64));
    }
}

/// `1st`, `2nd`, `11th`, and, as upstream, plain `99.9`.
fn ordinal(number: f64) -> String {
    if number.fract() != 0.0 {
        return number.to_string();
    }
    let number = number as u64;
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

pub(super) fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { metric, measurement, value } in lines {
        let value = match value {
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        let _ = writeln!(text, "[{metric}], {measurement}, {value}");
    }
    text
}

pub(super) fn json_lines(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{}", to_json(line));
    }
    text
}

pub(super) fn json_array(lines: &[Line]) -> String {
    to_json(lines) + "\n"
}

fn to_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("texts and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_upstreams() {
        let ordinals = [1.0, 2.0, 3.0, 11.0, 50.0, 63.0, 95.0, 99.0, 99.9, 99.99].map(ordinal);
        assert_eq!(
            ordinals,
            ["1st", "2nd", "3rd", "11th", "50th", "63rd", "95th", "99th", "99.9", "99.99"]
        );
    }
}
