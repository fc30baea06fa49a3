//! `kv top`: what every node does, again and again.

use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use serde_json::{Value, json};
use weft_client::{NodeStats, StatsReply, stat_name};

use crate::args::Global;
use crate::duration;
use crate::number;
use crate::output::{Format, Output};

/// Moves to the corner of the terminal and clears it.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";
/// Requests that are about no object.
const NOT_COUNTED: [&str; 6] = [
    "operations.stats",
    "operations.map",
    "operations.hot_keys",
    "operations.watch",
    "operations.watch_next",
    "operations.watch_end",
];

/// Show what every node does, and go on until it is interrupted
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// How long to count before figures are shown
    #[arg(
        long,
        env = "WEFT_TOP_INTERVAL",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = duration::positive
    )]
    interval: Duration,

    /// End after so many times
    #[arg(long, env = "WEFT_TOP_COUNT", value_name = "N", value_parser = number::within(1..=u64::MAX))]
    count: Option<u64>,
}

/// What a node has done in an interval, and how it is at its end.
#[derive(Debug, PartialEq)]
struct Figures {
    requests_per_second: f64,
    /// Of multi-operations.
    items_per_second: f64,
    /// Of all reads, those that found an object; unknown where there was none.
    hit_share: Option<f64>,
    read_bytes_per_second: f64,
    written_bytes_per_second: f64,
    /// Processor time by time: 1 is a processor.
    processors: f64,
    keys: u64,
    resident_bytes: u64,
    limit_bytes: u64,
    connections: u64,
}

impl Top {
    #[expect(clippy::disallowed_methods, reason = "it shows figures by the clock on the wall")]
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect_cluster().context("cannot show the nodes")?.blocking();
        let mut before = client.stats();
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            std::thread::sleep(self.interval);
            let now = client.stats();
            let figures: Vec<_> = now.iter().map(|node| Figures::between(&before, node)).collect();
            match output.format {
                Format::Table => print_table(output, &now, &figures)?,
                Format::Raw => print_raw(output, &now, &figures)?,
                Format::Json => {
                    let nodes = now.iter().zip(&figures);
                    output.json(
                        &nodes.map(|(node, figures)| to_json(node, figures)).collect::<Value>(),
                    )?;
                }
            }
            output.finish()?;
            before = now;
            shown += 1;
        }
        Ok(())
    }
}

impl Figures {
    /// What became of a node since `before`; nothing if it did not answer, or has started anew.
    fn between(before: &[NodeStats], now: &NodeStats) -> Option<Self> {
        let before = before.iter().find(|node| node.node == now.node)?.stats.as_ref().ok()?;
        Self::of(before, now.stats.as_ref().ok()?)
    }

    fn of(before: &StatsReply<'_>, now: &StatsReply<'_>) -> Option<Self> {
        if now.incarnation != before.incarnation || now.uptime_ms <= before.uptime_ms {
            return None;
        }
        let seconds = (now.uptime_ms - before.uptime_ms) as f64 / 1e3;
        let value = |stats: &StatsReply<'_>, name: &str| stats.value(name).unwrap_or_default();
        let grown = |name: &str| value(now, name).saturating_sub(value(before, name)) as f64;
        let requests = now.counters.iter().filter(|counter| {
            counter.name.starts_with(stat_name::OPERATIONS)
                && !NOT_COUNTED.contains(&counter.name.as_ref())
        });
        let (hits, misses) = (grown("reads.hits"), grown("reads.misses"));
        Some(Self {
            requests_per_second: requests.map(|counter| grown(&counter.name)).sum::<f64>()
                / seconds,
            items_per_second: grown("items.executed") / seconds,
            hit_share: (hits + misses > 0.0).then(|| hits / (hits + misses)),
            read_bytes_per_second: grown("values.bytes_read") / seconds,
            written_bytes_per_second: grown("values.bytes_written") / seconds,
            processors: grown(stat_name::CPU_MICROS) / 1e6 / seconds,
            keys: value(now, stat_name::OBJECTS),
            resident_bytes: value(now, stat_name::MEMORY_RESIDENT_BYTES),
            limit_bytes: value(now, stat_name::MEMORY_LIMIT_BYTES),
            connections: value(now, stat_name::CONNECTIONS),
        })
    }

    fn cells(&self) -> [String; 10] {
        let rate = |rate: f64| format!("{rate:.0}");
        let bytes = |bytes: f64| format!("{}/s", size(bytes as u64));
        [
            rate(self.requests_per_second),
            rate(self.items_per_second),
            self.hit_share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
            bytes(self.read_bytes_per_second),
            bytes(self.written_bytes_per_second),
            format!("{:.0} %", self.processors * 100.0),
            self.keys.to_string(),
            size(self.resident_bytes),
            size(self.limit_bytes),
            self.connections.to_string(),
        ]
    }
}

const HEADING: [&str; 12] = [
    "node",
    "address",
    "requests/s",
    "items/s",
    "hits",
    "read",
    "written",
    "CPU",
    "keys",
    "resident",
    "limit",
    "connections",
];

fn print_table(
    output: &mut Output,
    nodes: &[NodeStats],
    figures: &[Option<Figures>],
) -> anyhow::Result<()> {
    let rows = nodes.iter().zip(figures).map(|(NodeStats { node, .. }, figures)| {
        let unknown = || [(); 10].map(|()| "-".to_owned());
        let cells = figures.as_ref().map_or_else(unknown, Figures::cells);
        [node.id.0.to_string(), node.address.to_string()].into_iter().chain(cells)
    });
    output.bytes(CLEAR)?;
    Ok(output.table(&HEADING, rows, 2)?)
}

/// Node and requests a second, a line each.
fn print_raw(
    output: &mut Output,
    nodes: &[NodeStats],
    figures: &[Option<Figures>],
) -> anyhow::Result<()> {
    for (NodeStats { node, .. }, figures) in nodes.iter().zip(figures) {
        let rate = figures
            .as_ref()
            .map_or("-".to_owned(), |figures| format!("{:.0}", figures.requests_per_second));
        output.line(format!("{}\t{rate}", node.id.0))?;
    }
    Ok(())
}

fn to_json(NodeStats { node, stats }: &NodeStats, figures: &Option<Figures>) -> Value {
    let mut told = json!({ "id": node.id.0, "address": *node.address });
    match (figures, stats) {
        (Some(figures), _) => {
            told["requests_per_second"] = figures.requests_per_second.into();
            told["items_per_second"] = figures.items_per_second.into();
            told["hit_share"] = figures.hit_share.into();
            told["read_bytes_per_second"] = figures.read_bytes_per_second.into();
            told["written_bytes_per_second"] = figures.written_bytes_per_second.into();
            told["processors"] = figures.processors.into();
            told["keys"] = figures.keys.into();
            told["resident_bytes"] = figures.resident_bytes.into();
            told["limit_bytes"] = figures.limit_bytes.into();
            told["connections"] = figures.connections.into();
        }
        (None, Err(error)) => told["error"] = error.code().to_string().into(),
        // It has started anew.
        (None, Ok(_)) => told["error"] = Value::Null,
    }
    told
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use weft_protocol::Counter;
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    fn stats(incarnation: u64, uptime_ms: u64, gets: u64, hits: u64) -> StatsReply<'static> {
        let counter = |name: &str, value| Counter { name: name.to_owned().into(), value };
        StatsReply {
            node: NodeId(1),
            incarnation: Incarnation(incarnation),
            uptime_ms,
            counters: vec![
                counter("operations.get", gets),
                counter("operations.put", 2 * gets),
                counter("operations.stats", 1_000_000 * gets),
                counter("reads.hits", hits),
                counter("reads.misses", gets - hits),
                counter(stat_name::CPU_MICROS, uptime_ms * 250),
            ],
        }
    }

    #[test]
    fn figures_are_what_was_done_in_between_by_its_time() {
        let figures = Figures::of(&stats(1, 1_000, 100, 100), &stats(1, 3_000, 300, 250)).unwrap();
        assert_eq!(figures.requests_per_second, 300.0, "200 gets and 400 puts in 2 s");
        assert_eq!(figures.hit_share, Some(0.75));
        assert_eq!(figures.processors, 0.25);
        let quiet = Figures::of(&stats(1, 1_000, 100, 100), &stats(1, 2_000, 100, 100)).unwrap();
        assert_eq!((quiet.requests_per_second, quiet.hit_share), (0.0, None));
    }

    #[test]
    fn a_node_that_has_started_anew_has_no_figures_yet() {
        assert_eq!(Figures::of(&stats(1, 5_000, 100, 1), &stats(2, 6_000, 200, 1)), None);
        assert_eq!(Figures::of(&stats(1, 5_000, 100, 1), &stats(1, 100, 1, 1)), None);
    }
}
