//! What is printed of a sweep over sizes: rate and bytes, ours beside the machine's, and the dips.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Point;
use super::plan::{Pattern, SizesPlan};
use crate::affinity::{EACH_IN_TURN, Placement};
use crate::apart::Distances;
use crate::mesh::node::NodeMethod;
use crate::report::{millions, rounded};
use crate::table::{median, table};
use crate::tally::Flow;

/// A size that moves less than this part of the bytes that the one before it does is a dip.
const DIP: f64 = 0.8;

pub(super) struct Report<'a> {
    pub(super) plan: &'a SizesPlan,
    /// By run and size.
    runs: &'a [Vec<Point>],
    distances: &'a Distances,
}

/// Median and extremes over the runs.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Whose figures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Weft,
    Raw,
}

/// A size that is slower than the one before.
struct Dip {
    from: usize,
    to: usize,
    /// Bytes a second, the larger size's to the smaller one's.
    ratio: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        plan: &'a SizesPlan,
        runs: &'a [Vec<Point>],
        distances: &'a Distances,
    ) -> Self {
        Self { plan, runs, distances }
    }

    fn spread(&self, index: usize, side: Side, figure: impl Fn(&Flow) -> f64) -> Spread {
        let values = self.runs.iter().map(|run| match side {
            Side::Weft => figure(&run[index].weft),
            Side::Raw => figure(&run[index].raw),
        });
        let values: Vec<f64> = values.collect();
        Spread {
            median: median(values.iter().copied()),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Messages a second of the size at `index`.
    pub(super) fn messages(&self, index: usize, side: Side) -> Spread {
        self.spread(index, side, |flow| flow.messages_per_second)
    }

    /// Bytes of bodies a second of the size at `index`.
    pub(super) fn bytes(&self, index: usize, side: Side) -> Spread {
        let size = self.plan.sizes[index] as f64;
        self.spread(index, side, |flow| flow.messages_per_second * size)
    }

    pub(super) fn raw_method(&self) -> &'static str {
        NodeMethod::raw(self.plan.links.kind).name()
    }

    pub(super) fn heading(&self) -> String {
        let SizesPlan { pattern, nodes, links, senders, handlers, poll, .. } = self.plan;
        format!(
            "{} over {}: {nodes} processes, senders {senders}, handlers {handlers}, poll {poll}",
            pattern.name(),
            links.kind.name(),
        )
    }

    fn dips(&self, side: Side) -> Vec<Dip> {
        let bytes = |index| self.bytes(index, side).median;
        (1..self.plan.sizes.len())
            .map(|index| Dip {
                from: self.plan.sizes[index - 1],
                to: self.plan.sizes[index],
                ratio: bytes(index) / bytes(index - 1),
            })
            .filter(|dip| dip.ratio < DIP)
            .collect()
    }

    pub(super) fn text(&self) -> String {
        let placement = match self.plan.pattern {
            Pattern::AllToAll if !self.plan.cpus.is_empty() => EACH_IN_TURN.to_owned(),
            _ => self.plan.placement.to_string(),
        };
        let mut text = format!(
            "{}; {placement}; median of {} runs of {} s; raw: {}",
            self.heading(),
            self.plan.runs,
            self.plan.window.as_secs_f64(),
            self.raw_method()
        );
        let row = |(index, size): (usize, &usize)| {
            let messages = |side| self.messages(index, side).median;
            let bytes = |side| self.bytes(index, side).median;
            vec![
                size.to_string(),
                millions(messages(Side::Weft)),
                millions(messages(Side::Raw)),
                format!("{:.3}", bytes(Side::Weft) / 1e9),
                format!("{:.3}", bytes(Side::Raw) / 1e9),
                format!("{:.2}", bytes(Side::Weft) / bytes(Side::Raw)),
            ]
        };
        let rows: Vec<Vec<String>> = self.plan.sizes.iter().enumerate().map(row).collect();
        text += &table(&["bytes", "M messages/s", "raw", "GB/s", "raw", "ratio"], &rows);
        for (side, name) in [(Side::Weft, "weft"), (Side::Raw, "raw")] {
            for Dip { from, to, ratio } in self.dips(side) {
                let percent = (1.0 - ratio) * 100.0;
                let _ =
                    write!(text, "\n{name} dips: {to} B move {percent:.0} % less than {from} B");
            }
        }
        if self.dips(Side::Weft).is_empty() {
            text += "\nno size moves a fifth less than the one before it";
        }
        self.distances.add_line(&mut text);
        text
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(super) fn json(&self) -> String {
        let plan = self.plan;
        let cases: Vec<Value> = (0..plan.sizes.len()).map(|index| self.case(index)).collect();
        // Of more than two nodes there is no one server, nor one client.
        let of_two = match plan.pattern {
            Pattern::OneWay | Pattern::Bidirectional => plan.placement,
            Pattern::AllToAll => Placement::Unpinned,
        };
        json!({
            "benchmark": "sizes",
            "pattern": plan.pattern.name(),
            "nodes": plan.nodes,
            "link": plan.links.kind.name(),
            "senders": plan.senders,
            "handlers": plan.handlers,
            "poll": plan.poll.to_string(),
            "seconds": plan.window.as_secs_f64(),
            "runs": plan.runs,
            "pinned": !plan.cpus.is_empty(),
            "server_cpu": of_two.server().map(|cpu| cpu.0),
            "client_cpu": of_two.client().map(|cpu| cpu.0),
            "raw_method": self.raw_method(),
            "apart": self.distances.json(),
            "cases": cases,
            "dips": self.dips(Side::Weft).iter().map(Dip::json).collect::<Vec<_>>(),
            "raw_dips": self.dips(Side::Raw).iter().map(Dip::json).collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn case(&self, index: usize) -> Value {
        let side = |side| {
            let (messages, bytes) = (self.messages(index, side), self.bytes(index, side));
            json!({
                "messages_per_second": rounded(messages.median),
                "bytes_per_second": rounded(bytes.median),
                "least_bytes_per_second": rounded(bytes.least),
                "most_bytes_per_second": rounded(bytes.most),
            })
        };
        let mut case = side(Side::Weft);
        case["size"] = self.plan.sizes[index].into();
        case["raw"] = side(Side::Raw);
        let bytes = |side| self.bytes(index, side).median;
        case["ratio"] = rounded(bytes(Side::Weft) / bytes(Side::Raw));
        case
    }
}

impl Dip {
    fn json(&self) -> Value {
        json!({ "from": self.from, "to": self.to, "ratio": rounded(self.ratio) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Task};

    #[test]
    fn a_size_that_moves_a_fifth_less_than_the_one_before_is_a_dip() {
        let args = Args::parse_from(["netbench", "sizes", "--sizes", "1,2,4,8", "--json"]);
        let Task::Sizes(plan) = args.into_task() else { panic!("not a sweep") };
        let flow = |size: f64, bytes| Flow { messages_per_second: bytes / size, ..Flow::default() };
        let bytes = [(1.0, 100.0), (2.0, 81.0), (4.0, 64.0), (8.0, 70.0)];
        let run = bytes.map(|(size, bytes)| {
            let weft = flow(size, bytes);
            Point { weft, raw: flow(size, 100.0) }
        });
        let runs = [run.to_vec()];
        let distances = Distances::of(plan.placement);
        let report = Report::new(&plan, &runs, &distances);
        let object: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(object["dips"], json!([{ "from": 2, "to": 4, "ratio": 0.79 }]));
        assert_eq!(object["raw_dips"], json!([]));
        assert_eq!(object["cases"][3]["ratio"], 0.7);
        assert!(report.text().contains("4 B move 21 % less than 2 B"));
    }
}
