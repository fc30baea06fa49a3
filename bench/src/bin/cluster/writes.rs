//! What it costs to have objects on two and on three nodes: tables of one cluster in turns, on nodes that share the processors.

use anyhow::Result;
use serde_json::{Value, json};
use weft_client::{Client, Durability, TableOptions};

use crate::rate::{self, Asked, What};
use crate::setup::{Cluster, Setup};

const REQUESTERS: u32 = 100;

/// More would show memory, and not what is between the nodes.
const KEYS_MAX: u32 = 100_000;

/// Measures a lone node, and then tables with one, two and three replicas on three nodes.
pub(crate) fn run(setup: &Setup, rounds: u32, seconds: f64) -> Result<Value> {
    let keys = setup.keys.min(KEYS_MAX);
    let asked = |what| Asked { what, keys, requesters: REQUESTERS, seconds };
    let measure = |cluster: &Cluster, client: &Client, what| {
        rate::measure(client, &cluster.servers, asked(what))
    };
    let mut reports = Vec::new();
    let alone = setup.cluster(1, Durability::Memory)?;
    let client = setup.client(&alone)?;
    rate::fill(&client, keys)?;
    for _ in 0..rounds {
        reports.push(json!({
            "nodes": 1,
            "puts": measure(&alone, &client, What::Puts)?,
            "gets": measure(&alone, &client, What::Gets)?,
        }));
    }
    drop((alone, client));

    let mut cluster = setup.cluster(3, Durability::Memory)?;
    let client = setup.client(&cluster)?;
    let mut tables = Vec::new();
    for replicas in 1..=3 {
        let options = TableOptions { replicas, ..TableOptions::default() };
        let name = format!("replicas-{replicas}");
        tables.push((replicas, client.block_on(client.create_table(&name, options))?));
    }
    cluster.whole()?;
    tables.iter().try_for_each(|(_, table)| rate::fill(table, keys))?;
    for _ in 0..rounds {
        for (replicas, table) in &tables {
            reports.push(json!({
                "nodes": 3,
                "replicas": replicas,
                "puts": measure(&cluster, table, What::Puts)?,
            }));
        }
        // Reads, of what has three replicas: one of them is asked.
        if let Some((replicas, table)) = tables.last() {
            reports.push(json!({
                "nodes": 3,
                "replicas": replicas,
                "gets": measure(&cluster, table, What::Gets)?,
            }));
        }
    }
    Ok(json!({"keys": keys, "requesters": REQUESTERS, "seconds": seconds, "reports": reports}))
}
