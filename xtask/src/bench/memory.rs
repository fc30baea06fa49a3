//! What a million objects cost, small ones and some of a kilobyte: by the node's own account, and by what the kernel counts.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use crate::playground::{Playground, Setting};
use crate::ycsb::{Mode, Target, Ycsb, report_path};

const REQUESTERS: u32 = 100;

/// Room for the larger case, in which nothing is cleaned.
const MEMORY: &str = "3GiB";

const KEY_BYTES: u64 = 16;

/// How far the kernel's count may be from the account.
const DISAGREEMENT_WANTED: f64 = 0.02;

/// How long the node is left alone: what stands ready for what is written next has gone back to the system then.
const AT_REST: Duration = Duration::from_secs(1);

/// Objects of one size.
struct Case {
    keys: u64,
    value_bytes: u64,
    /// Bytes a key that are wanted at most.
    wanted: f64,
}

const CASES: [Case; 2] = [
    Case { keys: 1_000_000, value_bytes: 32, wanted: 90.0 },
    // Twelve in a hundred over what is stored.
    Case { keys: 1_000_000, value_bytes: 1_000, wanted: (KEY_BYTES + 1_000) as f64 * 1.12 },
];

/// Loads a fresh node for each case, once: memory does not vary from round to round.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    CASES.iter().map(|case| case.run(bench)).collect()
}

impl Case {
    fn run(&self, bench: &Bench<'_>) -> Result<Value> {
        let Case { keys, value_bytes, wanted } = *self;
        let folder = bench.folder.join("playground");
        let setting = Setting { memory: Some(MEMORY), ..Setting::default() };
        let playground = Playground::start(bench.workspace, 1, &folder, setting)?;
        let node = playground.nodes().first().context("the playground has no node")?;
        let account = || playground.counters()?.of("memory.resident_bytes");
        let resident_before = node.resident_bytes()?;
        let account_before = account()?;

        let target = Target::Weft { cluster: playground.cluster().to_owned() };
        Ycsb::load(bench.workspace, None)
            .target(&target, Mode::Async, REQUESTERS)
            .workload("workloadc")
            .property("recordcount", keys)
            .property("fieldcount", 1)
            .property("fieldlength", value_bytes)
            .property("insertorder", "ordered")
            .property("zeropadding", 12)
            .report(&report_path(&bench.folder, &target, Mode::Async, "load"))?;

        thread::sleep(AT_REST);
        let account = account()?;
        let account_growth = account.saturating_sub(account_before);
        let resident_growth = node.resident_bytes()?.saturating_sub(resident_before);
        let a_key = |bytes: u64| bytes as f64 / keys as f64;
        let disagreement = (resident_growth as f64 / account_growth as f64 - 1.0).abs();
        println!("\n{keys} keys of {KEY_BYTES} B with values of {value_bytes} B, B a key");
        println!("account          {:>7.1} (at most {wanted:.1} wanted)", a_key(account));
        println!("its growth       {:>7.1}", a_key(account_growth));
        println!(
            "resident growth  {:>7.1}, {:.1} % from the account's (at most {:.0} % wanted)",
            a_key(resident_growth),
            disagreement * 100.0,
            DISAGREEMENT_WANTED * 100.0
        );
        Ok(json!({
            "keys": keys,
            "value_bytes": value_bytes,
            "account_bytes": account,
            "account_growth_bytes": account_growth,
            "resident_growth_bytes": resident_growth,
            "account_bytes_a_key": a_key(account),
            "account_growth_bytes_a_key": a_key(account_growth),
            "resident_growth_bytes_a_key": a_key(resident_growth),
        }))
    }
}
