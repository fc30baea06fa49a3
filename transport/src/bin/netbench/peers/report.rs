//! What is printed of others' messaging: everybody's figures in one table.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::plan::PeersPlan;
use super::program::Missing;
use super::{FIGURES, Figure, Series};
use crate::report::rounded;
use crate::table::{median, table};

pub(super) struct Report<'a> {
    pub(super) plan: &'a PeersPlan,
    pub(super) series: &'a [Series],
    pub(super) missing: &'a [Missing],
}

impl Figure {
    fn member(self) -> &'static str {
        match self {
            Figure::RoundTrip => "round_trip_us",
            Figure::Messages => "messages_per_second",
            Figure::Bytes => "bytes_per_second",
        }
    }

    fn cell(self, value: f64) -> String {
        match self {
            Figure::RoundTrip => format!("{value:.2}"),
            Figure::Messages => format!("{:.2}", value / 1e6),
            Figure::Bytes => format!("{:.2}", value / 1e9),
        }
    }
}

impl Series {
    fn median(&self, figure: Figure) -> Option<f64> {
        let values: Vec<f64> =
            self.runs.iter().filter_map(|run| *run.clone().figure(figure)).collect();
        (!values.is_empty()).then(|| median(values))
    }

    fn json(&self) -> Value {
        let mut object = json!({ "method": self.name, "failure": self.failure });
        for figure in FIGURES {
            object[figure.member()] = self.median(figure).map_or(Value::Null, rounded);
        }
        object
    }
}

impl Report<'_> {
    pub(super) fn text(&self) -> String {
        let PeersPlan { links, size, large_size, poll, placement, window, runs, .. } = self.plan;
        let mut text = format!(
            "peers over {}: {size} B, bytes in {large_size} B; weft polls {poll}; {placement}; median of \
             {runs} runs of {} s",
            links.kind.name(),
            window.as_secs_f64(),
        );
        let row = |series: &Series| {
            let cell = |figure: Figure| {
                series.median(figure).map_or("-".to_owned(), |value| figure.cell(value))
            };
            std::iter::once(series.name.clone()).chain(FIGURES.map(cell)).collect()
        };
        let rows: Vec<Vec<String>> = self.series.iter().map(row).collect();
        text += &table(&["", "round trip us", "M messages/s", "GB/s"], &rows);
        for Series { name, failure, .. } in self.series {
            if let Some(failure) = failure {
                let _ = write!(text, "\n{name} failed: {failure}");
            }
        }
        for missing in self.missing {
            let _ = write!(text, "\n{} is not installed: {}", missing.program, missing.command());
        }
        text
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(super) fn json(&self) -> String {
        let plan = self.plan;
        let missing = self
            .missing
            .iter()
            .map(|missing| json!({ "program": missing.program, "install": missing.command() }));
        json!({
            "benchmark": "peers",
            "link": plan.links.kind.name(),
            "size": plan.size,
            "large_size": plan.large_size,
            "poll": plan.poll.to_string(),
            "seconds": plan.window.as_secs_f64(),
            "runs": plan.runs,
            "server_cpu": plan.placement.server().map(|cpu| cpu.0),
            "client_cpu": plan.placement.client().map(|cpu| cpu.0),
            "methods": self.series.iter().map(Series::json).collect::<Vec<_>>(),
            "missing": missing.collect::<Vec<_>>(),
        })
        .to_string()
    }
}
