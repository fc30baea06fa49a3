//! Graphs of objects from one process to another, beside what encodes and decodes, and beside bytes that nobody looks at.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Bench, series};
use crate::command;

const LINKS: [&str; 2] = ["shm", "tcp"];

/// How much longer than raw bytes a graph may take, and from which size on it is to be faster than what is encoded.
const OF_RAW_WANTED: f64 = 1.3;
const FASTER_FROM: u64 = 6;
/// What checking as it comes is to leave of the time.
const PIPELINED_WANTED: f64 = 0.8;

/// The figures of one experiment, link, shape and size, by format or what else is told apart, round by round.
type Figures = BTreeMap<(String, String, String, u64), BTreeMap<String, Vec<f64>>>;

/// Takes all experiments over both links.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let mut figures = Figures::new();
    let mut reports = Vec::new();
    for _ in bench.each_round() {
        for link in LINKS {
            let mut run = Command::new("taskset");
            run.args(["--cpu-list", "0"]).arg(bench.workspace.release_program("transfer"));
            run.args(["--link", link, "--receiver-cpu", "1"]);
            println!("$ {}", command::line(&run));
            let printed = command::output(&mut run)?;
            for line in printed.lines() {
                let report: Value = serde_json::from_str(line)
                    .with_context(|| format!("transfer printed {line}"))?;
                note(&mut figures, &report);
                reports.push(report);
            }
        }
    }
    latencies(&figures);
    rates(&figures, "throughput", "graphs in a second, 32 under way, in thousands", 1e3);
    rates(
        &figures,
        "streaming",
        "2^20 elements built, sent and checked, by 2^n in a graph: million elements in a second",
        1e6,
    );
    pipelining(&figures);
    lending(&figures);
    Ok(json!(reports))
}

fn note(figures: &mut Figures, report: &Value) {
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let logarithm = report["logarithm"].as_u64().unwrap_or_default();
    let key = (text("experiment"), text("link"), text("shape"), logarithm);
    let found = &report["found"];
    let mut add = |name: &str, figure: &Value| {
        let of = figures.entry(key.clone()).or_default().entry(name.to_owned()).or_default();
        of.extend(figure.as_f64());
    };
    let format = text("format");
    match key.0.as_str() {
        "latency" => {
            add(&format, &found["took"]["p50"]);
            add(&format!("{format} p5"), &found["took"]["p5"]);
            add(&format!("{format} p95"), &found["took"]["p95"]);
        }
        "throughput" => add(&format, &found["took"]["rate"]),
        "streaming" => add(&format, &found["rate"]),
        "lending" => {
            add("copied", &found["copied"]["p50"]);
            add("lent", &found["lent"]["p50"]);
        }
        _ => {
            add("as it comes", &found["as_it_comes"]);
            add("when all is there", &found["when_all_is_there"]);
        }
    }
    if found["bytes"].is_u64() {
        add(&format!("{format} bytes"), &found["bytes"]);
    }
}

fn median(of: &BTreeMap<String, Vec<f64>>, name: &str) -> Option<f64> {
    series::median(of.get(name)?.iter().copied())
}

fn latencies(figures: &Figures) {
    println!(
        "\none graph after the other: microseconds until the receiver has checked it, and bytes on the wire"
    );
    println!(
        "{:<5}{:<8}{:>5}{:>9}{:>18}{:>9}{:>9}{:>9}{:>8}{:>7}{:>9}{:>10}{:>10}",
        "link",
        "shape",
        "2^n",
        "weft",
        "p5 to p95",
        "raw",
        "rkyv",
        "bitcode",
        "of raw",
        "rkyv",
        "bitcode",
        "weft, B",
        "rkyv, B"
    );
    for ((experiment, link, shape, logarithm), of) in figures {
        if experiment != "latency" {
            continue;
        }
        let number = |name: &str| median(of, name).unwrap_or(f64::NAN);
        let (ours, raw) = (number("weft"), number("raw"));
        let (rkyv, bitcode) = (number("rkyv"), number("bitcode"));
        let spread = format!("{:.1} to {:.1}", number("weft p5"), number("weft p95"));
        let raw_flag = if ours <= OF_RAW_WANTED * raw { ' ' } else { '!' };
        let is_faster = *logarithm < FASTER_FROM || ours < rkyv.min(bitcode);
        let flag = if is_faster { ' ' } else { '!' };
        println!(
            "{link:<5}{shape:<8}{logarithm:>5}{ours:>9.2}{spread:>18}{raw:>9.2}{rkyv:>9.2}{bitcode:>9.2}{:>7.2}{raw_flag}{:>7.2}{:>8.2}{flag}{:>10.0}{:>10.0}",
            ours / raw,
            rkyv / ours,
            bitcode / ours,
            number("weft bytes"),
            number("rkyv bytes"),
        );
    }
    println!("!: more than {OF_RAW_WANTED} of raw, or no faster than both from 2^{FASTER_FROM} on");
}

fn rates(figures: &Figures, experiment: &str, title: &str, unit: f64) {
    println!("\n{title}");
    println!(
        "{:<5}{:<8}{:>5}{:>10}{:>10}{:>10}{:>10}{:>9}{:>8}{:>9}",
        "link", "shape", "2^n", "weft", "raw", "rkyv", "bitcode", "raw /", "/ rkyv", "/ bitcode"
    );
    for ((of_experiment, link, shape, logarithm), of) in figures {
        if of_experiment != experiment {
            continue;
        }
        let number = |name: &str| median(of, name).unwrap_or(f64::NAN) / unit;
        let (ours, raw) = (number("weft"), number("raw"));
        let (rkyv, bitcode) = (number("rkyv"), number("bitcode"));
        // Streams have no raw bytes beside them.
        let beside = |figure: f64, decimals: usize| match figure.is_nan() {
            true => "-".to_owned(),
            false => format!("{figure:.decimals$}"),
        };
        println!(
            "{link:<5}{shape:<8}{logarithm:>5}{ours:>10.1}{:>10}{rkyv:>10.1}{bitcode:>10.1}{:>9}{:>8.2}{:>9.2}",
            beside(raw, 1),
            beside(raw / ours, 2),
            ours / rkyv,
            ours / bitcode,
        );
    }
}

fn pipelining(figures: &Figures) {
    println!("\n2^20 elements in one graph: microseconds until it is checked");
    for ((experiment, link, shape, _), of) in figures {
        let (piped, late) = (median(of, "as it comes"), median(of, "when all is there"));
        let (true, Some(piped), Some(late)) = (experiment == "pipelining", piped, late) else {
            continue;
        };
        println!(
            "{link:<5}{shape:<8}{piped:>9.0} as it comes, {late:.0} when all is there: {:.2} (at most {PIPELINED_WANTED} wanted where there is something to check)",
            piped / late
        );
    }
}

fn lending(figures: &Figures) {
    println!(
        "\nfloats that lie elsewhere: microseconds to build and send a graph with so many bytes of them"
    );
    for ((experiment, link, _, logarithm), of) in figures {
        let (copied, lent) = (median(of, "copied"), median(of, "lent"));
        if let ("lending", Some(copied), Some(lent)) = (experiment.as_str(), copied, lent) {
            let bytes = 1_u64 << logarithm;
            println!("{link:<5}{bytes:>9} B{copied:>9.2} copied, {lent:.2} sent from there");
        }
    }
}
