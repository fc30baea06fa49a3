//! What `netbench` measures in rounds of its own: several nodes, all sizes, quiet nodes, and peers.

use anyhow::Result;
use serde_json::{Map, Value};

use super::super::Bench;

/// A node that is connected and quiet may take so much of a processor, in percent.
const IDLE_PERCENT_MAX: f64 = 1.0;

/// Both ways are to be so many times one way, where there are processors for it.
const BOTH_WAYS: f64 = 1.3;

/// Four nodes are to move so much of what two do.
const FOUR_NODES: f64 = 0.7;

/// Runs all of it over both links, and adds the reports to `figures`.
pub(super) fn run(bench: &Bench<'_>, figures: &mut Map<String, Value>) -> Result<()> {
    let rounds = bench.rounds.to_string();
    for link in ["tcp", "shm"] {
        let mut netbench = |command: &str, more: &[&str]| {
            let arguments = [&[command, "--link", link, "--runs", &rounds], more].concat();
            let report = super::report(bench, arguments.into_iter().map(str::to_owned))?;
            figures.insert(format!("{command}, {link}"), report.clone());
            Ok::<Value, anyhow::Error>(report)
        };
        let both_ways = netbench("bidirectional", &[])?;
        cases(&both_ways, BOTH_WAYS);
        let all_to_all = netbench("all-to-all", &["--nodes", "2,4"])?;
        cases(&all_to_all, FOUR_NODES);
        let figure = bench.folder.join(format!("sizes-{link}.svg"));
        let figure = figure.to_string_lossy();
        sizes(&netbench("sizes", &["--svg", &figure])?, &figure);
        idle(&netbench("idle", &["--runs", "1"])?);
        peers(&netbench("peers", &[])?);
    }
    Ok(())
}

fn number(object: &Value, member: &str) -> f64 {
    object[member].as_f64().unwrap_or(f64::NAN)
}

fn list<'a>(report: &'a Value, member: &str) -> &'a [Value] {
    report[member].as_array().map_or(&[], Vec::as_slice)
}

/// Totals of nodes; `wanted` is the part of the first case's total that the others are to reach.
fn cases(report: &Value, wanted: f64) {
    for case in list(report, "cases") {
        let (weft, raw) =
            (number(case, "messages_per_second"), number(&case["raw"], "messages_per_second"));
        let binds = if case["processors_bind"] == true { ", the processors bind" } else { "" };
        println!(
            "  {:<10} {:>8.2} M/s, raw {:>8.2}, ratio {:.2}; {:.2} of the first (at least {wanted} wanted){binds}",
            case["name"].as_str().unwrap_or_default(),
            weft / 1e6,
            raw / 1e6,
            number(case, "ratio"),
            number(case, "to_first"),
        );
    }
}

fn sizes(report: &Value, figure: &str) {
    for case in list(report, "cases") {
        println!(
            "  {:>8} B {:>9.3} M/s {:>8.3} GB/s, raw {:>8.3} GB/s, ratio {:.2}",
            number(case, "size"),
            number(case, "messages_per_second") / 1e6,
            number(case, "bytes_per_second") / 1e9,
            number(&case["raw"], "bytes_per_second") / 1e9,
            number(case, "ratio"),
        );
    }
    for (who, member) in [("ours", "dips"), ("raw", "raw_dips")] {
        for dip in list(report, member) {
            let percent = (1.0 - number(dip, "ratio")) * 100.0;
            println!(
                "  dip, {who}: {} B move {percent:.0} % less than {} B",
                dip["to"], dip["from"]
            );
        }
    }
    println!("  drawn: {figure}");
}

fn idle(report: &Value) {
    for case in list(report, "cases").iter().chain([&report["raw"]]) {
        let poll = case["poll"].as_str().unwrap_or_default();
        let percent = number(case, "node_percent");
        let wanted = match poll {
            "adaptive" | "park" => format!(" (at most {IDLE_PERCENT_MAX} wanted)"),
            _ => String::new(),
        };
        println!("  quiet, {poll:<16} {percent:>8.3} % of a processor{wanted}");
    }
}

fn peers(report: &Value) {
    for method in list(report, "methods") {
        let cell = |member: &str, scale: f64| {
            method[member].as_f64().map_or("-".to_owned(), |value| format!("{:.2}", value / scale))
        };
        println!(
            "  {:<34} {:>8} us {:>8} M/s {:>8} GB/s",
            method["method"].as_str().unwrap_or_default(),
            cell("round_trip_us", 1.0),
            cell("messages_per_second", 1e6),
            cell("bytes_per_second", 1e9),
        );
        if let Some(failure) = method["failure"].as_str() {
            println!("    failed: {failure}");
        }
    }
    for missing in list(report, "missing") {
        println!("  {} is missing: {}", missing["program"], missing["install"]);
    }
}
