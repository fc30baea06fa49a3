//! What `netbench buffers` prints: medians side by side, ratios to the raw link, and from which size on
//! registered buffers beat copies.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::levels::Level;
use super::plan::BuffersPlan;
use super::{Figure, Line, METHODS, Method};
use crate::apart::Distances;
use crate::table::{median, table};

pub(super) struct Report<'a> {
    plan: &'a BuffersPlan,
    lines: &'a [Line],
    distances: &'a Distances,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Figure::RoundTripMicros => "round_trip_us",
            Figure::BytesPerSecond => "bytes_per_second",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Figure::RoundTripMicros => "round trip, p50 us",
            Figure::BytesPerSecond => "bandwidth, MB/s",
        }
    }

    fn scale(self) -> f64 {
        match self {
            Figure::RoundTripMicros => 1.0,
            Figure::BytesPerSecond => 1e6,
        }
    }

    /// Whether `one` is no worse than `other`.
    fn is_as_good(self, one: f64, other: f64) -> bool {
        match self {
            Figure::RoundTripMicros => one <= other,
            Figure::BytesPerSecond => one >= other,
        }
    }
}

impl Line {
    fn median(&self, method: Method) -> f64 {
        let at = METHODS.iter().position(|known| *known == method).expect("all are in the list");
        median(self.series[at].iter().copied())
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &'a BuffersPlan, lines: &'a [Line], distances: &'a Distances) -> Self {
        Self { plan, lines, distances }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "buffers: link {}; poll {}; {}; medians of {} runs of {} s; in brackets the ratio to raw",
            self.plan.links.kind.name(),
            self.plan.poll,
            self.plan.placement,
            self.plan.runs,
            self.plan.window.as_secs_f64(),
        );
        for figure in [Figure::RoundTripMicros, Figure::BytesPerSecond] {
            let _ = write!(text, "\n\n{}", figure.title());
            let mut header = vec!["bytes"];
            header.extend(METHODS.map(Method::name));
            let rows: Vec<Vec<String>> = self.of(figure).map(row).collect();
            text.push_str(&table(&header, &rows));
            for level in [Level::Posted, Level::Anew] {
                let _ = match self.beats_from(figure, level) {
                    Some(size) => {
                        write!(text, "\n{} beats copying from {size} bytes on", level.name())
                    }
                    None => write!(text, "\n{} does not beat copying", level.name()),
                };
            }
        }
        self.distances.add_line(&mut text);
        text
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(super) fn json(&self) -> String {
        let lines: Vec<Value> = self.lines.iter().map(object).collect();
        let beats = |level| {
            let of =
                |figure: Figure| (figure.name().to_owned(), json!(self.beats_from(figure, level)));
            Value::Object(Map::from_iter([of(Figure::RoundTripMicros), of(Figure::BytesPerSecond)]))
        };
        json!({
            "benchmark": "buffers",
            "link": self.plan.links.kind.name(),
            "poll": self.plan.poll.to_string(),
            "seconds": self.plan.window.as_secs_f64(),
            "runs": self.plan.runs,
            "server_cpu": self.plan.placement.server().map(|cpu| cpu.0),
            "client_cpu": self.plan.placement.client().map(|cpu| cpu.0),
            "apart": self.distances.json(),
            "sizes": lines,
            "posted_beats_copying_from": beats(Level::Posted),
            "registered_anew_beats_copying_from": beats(Level::Anew),
        })
        .to_string()
    }

    fn of(&self, figure: Figure) -> impl DoubleEndedIterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.figure == figure)
    }

    /// The size from which on `level` is no worse than copying, by the medians of all sizes from there.
    fn beats_from(&self, figure: Figure, level: Level) -> Option<usize> {
        let is_as_good = |line: &&Line| {
            let copying = line.median(Method::Weft(Level::Copying));
            figure.is_as_good(line.median(Method::Weft(level)), copying)
        };
        self.of(figure).rev().take_while(is_as_good).last().map(|line| line.size)
    }
}

fn row(line: &Line) -> Vec<String> {
    let raw = line.median(Method::Raw);
    let cell = |method: Method| {
        let value = line.median(method);
        let cell = format!("{:.2}", value / line.figure.scale());
        if method == Method::Raw { cell } else { format!("{cell} ({:.2})", value / raw) }
    };
    std::iter::once(line.size.to_string()).chain(METHODS.map(cell)).collect()
}

fn object(line: &Line) -> Value {
    let methods: Map<String, Value> = METHODS
        .iter()
        .zip(&line.series)
        .map(|(method, series)| {
            let middle = line.median(*method);
            let ratio = middle / line.median(Method::Raw);
            let value = json!({ "median": middle, "ratio": ratio, "each_run": series });
            (method.name().to_owned(), value)
        })
        .collect();
    json!({ "size": line.size, "figure": line.figure.name(), "methods": methods })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser as _;

    fn plan() -> BuffersPlan {
        let args = Args::try_parse_from(["netbench", "buffers", "--runs", "1"]).unwrap();
        match args.into_task() {
            crate::args::Task::Buffers(plan) => plan,
            _ => panic!("another task"),
        }
    }

    fn line(figure: Figure, size: usize, values: [f64; 4]) -> Line {
        Line { figure, size, series: values.iter().map(|value| vec![*value]).collect() }
    }

    #[test]
    fn one_beats_the_other_from_where_it_never_loses_again() {
        let lines = [
            line(Figure::RoundTripMicros, 64, [1.0, 2.0, 1.9, 9.0]),
            line(Figure::RoundTripMicros, 128, [1.0, 2.0, 2.1, 9.0]),
            line(Figure::RoundTripMicros, 256, [1.0, 2.0, 2.0, 9.0]),
            line(Figure::RoundTripMicros, 512, [1.0, 2.0, 1.0, 9.0]),
            line(Figure::BytesPerSecond, 64, [9.0, 2.0, 3.0, 1.0]),
            line(Figure::BytesPerSecond, 128, [9.0, 2.0, 3.0, 2.5]),
        ];
        let plan = plan();
        let distances = Distances::of(plan.placement);
        let report = Report::new(&plan, &lines, &distances);
        let beats = |figure, level| report.beats_from(figure, level);
        assert_eq!(beats(Figure::RoundTripMicros, Level::Posted), Some(256));
        assert_eq!(beats(Figure::RoundTripMicros, Level::Anew), None);
        assert_eq!(beats(Figure::BytesPerSecond, Level::Posted), Some(64));
        assert_eq!(beats(Figure::BytesPerSecond, Level::Anew), Some(128));
    }
}
