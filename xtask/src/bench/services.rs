//! Calls of a typed service, beside bare calls of the transport with as many bytes.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use crate::command;

/// What a call of nothing may take, of a bare call with no bytes.
const NULL_WANTED: f64 = 1.15;

/// Each case is measured as often as this a round.
const TIMES_A_ROUND: u32 = 2;

/// Takes all cases over shared memory and over TCP.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut links = Vec::new();
    for (link, name) in [("auto", "shared memory"), ("tcp", "TCP")] {
        let reports = over(bench, link)?;
        println!("\nover {name}: nanoseconds a call, one caller");
        table(&reports);
        let null = reports.iter().find(|report| report["case"] == "null");
        if let Some(ratio) = null.and_then(|report| report.pointer("/ratio/bare")?.as_f64()) {
            println!(
                "a call of nothing takes {ratio:.2} of a bare call (at most {NULL_WANTED} wanted)"
            );
        }
        for store in reports.iter().filter(|report| report["case"] == "store") {
            let rate = |of: &str| store["calls_per_second"][of].as_f64().unwrap_or(0.0) / 1e3;
            let (bare, service, reads) = (rate("bare"), rate("service"), &store["reads"]);
            println!(
                "a million values of 1 KiB, {reads} % reads, {} at once: {service:.0} thousand calls a second, bare ones that bring as much {bare:.0}",
                store["depth"]
            );
        }
        beside_tonic(&reports);
        links.push(json!({ "link": link, "cases": reports }));
    }
    Ok(json!(links))
}

fn over(bench: &Bench<'_>, link: &str) -> Result<Vec<Value>> {
    let mut run = Command::new("taskset");
    run.args(["--cpu-list", "1"]).arg(bench.workspace.release_program("services"));
    run.args(["--rounds", &(TIMES_A_ROUND * bench.rounds).to_string(), "--link", link]);
    println!("$ {}", command::line(&run));
    let printed = command::output(&mut run)?;
    let reports = printed
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("services printed {line}")));
    reports.collect()
}

fn table(reports: &[Value]) {
    println!(
        "{:<12}{:>7}{:>9}{:>9}{:>9}{:>12}{:>9}{:>10}{:>13}",
        "case",
        "size",
        "request",
        "build",
        "bare",
        "bare, alike",
        "service",
        "/ bare",
        "/ bare alike"
    );
    let is_call = |report: &&Value| report["request_bytes"].is_u64();
    for report in reports.iter().filter(is_call) {
        let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
        println!(
            "{:<12}{:>7}{:>9}{:>9}{:>9.0}{:>12.0}{:>9.0}{:>10.2}{:>13.2}",
            report["case"].as_str().unwrap_or_default(),
            number("/size"),
            number("/request_bytes"),
            number("/build_ns"),
            number("/ns/bare"),
            number("/ns/bare_alike"),
            number("/ns/service"),
            number("/ratio/bare"),
            number("/ratio/bare_alike"),
        );
    }
}

/// Echoes of texts, tonic's over TCP whatever ours go over; and what memory was taken by what came.
fn beside_tonic(reports: &[Value]) {
    for report in reports.iter().filter(|report| report["case"] == "tonic") {
        let us = |of: &str| report["ns"][of].as_f64().unwrap_or(0.0) / 1e3;
        println!(
            "a text of {} bytes there and back: {:.1} us, by tonic {:.1}, {:.1} times as long",
            report["size"],
            us("service"),
            us("tonic"),
            report["ratio"].as_f64().unwrap_or(0.0)
        );
    }
    for report in reports.iter().filter(|report| report["case"] == "mix") {
        let mib = |value: &Value| value.as_f64().unwrap_or(0.0) / f64::from(1 << 20);
        let held = &report["receive_bytes"];
        println!(
            "{} requests of 10 B to 1 MiB, {:.0} MiB: {:.2} MiB of memory held what was received before, {:.2} at most, {:.2} after",
            report["calls"],
            mib(&report["sent_bytes"]),
            mib(&held["before"]),
            mib(&held["most"]),
            mib(&held["after"])
        );
    }
}
