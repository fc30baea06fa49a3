//! What a run came to, as upstream prints it (`[METRIC], measurement, value`) or as JSON.

mod json;
mod lines;

use std::io::{self, Write};

use crate::runner::Outcome;
use crate::settings::ReportSettings;

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Upstream's `TextMeasurementsExporter`.
    Text,
    /// Upstream's `JSONMeasurementsExporter`: an object a line of the text.
    JsonLines,
    /// Upstream's `JSONArrayMeasurementsExporter`: the same objects as one array.
    JsonArray,
    /// One object, `--json`.
    Json,
}

/// What was run, and what it came to.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) target: &'a str,
    /// The names of the workload's files.
    pub(crate) workload: &'a str,
    pub(crate) mode: &'a str,
    /// What the connections ran over, if there were any.
    pub(crate) link: Option<&'a str>,
    /// How an update is done.
    pub(crate) update: &'a str,
    pub(crate) outcome: &'a Outcome,
}

impl Report<'_> {
    /// Writes it to `out`.
    pub(crate) fn write(&self, settings: &ReportSettings, out: &mut dyn Write) -> io::Result<()> {
        let lines = || self.lines(&settings.percentiles);
        let text = match settings.format {
            Format::Text => lines::text(&lines()),
            Format::JsonLines => lines::json_lines(&lines()),
            Format::JsonArray => lines::json_array(&lines()),
            Format::Json => json::object(self),
        };
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn throughput(&self) -> f64 {
        let seconds = self.outcome.runtime.as_secs_f64();
        if seconds > 0.0 { self.outcome.measurements.operations as f64 / seconds } else { 0.0 }
    }

    fn runtime_ms(&self) -> u64 {
        self.outcome.runtime.as_millis() as u64
    }

    /// `cpu_seconds` for a million operations.
    fn a_million_operations(&self, cpu_seconds: f64) -> f64 {
        cpu_seconds * 1e6 / self.outcome.measurements.operations.max(1) as f64
    }
}

/// Times and rates are not known to more than three decimals.
fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests;
