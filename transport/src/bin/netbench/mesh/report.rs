//! What is printed of nodes that send to each other: totals, ours beside the machine's.

use serde_json::{Value, json};

use super::MeshFlow;
use super::node::NodeMethod;
use super::plan::{Case, MeshPlan};
use crate::affinity::EACH_IN_TURN;
use crate::apart::Distances;
use crate::report::{millions, rounded};
use crate::table::{median, table};

/// From this share on the processors are what binds.
const BOUND: f64 = 0.95;

pub(super) struct Report<'a> {
    plan: &'a MeshPlan,
    /// By run, case, and method: ours, then raw.
    runs: &'a [Vec<[MeshFlow; 2]>],
    distances: &'a Distances,
}

const WEFT: usize = 0;
const RAW: usize = 1;

impl<'a> Report<'a> {
    pub(super) fn new(
        plan: &'a MeshPlan,
        runs: &'a [Vec<[MeshFlow; 2]>],
        distances: &'a Distances,
    ) -> Self {
        Self { plan, runs, distances }
    }

    /// The median over the runs of what `figure` says of one case and method.
    fn median(&self, case: usize, method: usize, figure: impl Fn(&MeshFlow) -> f64) -> f64 {
        median(self.runs.iter().map(|run| figure(&run[case][method])))
    }

    fn messages(&self, case: usize, method: usize) -> f64 {
        self.median(case, method, |flow| flow.total.messages_per_second)
    }

    fn processors(&self, case: usize, method: usize) -> f64 {
        self.median(case, method, |flow| flow.total.processors)
    }

    fn cases(&self) -> impl Iterator<Item = (usize, Case)> {
        self.plan.cases.iter().copied().enumerate()
    }

    fn raw_method(&self) -> &'static str {
        NodeMethod::raw(self.plan.shape.links.kind).name()
    }

    pub(super) fn text(&self) -> String {
        let MeshPlan { shape, processors, .. } = self.plan;
        let placement = if self.plan.cpus.is_empty() { "unpinned" } else { EACH_IN_TURN };
        let mut text = format!(
            "{} over {}: {} B, senders {}, handlers {}, poll {}; {placement}; median of {} runs of {} s\n\
             totals over all receivers; raw: {}",
            self.plan.benchmark,
            shape.links.kind.name(),
            shape.size,
            shape.senders,
            shape.handlers,
            shape.poll,
            self.plan.runs,
            self.plan.window.as_secs_f64(),
            self.raw_method(),
        );
        let first = self.plan.cases[0].name();
        let to_first = format!("to {first}");
        let header =
            ["", "M messages/s", "raw", "ratio", "GB/s", &to_first, "raw's", "processors", "raw's"];
        let rows: Vec<Vec<String>> = self
            .cases()
            .map(|(index, case)| {
                let messages = |method| self.messages(index, method);
                let bytes = self.median(index, WEFT, |flow| flow.total.bytes_per_second);
                vec![
                    case.name(),
                    millions(messages(WEFT)),
                    millions(messages(RAW)),
                    format!("{:.2}", messages(WEFT) / messages(RAW)),
                    format!("{:.2}", bytes / 1e9),
                    format!("{:.2}", messages(WEFT) / self.messages(0, WEFT)),
                    format!("{:.2}", messages(RAW) / self.messages(0, RAW)),
                    format!("{:.2}", self.processors(index, WEFT)),
                    format!("{:.2}", self.processors(index, RAW)),
                ]
            })
            .collect();
        text.push_str(&table(&header, &rows));
        for (index, case) in self.cases() {
            if self.is_bound(index) {
                let busy = self.processors(index, WEFT);
                let name = case.name();
                text +=
                    &format!("\n{name}: {busy:.2} of {processors} processors are busy: they bind");
            }
        }
        self.distances.add_line(&mut text);
        text
    }

    fn is_bound(&self, case: usize) -> bool {
        self.processors(case, WEFT) >= BOUND * self.plan.processors as f64
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(super) fn json(&self) -> String {
        let MeshPlan { shape, .. } = self.plan;
        let cases: Vec<Value> = self.cases().map(|(index, case)| self.case(index, case)).collect();
        json!({
            "benchmark": self.plan.benchmark,
            "link": shape.links.kind.name(),
            "size": shape.size,
            "senders": shape.senders,
            "handlers": shape.handlers,
            "poll": shape.poll.to_string(),
            "seconds": self.plan.window.as_secs_f64(),
            "runs": self.plan.runs,
            "processors": self.plan.processors,
            "pinned": !self.plan.cpus.is_empty(),
            "apart": self.distances.json(),
            "cases": cases,
        })
        .to_string()
    }

    fn case(&self, index: usize, case: Case) -> Value {
        let [mut weft, mut raw] = [WEFT, RAW].map(|method| self.side(index, method));
        raw["method"] = self.raw_method().into();
        weft["name"] = case.name().into();
        weft["nodes"] = case.nodes.into();
        weft["ratio"] = rounded(self.messages(index, WEFT) / self.messages(index, RAW));
        weft["processors_bind"] = self.is_bound(index).into();
        weft["raw"] = raw;
        weft
    }

    fn side(&self, index: usize, method: usize) -> Value {
        let figure = |figure: fn(&MeshFlow) -> f64| rounded(self.median(index, method, figure));
        let nodes = self.runs[0][index][method].each_node.len();
        let each_node =
            (0..nodes).map(|node| rounded(self.median(index, method, |flow| flow.each_node[node])));
        let runs = self.runs.iter().map(|run| &run[index][method].total);
        json!({
            "messages_per_second": figure(|flow| flow.total.messages_per_second),
            "bytes_per_second": figure(|flow| flow.total.bytes_per_second),
            "longest_gap_us": figure(|flow| flow.total.gaps.longest.as_secs_f64() * 1e6),
            "processors": figure(|flow| flow.total.processors),
            "to_first": rounded(self.messages(index, method) / self.messages(0, method)),
            "each_node": each_node.collect::<Vec<_>>(),
            "each_run": runs.map(|total| rounded(total.messages_per_second)).collect::<Vec<_>>(),
        })
    }
}

impl Case {
    fn name(self) -> String {
        match (self.nodes, self.both_ways) {
            (_, false) => "one-way".to_owned(),
            (2, true) => "both ways".to_owned(),
            (nodes, true) => format!("{nodes} nodes"),
        }
    }
}
