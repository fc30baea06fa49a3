//! What a million small objects cost: by the node's own account, and by what the kernel counts.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use crate::command;
use crate::playground::Playground;
use crate::ycsb::{Mode, Target, Ycsb, report_path};

const KEYS: u64 = 1_000_000;
const REQUESTERS: u32 = 100;

/// Bytes a key that are wanted at most: what valkey takes for the same objects.
const BYTES_A_KEY_WANTED: f64 = 112.0;

/// How far the kernel's count may be from the account.
const DISAGREEMENT_WANTED: f64 = 0.1;

/// Loads a fresh node once: memory does not vary from round to round.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let playground =
        Playground::start(bench.workspace, 1, &bench.folder.join("playground"), None, None)?;
    let node = playground.nodes().first().context("the playground has no node")?;
    let resident_before = node.resident_bytes()?;
    let account_before = account(&playground)?;

    let target = Target::Weft { cluster: playground.cluster().to_owned() };
    Ycsb::load(bench.workspace, None)
        .target(&target, Mode::Async, REQUESTERS)
        .workload("workloadc")
        .property("recordcount", KEYS)
        .property("fieldcount", 1)
        .property("fieldlength", 32)
        .property("insertorder", "ordered")
        .property("zeropadding", 12)
        .report(&report_path(&bench.folder, &target, Mode::Async, "load"))?;

    let account = account(&playground)?;
    let account_growth = account.saturating_sub(account_before);
    let resident_growth = node.resident_bytes()?.saturating_sub(resident_before);
    let a_key = |bytes: u64| bytes as f64 / KEYS as f64;
    let disagreement = (resident_growth as f64 / account_growth as f64 - 1.0).abs();
    println!("\n{KEYS} keys of 16 B with values of 32 B, B a key");
    println!("account          {:>7.1} (at most {BYTES_A_KEY_WANTED} wanted)", a_key(account));
    println!("its growth       {:>7.1}", a_key(account_growth));
    println!(
        "resident growth  {:>7.1}, {:.1} % from the account's (at most {:.0} % wanted)",
        a_key(resident_growth),
        disagreement * 100.0,
        DISAGREEMENT_WANTED * 100.0
    );
    Ok(json!({
        "keys": KEYS,
        "account_bytes": account,
        "account_growth_bytes": account_growth,
        "resident_growth_bytes": resident_growth,
        "account_bytes_a_key": a_key(account),
        "account_growth_bytes_a_key": a_key(account_growth),
        "resident_growth_bytes_a_key": a_key(resident_growth),
    }))
}

/// The bytes that the node says are resident.
fn account(playground: &Playground) -> Result<u64> {
    let printed = command::output(playground.kv().args(["stat", "-o", "json"]))?;
    let stat: Value = serde_json::from_str(&printed)?;
    let nodes = stat["nodes"].as_array();
    let resident = nodes.and_then(|nodes| nodes.first()?["memory"]["resident_bytes"].as_u64());
    resident.with_context(|| format!("`kv stat -o json` printed no resident bytes: {printed}"))
}
