//! `kv stat`: keys and memory of every node, and of all together.

use std::collections::BTreeMap;

use anyhow::Context;
use bytesize::ByteSize;
use serde_json::{Value, json};
use weft_client::{NodeStats, StatsReply, stat_name};

use crate::args::Global;
use crate::complaint::{AlreadySaid, note};
use crate::output::{Format, Output};

/// Show keys and memory of every node; exit code 1 if one does not answer
#[derive(Debug, clap::Args)]
pub(crate) struct Stat {}

/// What is shown of a node, or of all.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Figures {
    keys: u64,
    partitions: u64,
    connections: u64,
    limit_bytes: u64,
    allocated_bytes: u64,
    resident_bytes: u64,
    by_purpose: BTreeMap<String, u64>,
}

impl Stat {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect_cluster().context("cannot show the nodes")?;
        let map_epoch = client.map().epoch();
        let nodes = client.blocking().stats();
        let mut total = Figures::default();
        for stats in nodes.iter().filter_map(|node| node.stats.as_ref().ok()) {
            total.add(&Figures::of(stats));
        }
        match output.format {
            Format::Table => print_tables(output, &nodes, &total)?,
            Format::Raw => print_raw(output, &nodes)?,
            Format::Json => output.json(&json!({
                "map_epoch": map_epoch,
                "nodes": nodes.iter().map(node_to_json).collect::<Vec<_>>(),
                "total": total.to_json(),
            }))?,
        }
        output.finish()?;
        let mut all_answered = true;
        for error in nodes.iter().filter_map(|node| node.stats.as_ref().err()) {
            note(&format!("{error} ({})", error.code()));
            all_answered = false;
        }
        if all_answered { Ok(()) } else { Err(AlreadySaid.into()) }
    }
}

impl Figures {
    fn of(stats: &StatsReply<'_>) -> Self {
        let value = |name| stats.value(name).unwrap_or_default();
        let purposes = stats.counters.iter().filter_map(|counter| {
            let purpose = counter.name.strip_prefix(stat_name::MEMORY_PURPOSE)?;
            Some((purpose.to_owned(), counter.value))
        });
        Self {
            keys: value(stat_name::OBJECTS),
            partitions: value(stat_name::PARTITIONS),
            connections: value(stat_name::CONNECTIONS),
            limit_bytes: value(stat_name::MEMORY_LIMIT_BYTES),
            allocated_bytes: value(stat_name::MEMORY_ALLOCATED_BYTES),
            resident_bytes: value(stat_name::MEMORY_RESIDENT_BYTES),
            by_purpose: purposes.collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.partitions += other.partitions;
        self.connections += other.connections;
        self.limit_bytes += other.limit_bytes;
        self.allocated_bytes += other.allocated_bytes;
        self.resident_bytes += other.resident_bytes;
        for (purpose, bytes) in &other.by_purpose {
            *self.by_purpose.entry(purpose.clone()).or_default() += bytes;
        }
    }

    /// What a key costs: all the memory that has been touched, by all the keys.
    fn bytes_per_key(&self) -> Option<f64> {
        (self.keys > 0).then(|| self.resident_bytes as f64 / self.keys as f64)
    }

    fn to_json(&self) -> Value {
        json!({
            "keys": self.keys,
            "partitions": self.partitions,
            "connections": self.connections,
            "bytes_per_key": self.bytes_per_key(),
            "memory": {
                "limit_bytes": self.limit_bytes,
                "allocated_bytes": self.allocated_bytes,
                "resident_bytes": self.resident_bytes,
                "by_purpose": self.by_purpose,
            },
        })
    }

    fn cells(&self) -> [String; 6] {
        [
            self.keys.to_string(),
            self.bytes_per_key().map_or("-".to_owned(), |bytes| format!("{bytes:.1}")),
            size(self.resident_bytes),
            size(self.allocated_bytes),
            size(self.limit_bytes),
            self.partitions.to_string(),
        ]
    }
}

fn print_tables(output: &mut Output, nodes: &[NodeStats], total: &Figures) -> anyhow::Result<()> {
    let labelled = |label: [String; 2], cells: [String; 6]| label.into_iter().chain(cells);
    let unknown = || [(); 6].map(|()| "-".to_owned());
    let mut rows: Vec<_> = nodes
        .iter()
        .map(|NodeStats { node, stats }| {
            let cells =
                stats.as_ref().map_or_else(|_| unknown(), |stats| Figures::of(stats).cells());
            labelled([node.id.0.to_string(), node.address.to_string()], cells)
        })
        .collect();
    rows.push(labelled(["total".to_owned(), String::new()], total.cells()));
    let heading =
        ["node", "address", "keys", "B/key", "resident", "allocated", "limit", "partitions"];
    output.table(&heading, rows, 2)?;

    output.line("")?;
    let purposes: Vec<_> = total.by_purpose.keys().collect();
    let of = |figures: &Figures, label: String| {
        let bytes = |purpose: &&String| figures.by_purpose.get(*purpose).copied().map(size);
        let cells: Vec<_> =
            purposes.iter().map(|purpose| bytes(purpose).unwrap_or_default()).collect();
        std::iter::once(label).chain(cells)
    };
    let mut rows = Vec::new();
    for NodeStats { node, stats } in nodes {
        if let Ok(stats) = stats {
            rows.push(of(&Figures::of(stats), node.id.0.to_string()));
        }
    }
    rows.push(of(total, "total".to_owned()));
    let heading: Vec<_> =
        std::iter::once("memory").chain(purposes.iter().map(|purpose| purpose.as_str())).collect();
    output.table(&heading, rows, 1)?;
    Ok(())
}

/// Every counter of every node.
fn print_raw(output: &mut Output, nodes: &[NodeStats]) -> anyhow::Result<()> {
    for NodeStats { node, stats } in nodes {
        for counter in stats.iter().flat_map(|stats| &stats.counters) {
            output.line(format!("{}\t{}\t{}", node.id.0, counter.name, counter.value))?;
        }
    }
    Ok(())
}

fn node_to_json(NodeStats { node, stats }: &NodeStats) -> Value {
    let mut entry = match stats {
        Ok(stats) => {
            let mut entry = Figures::of(stats).to_json();
            entry["uptime_ms"] = stats.uptime_ms.into();
            let counters =
                stats.counters.iter().map(|counter| (counter.name.as_ref(), counter.value));
            entry["counters"] = json!(counters.collect::<BTreeMap<_, _>>());
            entry
        }
        Err(error) => json!({ "error": error.code().to_string() }),
    };
    entry["id"] = node.id.0.into();
    entry["address"] = (*node.address).into();
    entry
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use weft_protocol::Counter;
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    #[test]
    fn a_total_adds_up_and_says_what_a_key_costs() {
        let counter = |name: &str, value| Counter { name: name.to_owned().into(), value };
        let stats = |keys| StatsReply {
            node: NodeId(1),
            incarnation: Incarnation(1),
            uptime_ms: 5,
            counters: vec![
                counter(stat_name::OBJECTS, keys),
                counter(stat_name::MEMORY_RESIDENT_BYTES, 1000),
                counter("memory.purpose.log", 700),
                counter("unheard_of", 3),
            ],
        };
        let mut total = Figures::default();
        assert_eq!(total.bytes_per_key(), None);
        total.add(&Figures::of(&stats(3)));
        total.add(&Figures::of(&stats(13)));
        assert_eq!(total.bytes_per_key(), Some(125.0));
        assert_eq!(total.by_purpose, BTreeMap::from([("log".to_owned(), 1400)]));
    }
}
