//! What is printed: the medians, ours beside the machine's, as text or as one JSON object.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::apart::Distances;
use crate::args::Plan;
use crate::table;

/// One side of the comparison in one run: the headline figure first.
#[derive(Clone)]
pub(crate) struct Half {
    pub(crate) method: &'static str,
    pub(crate) figures: Vec<(&'static str, f64)>,
}

/// One run: the transport, and the raw methods; the first of these is what the ratio compares with.
pub(crate) struct Run {
    pub(crate) weft: Half,
    pub(crate) raws: Vec<Half>,
    /// What the machine does to a thread that never waits, where gaps are reported.
    pub(crate) pauses: Option<Half>,
}

/// The medians of all runs.
pub(crate) struct Report {
    setting: Map<String, Value>,
    heading: String,
    weft: Half,
    raws: Vec<Half>,
    pauses: Option<Half>,
    /// Headline figures of each run, ours and the first raw method's.
    each_run: Vec<(f64, f64)>,
    distances: Distances,
}

impl Report {
    pub(crate) fn new(plan: &Plan, runs: &[Run], distances: Distances) -> Self {
        let raws = (0..runs[0].raws.len())
            .map(|method| median(runs.iter().map(|run| &run.raws[method])))
            .collect();
        Report {
            setting: setting(plan),
            heading: heading(plan),
            weft: median(runs.iter().map(|run| &run.weft)),
            raws,
            pauses: runs[0]
                .pauses
                .as_ref()
                .map(|_| median(runs.iter().flat_map(|run| &run.pauses))),
            each_run: runs
                .iter()
                .map(|run| (run.weft.headline(), run.raws[0].headline()))
                .collect(),
            distances,
        }
    }

    /// Ours to raw.
    fn ratio(&self) -> f64 {
        self.weft.headline() / self.raws[0].headline()
    }

    /// The object that scripts rely on; docs/netbench.md lists its members.
    pub(crate) fn json(&self) -> String {
        let mut object = self.setting.clone();
        object.extend(self.weft.json());
        object.insert("raw".to_owned(), self.raws[0].json_with_method());
        object.insert("ratio".to_owned(), rounded(self.ratio()));
        let all = self.raws.iter().map(Half::json_with_method).collect();
        object.insert("raw_methods".to_owned(), Value::Array(all));
        if let Some(pauses) = &self.pauses {
            object.insert("machine".to_owned(), pauses.json_with_method());
        }
        let (name, _) = self.weft.figures[0];
        let runs = self.each_run.iter().map(|(weft, raw)| {
            json!({ name: rounded(*weft), "raw": rounded(*raw), "ratio": rounded(weft / raw) })
        });
        object.insert("each_run".to_owned(), runs.collect());
        object.insert("apart".to_owned(), self.distances.json());
        Value::Object(object).to_string()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.heading.clone();
        let mut line = |name: &str, cells: Vec<String>| {
            let _ = write!(text, "\n{name:<22}");
            for cell in cells {
                let _ = write!(text, "{cell:>16}");
            }
        };
        let columns = &self.weft.figures;
        line("", columns.iter().map(|(name, _)| column(name).to_owned()).collect());
        for half in std::iter::once(&self.weft).chain(&self.raws) {
            let name = if half.method == "weft" { "weft" } else { &format!("raw {}", half.method) };
            line(name, half.figures.iter().map(|(name, value)| cell(name, *value)).collect());
        }
        if let Some(pauses) = &self.pauses {
            let cells = pauses.figures.iter().map(|(name, value)| cell(name, *value));
            line("machine", std::iter::once(String::new()).chain(cells).collect());
        }
        line("ratio", vec![format!("{:.2}", self.ratio())]);
        self.distances.add_line(&mut text);
        text
    }
}

impl Half {
    pub(crate) fn headline(&self) -> f64 {
        self.figures[0].1
    }

    fn json(&self) -> Map<String, Value> {
        self.figures.iter().map(|(name, value)| ((*name).to_owned(), rounded(*value))).collect()
    }

    fn json_with_method(&self) -> Value {
        let mut object = self.json();
        object.insert("method".to_owned(), self.method.into());
        Value::Object(object)
    }
}

fn setting(plan: &Plan) -> Map<String, Value> {
    let Value::Object(setting) = json!({
        "benchmark": plan.benchmark.name(),
        "link": plan.shape.links.kind.name(),
        "size": plan.shape.size,
        "body": plan.shape.body,
        "connections": plan.shape.connections,
        "senders": plan.shape.senders,
        "handlers": plan.shape.handlers,
        "poll": plan.shape.poll.to_string(),
        "seconds": plan.window.as_secs_f64(),
        "runs": plan.runs,
        "server_cpu": plan.placement.server().map(|cpu| cpu.0),
        "client_cpu": plan.placement.client().map(|cpu| cpu.0),
    }) else {
        unreachable!("the macro was given an object")
    };
    setting
}

fn heading(plan: &Plan) -> String {
    let shape = &plan.shape;
    let bodies = shape.body.map(|bytes| format!(" of streamed bodies of {bytes} B"));
    format!(
        "{} over {}: {} B{}, connections {}, senders {}, handlers {}, poll {}; {}; median of {} runs of {} s",
        plan.benchmark.name(),
        plan.shape.links.kind.name(),
        shape.size,
        bodies.unwrap_or_default(),
        shape.connections,
        shape.senders,
        shape.handlers,
        shape.poll,
        plan.placement,
        plan.runs,
        plan.window.as_secs_f64(),
    )
}

/// The median of each figure by itself.
fn median<'a>(halves: impl Iterator<Item = &'a Half> + Clone) -> Half {
    let first = halves.clone().next().expect("there is at least one run");
    let figures = first.figures.iter().enumerate().map(|(index, (name, _))| {
        let median = table::median(halves.clone().map(|half| half.figures[index].1));
        (*name, median)
    });
    Half { method: first.method, figures: figures.collect() }
}

/// Three decimals say more than the machine does.
pub(crate) fn rounded(value: f64) -> Value {
    json!((value * 1e3).round() / 1e3)
}

/// In millions, with two decimals or, of long messages, which are few, with three digits.
pub(crate) fn millions(value: f64) -> String {
    let millions = value / 1e6;
    let digits_before = if value > 0.0 { millions.log10().floor() } else { 0.0 };
    // At least a thousandth of a message a second.
    let decimals = (2.0 - digits_before).clamp(2.0, 9.0);
    format!("{millions:.*}", decimals as usize)
}

/// Round trips over shared memory take half a microsecond, and one decimal would be a tenth of that.
pub(crate) fn micros(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

fn column(name: &str) -> &str {
    match name {
        "p50_us" => "p50 us",
        "p99_us" => "p99 us",
        "p999_us" => "p99.9 us",
        "messages_per_second" => "M messages/s",
        "bytes_per_second" => "GB/s",
        "longest_gap_us" => "longest gap us",
        "gaps_over_1ms_per_second" => "gaps > 1 ms/s",
        other => other,
    }
}

fn cell(name: &str, value: f64) -> String {
    match name {
        "messages_per_second" => millions(value),
        "bytes_per_second" => format!("{:.2}", value / 1e9),
        _ => micros(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let half = |method, p50| Half { method, figures: vec![("p50_us", p50), ("p99_us", 100.0)] };
        let runs = [(30.0, 10.0), (10.0, 20.0), (26.0, 40.0)].map(|(weft, raw)| Run {
            weft: half("weft", weft),
            raws: vec![half("blocking", raw), half("busy-poll", 8.0)],
            pauses: None,
        });
        let args = <crate::args::Args as clap::Parser>::parse_from([
            "netbench",
            "latency",
            "--unpinned",
            "--seconds",
            "2",
        ]);
        let crate::args::Task::Measure(plan) = args.into_task() else {
            panic!("not a measurement")
        };
        Report::new(&plan, &runs, Distances::of(plan.placement))
    }

    #[test]
    fn the_object_has_the_members_that_scripts_rely_on() {
        let object: Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(object["p50_us"], 26.0);
        assert_eq!(object["raw"]["p50_us"], 20.0);
        assert_eq!(object["raw"]["method"], "blocking");
        assert_eq!(object["ratio"], 1.3);
        assert_eq!(object["raw_methods"][1]["p50_us"], 8.0);
        assert_eq!(object["each_run"][1]["ratio"], 0.5);
        assert_eq!(object["server_cpu"], Value::Null);
        assert_eq!(object["apart"], Value::Null);
    }

    #[test]
    fn few_messages_have_their_digits_too() {
        let cells = [25_432_100.0, 6_543.0, 53.2, 0.0125, 0.0].map(millions);
        assert_eq!(cells, ["25.43", "0.00654", "0.0000532", "0.000000013", "0.00"]);
    }

    #[test]
    fn the_text_names_the_setting_and_lines_up() {
        let expected = "\
latency over tcp: 64 B, connections 1, senders 1, handlers 1, poll adaptive; unpinned (the figures are noise); median of 3 runs of 2 s
                                p50 us          p99 us
weft                              26.0           100.0
raw blocking                      20.0           100.0
raw busy-poll                     8.00           100.0
ratio                             1.30";
        assert_eq!(report().text(), expected);
    }
}
