//! The lines that a person reads of each report of `netbench`, beside what is wanted.

use serde_json::Value;

/// Both ways are to be so many times one way, where there are processors for it.
const BOTH_WAYS: f64 = 1.3;

/// Four nodes are to move so much of what two do.
const FOUR_NODES: f64 = 0.7;

/// A size that moves so many percent less bytes a second than the one before it is a dip, which netbench names; none is wanted.
const DIP_PERCENT: f64 = 20.0;

/// The p99.9 of small calls beside large transfers may be so many times that of the same calls alone.
const BESIDE: f64 = 3.0;

/// A round trip of 16 B over shared memory is to be so many times faster than one of sockets that block, and than one of sockets that
/// spin.
const STREAMS_FASTER: [f64; 2] = [4.0, 3.0];

/// Messages of which 64 are gathered are to be this part of what plain TCP carries with the same gathering.
const STREAMS_GATHERED: f64 = 0.9;

/// A node that is connected and quiet may take so much of a processor, in percent.
const IDLE_PERCENT: f64 = 1.0;

pub(super) fn both_ways(report: &Value) {
    cases(report, BOTH_WAYS);
}

pub(super) fn all_to_all(report: &Value) {
    cases(report, FOUR_NODES);
}

/// Small calls alone and beside large transfers.
pub(super) fn beside(report: &Value) {
    for case in list(report, "cases") {
        println!(
            "  beside {:<16} p50 {:>7.1} us, p99 {:>7.1}, p99.9 {:>7.1}, {:.2} times alone (at most {BESIDE} wanted), \
             {:.1} large ones a second",
            text(case, "beside"),
            number(case, "p50_us"),
            number(case, "p99_us"),
            number(case, "p999_us"),
            number(case, "p999_to_alone"),
            number(case, "large_per_second"),
        );
    }
}

/// Both levels beside the raw link.
pub(super) fn buffers(report: &Value) {
    for case in list(report, "sizes") {
        let methods = methods(case).map(|(name, method)| {
            let median = number(method, "median");
            let ratio = number(method, "ratio");
            let figure = if text(case, "figure") == "round_trip_us" {
                format!("{median:.2} us")
            } else {
                format!("{:.3} GB/s", median / 1e9)
            };
            format!("{name} {figure} ({ratio:.2})")
        });
        println!("  {:>8} B {}", number(case, "size"), methods.collect::<Vec<_>>().join(", "));
    }
    for member in ["posted_beats_copying_from", "registered_anew_beats_copying_from"] {
        println!("  {}: {}", member.replace('_', " "), report[member]);
    }
}

pub(super) fn stream_round_trips(report: &Value) {
    for case in list(report, "cases") {
        stream_case(case, "us", 1.0);
        let micros = |method: &str| stream_mean(case, method);
        let faster =
            [micros("tcp blocking"), micros("tcp busy")].map(|raw| raw / micros("streams shm"));
        let wanted = if case["size"] == 16 && case["connections"] == 1 {
            format!(" (at least {} and {} wanted)", STREAMS_FASTER[0], STREAMS_FASTER[1])
        } else {
            String::new()
        };
        println!(
            "      shm is {:.1} times faster than blocking, {:.1} times than busy{wanted}",
            faster[0], faster[1]
        );
    }
}

pub(super) fn stream_messages(report: &Value) {
    for case in list(report, "cases") {
        stream_case(case, "M/s", 1e6);
        let rate = |method: &str| stream_mean(case, method);
        let wanted = if case["flush"] == 64 {
            format!(" (at least {STREAMS_GATHERED} wanted)")
        } else {
            String::new()
        };
        println!(
            "      streams over tcp are at {:.2} of blocking, {:.2} of busy{wanted}",
            rate("streams tcp") / rate("tcp blocking"),
            rate("streams tcp") / rate("tcp busy"),
        );
    }
}

/// One case of streams, each method with its mean and standard deviation.
fn stream_case(case: &Value, unit: &str, scale: f64) {
    let methods = methods(case).map(|(name, method)| {
        let [mean, deviation] =
            ["mean", "standard_deviation"].map(|member| number(method, member) / scale);
        format!("{name} {mean:.3} ± {deviation:.3}")
    });
    let flush = case["flush"].as_u64().map_or(String::new(), |flush| format!(", {flush} a write"));
    println!(
        "  {:>6} B, {:>2} connections{flush}: {} {unit}",
        number(case, "size"),
        number(case, "connections"),
        methods.collect::<Vec<_>>().join(", ")
    );
}

fn stream_mean(case: &Value, method: &str) -> f64 {
    number(&case["methods"][method], "mean")
}

/// What was measured in turn, by name.
fn methods(case: &Value) -> impl Iterator<Item = (&String, &Value)> {
    case["methods"].as_object().into_iter().flatten()
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
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
            text(case, "name"),
            weft / 1e6,
            raw / 1e6,
            number(case, "ratio"),
            number(case, "to_first"),
        );
    }
}

pub(super) fn sizes(report: &Value) {
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
    if list(report, "dips").is_empty() {
        println!("  no size moves {DIP_PERCENT} % less bytes a second than the one before it");
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
}

pub(super) fn idle(report: &Value) {
    for case in list(report, "cases").iter().chain([&report["raw"]]) {
        let poll = text(case, "poll");
        let percent = number(case, "node_percent");
        let wanted = match poll {
            "adaptive" | "park" => format!(" (at most {IDLE_PERCENT} wanted)"),
            _ => String::new(),
        };
        println!("  quiet, {poll:<16} {percent:>8.3} % of a processor{wanted}");
    }
}

pub(super) fn peers(report: &Value) {
    for method in list(report, "methods") {
        let cell = |member: &str, scale: f64| {
            method[member].as_f64().map_or("-".to_owned(), |value| format!("{:.2}", value / scale))
        };
        println!(
            "  {:<34} {:>8} us {:>8} M/s {:>8} GB/s",
            text(method, "method"),
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
