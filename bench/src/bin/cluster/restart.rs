//! All nodes at once: stopped in good order or killed, under load, and started again from their directories.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use weft_client::{Client, Durability};

use crate::ledger::{Ledger, key};
use crate::load::{self, Load, keys_by_partition};
use crate::setup::{PATIENCE, Setup};

/// How long there is load before all nodes go.
const BEFORE: Duration = Duration::from_secs(3);

/// How all nodes go.
#[derive(Debug, Clone, Copy)]
enum End {
    Stopped,
    Killed,
}

/// What has to outlive all nodes, and how they go.
const CASES: [(Durability, End); 3] = [
    (Durability::Disk, End::Stopped),
    (Durability::Fsync, End::Stopped),
    (Durability::Fsync, End::Killed),
];

/// Takes all cases, each so many times.
pub(crate) fn run(setup: &Setup, rounds: u32) -> Result<Value> {
    let mut reports = Vec::new();
    for _ in 0..rounds {
        for (durability, end) in CASES {
            let report = once(setup, durability, end)?;
            eprintln!("{report}");
            reports.push(report);
        }
    }
    Ok(json!({"keys": setup.keys, "reports": reports}))
}

fn once(setup: &Setup, durability: Durability, end: End) -> Result<Value> {
    let mut cluster = setup.cluster(3, durability)?;
    let client = setup.client(&cluster)?;
    let ledger = Ledger::new(setup.keys);
    load::fill(&client, &ledger)?;
    let load = Load::new(&client, &ledger, setup.rate);
    let (writes, took) = thread::scope(|scope| {
        let asking = scope.spawn(|| load.run());
        thread::sleep(BEFORE);
        let began = Instant::now();
        let ended = match end {
            End::Stopped => cluster.servers.stop_all(),
            End::Killed => cluster.servers.kill_all(),
        };
        let took = began.elapsed();
        load.end();
        // Whoever asked when all were gone is told so by its deadline.
        asking.join().expect("the load does not panic")?;
        ended?;
        let writes = load.take_answers().iter().filter(|answer| answer.is_write).count();
        anyhow::Ok((writes, took))
    })?;
    drop(client);

    let began = Instant::now();
    cluster.servers.start_all()?;
    let client = setup.client(&cluster)?;
    wait_until_served(&client, &ledger, began)?;
    let serving = began.elapsed();
    cluster.whole()?;
    let whole = began.elapsed();
    let faults = load::verify(&client, &ledger);
    let megabytes = ledger.bytes() as f64 / 1e6;
    Ok(json!({
        "durability": durability.name(),
        "end": format!("{end:?}").to_lowercase(),
        "writes_before": writes,
        "ending_s": took.as_secs_f64(),
        "serving_s": serving.as_secs_f64(),
        "whole_s": whole.as_secs_f64(),
        "payload_mb": megabytes,
        "mb_a_second": megabytes / serving.as_secs_f64(),
        "at_the_end": faults.to_json(),
    }))
}

/// Returns when a key of each partition was read.
fn wait_until_served(client: &Client, ledger: &Ledger, began: Instant) -> Result<()> {
    // Of a map that a node tells before it knows of any partition there is nothing to be seen.
    let mut waiting: BTreeMap<u16, Vec<u32>> = loop {
        let keys = keys_by_partition(client, ledger);
        if !keys.is_empty() {
            break keys;
        }
        client.block_on(client.get(key(0))).ok();
        if began.elapsed() > PATIENCE {
            bail!("the cluster has no partitions");
        }
    };
    while let Some((partition, keys)) = waiting.first_key_value() {
        if client.block_on(client.get(key(keys[0]))).is_ok() {
            let partition = *partition;
            waiting.remove(&partition);
        } else if began.elapsed() > PATIENCE {
            bail!("partition {partition} is not served");
        }
    }
    Ok(())
}
