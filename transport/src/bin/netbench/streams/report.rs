//! What `netbench streams` prints: mean and standard deviation of each method, side by side.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::plan::StreamsPlan;
use super::{Case, Method, Series};
use crate::apart::Distances;

pub(super) struct Report<'a> {
    plan: &'a StreamsPlan,
    methods: &'a [Method],
    lines: &'a [(Case, Vec<Series>)],
    distances: &'a Distances,
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(series: &[f64]) -> Self {
        let count = series.len() as f64;
        let mean = series.iter().sum::<f64>() / count;
        let squares: f64 = series.iter().map(|value| (value - mean).powi(2)).sum();
        // Of a sample; a single run has none.
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        Self { mean, deviation }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(
        plan: &'a StreamsPlan,
        methods: &'a [Method],
        lines: &'a [(Case, Vec<Series>)],
        distances: &'a Distances,
    ) -> Self {
        Self { plan, methods, lines, distances }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "streams: poll {}; {}; mean and standard deviation of {} runs of {} s, a tenth of that before each",
            self.plan.poll,
            self.plan.placement,
            self.plan.runs,
            self.plan.window.as_secs_f64(),
        );
        let mut flush = None;
        for (case, series) in self.lines {
            if flush != Some(case.flush) {
                flush = Some(case.flush);
                let _ = match case.flush {
                    None => write!(text, "\n\nround trips, p50 us\n"),
                    Some(flush) => write!(text, "\n\n{flush} messages a write, M messages/s\n"),
                };
                let _ = write!(text, "{:>8}{:>6}", "bytes", "conns");
                for method in self.methods {
                    let _ = write!(text, "{:>20}", method.name());
                }
            }
            let _ = write!(text, "\n{:>8}{:>6}", case.size, case.connections);
            let scale = if case.flush.is_some() { 1e6 } else { 1.0 };
            for series in series {
                let Spread { mean, deviation } = Spread::of(series);
                let (mean, deviation) = (mean / scale, deviation / scale);
                // As wide as a busy machine makes them.
                let cell = match mean.max(deviation) {
                    long if long >= 1e4 => format!("{mean:.0} ± {deviation:.0}"),
                    _ => format!("{mean:.3} ± {deviation:.3}"),
                };
                let _ = write!(text, "{cell:>20}");
            }
        }
        self.distances.add_line(&mut text);
        text
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(super) fn json(&self) -> String {
        let cases: Vec<Value> =
            self.lines.iter().map(|(case, series)| object(case, self.methods, series)).collect();
        json!({
            "benchmark": "streams",
            "poll": self.plan.poll.to_string(),
            "seconds": self.plan.window.as_secs_f64(),
            "runs": self.plan.runs,
            "server_cpu": self.plan.placement.server().map(|cpu| cpu.0),
            "client_cpu": self.plan.placement.client().map(|cpu| cpu.0),
            "apart": self.distances.json(),
            "cases": cases,
        })
        .to_string()
    }
}

fn object(case: &Case, methods: &[Method], series: &[Series]) -> Value {
    let figure = if case.flush.is_some() { "messages_per_second" } else { "p50_us" };
    let methods: Map<String, Value> = methods
        .iter()
        .zip(series)
        .map(|(method, series)| {
            let Spread { mean, deviation } = Spread::of(series);
            let value =
                json!({ "mean": mean, "standard_deviation": deviation, "each_run": series });
            (method.name().to_owned(), value)
        })
        .collect();
    json!({
        "size": case.size,
        "connections": case.connections,
        "flush": case.flush,
        "figure": figure,
        "methods": methods,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(spread.mean, 5.0);
        assert!((spread.deviation - 2.138).abs() < 0.001);
        assert_eq!(Spread::of(&[3.0]), Spread { mean: 3.0, deviation: 0.0 });
    }
}
