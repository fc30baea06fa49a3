//! What is said of replicas and disks: rates and processor time, as ratios to the round's own table without.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Row, list, number};
use crate::bench::series::{Better, Series};

/// For each number of replicas: the rate, to one replica, that is wanted at least, and the processor time at most.
const WRITES_WANTED: [(u64, f64, f64); 2] = [(2, 0.4, 1.8), (3, 0.25, 2.6)];

/// The rate of `disk`, to `memory`, and of many requesters of `fsync`, to one.
const DISK_WANTED: f64 = 0.7;
const GROUP_WANTED: f64 = 20.0;

pub(super) fn writes(report: &Value) -> Result<Vec<Row>> {
    let reports = list(report, "/reports")?;
    let of = |nodes: u64, replicas: Option<u64>, pointer: &str| {
        let is_it =
            |report: &&Value| report["nodes"] == nodes && report["replicas"].as_u64() == replicas;
        let found =
            reports.iter().filter(is_it).filter_map(|report| report.pointer(pointer)?.as_f64());
        found.collect::<Vec<_>>()
    };
    let mut rows = vec![
        row("puts, a node alone", "/s", &of(1, None, "/puts/ops_a_second"), None)?,
        row("puts, a node alone, processor time", "us", &of(1, None, "/puts/cpu_us"), None)?,
        row("gets, a node alone", "/s", &of(1, None, "/gets/ops_a_second"), None)?,
        row("gets, three nodes", "/s", &of(3, Some(3), "/gets/ops_a_second"), None)?,
    ];
    let one_rate = of(3, Some(1), "/puts/ops_a_second");
    let one_cpu = of(3, Some(1), "/puts/cpu_us");
    rows.push(row("puts, 1 replica on three nodes", "/s", &one_rate, None)?);
    rows.push(row("puts, 1 replica, processor time", "us", &one_cpu, None)?);
    for (replicas, rate_wanted, cpu_wanted) in WRITES_WANTED {
        let rate = of(3, Some(replicas), "/puts/ops_a_second");
        let cpu = of(3, Some(replicas), "/puts/cpu_us");
        let name = format!("puts, {replicas} replicas");
        rows.push(row(&name, "/s", &rate, Some((&one_rate, Better::Higher, rate_wanted)))?);
        let name = format!("{name}, processor time");
        rows.push(row(&name, "us", &cpu, Some((&one_cpu, Better::Lower, cpu_wanted)))?);
    }
    Ok(rows)
}

pub(super) fn durability(report: &Value) -> Result<Vec<Row>> {
    let reports = list(report, "/reports")?;
    let mut rows = Vec::new();
    for (nodes, name) in [(1, "one node"), (3, "three nodes")] {
        let of_nodes: Vec<&Value> =
            reports.iter().filter(|report| report["nodes"] == nodes).collect();
        let of = |pointer: &str| -> Result<Vec<f64>> {
            of_nodes.iter().map(|report| number(report, pointer)).collect()
        };
        let (memory, disk) = (of("/memory/ops_a_second")?, of("/disk/ops_a_second")?);
        let (group, single) = (of("/fsync/ops_a_second")?, of("/fsync_one_by_one/ops_a_second")?);
        let to = |peer, wanted| Some((peer, Better::Higher, wanted));
        rows.push(row(&format!("{name}, memory"), "/s", &memory, None)?);
        rows.push(row(&format!("{name}, disk"), "/s", &disk, to(&memory[..], DISK_WANTED))?);
        rows.push(row(&format!("{name}, fsync, 1 requester"), "/s", &single, None)?);
        rows.push(row(
            &format!("{name}, fsync, 100"),
            "/s",
            &group,
            to(&single[..], GROUP_WANTED),
        )?);
        let bare = of("/bare_syncs_a_second")?;
        rows.push(row(&format!("{name}, a bare file synced each time"), "/s", &bare, None)?);
    }
    Ok(rows)
}

/// The median of `ours`, and its ratio to a peer of the same rounds, which is wanted to be so high or low.
fn row(what: &str, unit: &str, ours: &[f64], peer: Option<(&[f64], Better, f64)>) -> Result<Row> {
    let (beside, better, wanted) = peer.unwrap_or((ours, Better::Higher, 1.0));
    let mut series = Series::new(better, None);
    ours.iter().zip(beside).for_each(|(ours, peer)| series.push(*ours, *peer));
    let summary = series.summary().with_context(|| format!("{what} was not measured"))?;
    let (least, most) =
        ours.iter().fold((f64::MAX, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
    let digits = if unit == "us" { 1 } else { 0 };
    let figure = format!("{:.digits$} {unit} ({least:.digits$} to {most:.digits$})", summary.ours);
    if peer.is_none() {
        return Ok(Row::new(what, figure));
    }
    let [least, most] = summary.ratios;
    let row = Row::new(what, format!("{figure}, {:.2} ({least:.2} to {most:.2})", summary.ratio));
    Ok(match better {
        Better::Higher => row.wanted(format!("at least {wanted}"), summary.ratio >= wanted),
        Better::Lower => row.wanted(format!("at most {wanted}"), summary.ratio <= wanted),
    })
}
