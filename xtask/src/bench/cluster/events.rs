//! What is said of nodes that are killed, stopped and started again.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Row, list, number};
use crate::bench::series::median;

const UNAVAILABLE_P50_MS: f64 = 1_000.0;
const UNAVAILABLE_MAX_MS: f64 = 2_000.0;
const OTHERS_SLOWER: f64 = 2.0;

pub(super) fn failover(report: &Value) -> Result<Vec<Row>> {
    let kills = list(report, "/kills")?;
    let unavailable = figures(kills, "/unavailable_ms")?;
    let whole = figures(kills, "/whole_after_s")?;
    let megabytes = number(report, "/payload_bytes")? / 1e6;
    let [before, after] = ["before", "after"].map(|when| format!("/others/p99_us_{when}"));
    let [before, after] = [number(report, &before)?, number(report, &after)?];
    let paced = number(report, "/others/paced_p99_us_after")?;
    let mut rows = vec![
        of_kills("failover, unavailable, p50", &unavailable)?
            .wanted("below 1 s", middle(&unavailable)? < UNAVAILABLE_P50_MS),
        Row::new("failover, unavailable, max", format!("{:.0} ms", most(&unavailable)))
            .wanted("below 2 s", most(&unavailable) < UNAVAILABLE_MAX_MS),
        of_kills(
            "failover, unavailable for reads, p50",
            &figures(kills, "/unavailable_reads_ms")?,
        )?,
        of_kills(
            "failover, unavailable for writes, p50",
            &figures(kills, "/unavailable_writes_ms")?,
        )?,
        Row::new(
            "failover, whole again after its start",
            format!(
                "{:.1} s ({:.1} to {:.1}), {:.0} MB: {:.0} MB/s",
                middle(&whole)?,
                least(&whole),
                most(&whole),
                megabytes,
                megabytes / middle(&whole)?
            ),
        ),
        Row::new(
            "other partitions, p99 before and after a kill",
            format!("{before:.0} and {after:.0} us: {:.2}", after / before),
        )
        .wanted(format!("at most {OTHERS_SLOWER}"), after <= OTHERS_SLOWER * before),
        Row::new(
            "the same, of requesters that do not wait",
            format!("{:.0} and {paced:.0} us", number(report, "/others/paced_p99_us_before")?),
        ),
    ];
    for (when, name) in [
        ("before", "before"),
        ("while_dead", "while it is dead"),
        ("while_filled", "while it is given its objects"),
    ] {
        for kind in ["reads", "writes"] {
            let of = |figure: &str| number(report, &format!("/others/{when}/{kind}/{figure}"));
            let figure = format!(
                "p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0} us",
                of("p50_us")?,
                of("p99_us")?,
                of("p999_us")?,
                of("max_us")?
            );
            rows.push(Row::new(format!("other partitions, {kind} {name}"), figure));
        }
    }
    rows.extend(account("failover", report)?);
    Ok(rows)
}

pub(super) fn coordinator(report: &Value) -> Result<Vec<Row>> {
    let kills = list(report, "/kills")?;
    let mut rows = vec![of_kills(
        "leader killed, its partitions unavailable",
        &figures(kills, "/unavailable_ms")?,
    )?];
    for kind in ["read", "write"] {
        let longest = figures(kills, &format!("/others_longest_{kind}_ms"))?;
        rows.push(of_kills(&format!("leader killed, longest {kind} of others"), &longest)?);
    }
    rows.extend(account("leader killed", report)?);
    Ok(rows)
}

pub(super) fn stopped(report: &Value) -> Result<Vec<Row>> {
    let rounds = list(report, "/rounds")?;
    let all = |pointer: &str| anyhow::Ok(figures(rounds, pointer)?.iter().sum::<f64>());
    let wrong = all("/wrong_reads_of_sleepers")?;
    let errors = all("/errors_of_sleepers")?;
    let figure = format!(
        "{wrong:.0} of {:.0}, by those who slept with an old map; {:.1} writes a key meanwhile",
        all("/reads_of_sleepers")?,
        all("/writes_a_key")? / rounds.len() as f64
    );
    let mut rows = vec![
        Row::new(format!("stopped {} times, wrong reads", rounds.len()), figure)
            .wanted("none", wrong == 0.0),
        Row::new("stopped, errors of these", format!("{errors:.0}")).wanted("none", errors == 0.0),
    ];
    rows.extend(account("stopped", report)?);
    Ok(rows)
}

pub(super) fn restart(report: &Value) -> Result<Vec<Row>> {
    let reports = list(report, "/reports")?;
    let case = |report: &Value| {
        let text = |name: &str| report[name].as_str().map(str::to_owned);
        Some((text("durability")?, text("end")?))
    };
    let mut cases: Vec<_> = reports.iter().filter_map(case).collect();
    cases.sort();
    cases.dedup();
    let mut rows = Vec::new();
    for (durability, end) in cases {
        let is_it = |report: &&Value| report["durability"] == *durability && report["end"] == *end;
        let of_case: Vec<Value> = reports.iter().filter(is_it).cloned().collect();
        let serving = figures(&of_case, "/serving_s")?;
        let rate = figures(&of_case, "/mb_a_second")?;
        let megabytes = figures(&of_case, "/payload_mb")?;
        let figure = format!(
            "{:.2} s ({:.2} to {:.2}), {:.0} MB: {:.0} MB/s",
            middle(&serving)?,
            least(&serving),
            most(&serving),
            middle(&megabytes)?,
            middle(&rate)?
        );
        let name = format!("all nodes {end}, {durability}");
        rows.push(Row::new(format!("{name}, serving again after"), figure));
        let wrong = of_case.iter().map(|report| wrong(report, "/at_the_end"));
        let wrong: f64 = wrong.collect::<Result<Vec<_>>>()?.iter().sum();
        rows.push(
            Row::new(format!("{name}, acknowledged writes lost"), format!("{wrong:.0}"))
                .wanted("none", wrong == 0.0),
        );
    }
    Ok(rows)
}

/// What was told to anybody that should not have been, and what was lost.
fn account(part: &str, report: &Value) -> Result<[Row; 3]> {
    let errors = number(report, "/faults/errors")?;
    let stale = wrong(report, "/faults")?;
    let lost = wrong(report, "/at_the_end")? + number(report, "/at_the_end/errors")?;
    let none = |what: &str, count: f64| {
        Row::new(format!("{part}, {what}"), format!("{count:.0}")).wanted("none", count == 0.0)
    };
    Ok([
        none("errors", errors),
        none("stale or wrong reads", stale),
        none("acknowledged writes lost", lost),
    ])
}

fn wrong(report: &Value, pointer: &str) -> Result<f64> {
    let kinds = ["stale", "absent", "garbled"];
    kinds.iter().map(|kind| number(report, &format!("{pointer}/{kind}"))).sum()
}

fn of_kills(what: &str, figures: &[f64]) -> Result<Row> {
    let figure = format!(
        "{:.0} ms ({:.0} to {:.0} in {} kills)",
        middle(figures)?,
        least(figures),
        most(figures),
        figures.len()
    );
    Ok(Row::new(what, figure))
}

fn figures(reports: &[Value], pointer: &str) -> Result<Vec<f64>> {
    reports.iter().map(|report| number(report, pointer)).collect()
}

fn middle(figures: &[f64]) -> Result<f64> {
    median(figures.iter().copied()).context("there were no rounds")
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::MAX, f64::min)
}

fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}
