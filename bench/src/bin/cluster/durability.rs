//! What it costs to have writes on disk: tables of one cluster in turns, beside a bare file that is synced after each write.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use weft_client::{Durability, TableOptions};

use crate::ledger::{KEY_BYTES, VALUE_BYTES};
use crate::rate::{self, Asked, What};
use crate::setup::Setup;

const REQUESTERS: u32 = 100;
const KEYS_MAX: u32 = 100_000;

/// Measures one node, and three that all have every object.
pub(crate) fn run(setup: &Setup, rounds: u32, seconds: f64) -> Result<Value> {
    let mut reports = Vec::new();
    for nodes in [1, 3] {
        let mut cluster = setup.cluster(nodes, Durability::Memory)?;
        let client = setup.client(&cluster)?;
        let keys = setup.keys.min(KEYS_MAX);
        let mut tables = Vec::new();
        for durability in Durability::ALL {
            let options =
                TableOptions { replicas: nodes as u8, durability, ..TableOptions::default() };
            let table = client.create_table(durability.name(), options);
            tables.push((durability, client.block_on(table)?));
        }
        cluster.whole()?;
        tables.iter().try_for_each(|(_, table)| rate::fill(table, keys))?;
        for _ in 0..rounds {
            let mut round = json!({"nodes": nodes});
            for (durability, table) in &tables {
                let all = Asked { what: What::Puts, keys, requesters: REQUESTERS, seconds };
                let (servers, name) = (&cluster.servers, durability.name());
                round[name] = rate::measure(table, servers, all)?;
                if *durability == Durability::Fsync {
                    let one = Asked { requesters: 1, ..all };
                    round["fsync_one_by_one"] = rate::measure(table, servers, one)?;
                }
            }
            round["bare_syncs_a_second"] = bare(setup, seconds)?.into();
            eprintln!("{round}");
            reports.push(round);
        }
    }
    Ok(json!({"requesters": REQUESTERS, "seconds": seconds, "reports": reports}))
}

/// How often a second one thread appends as much to a file as an object has, and syncs it.
fn bare(setup: &Setup, seconds: f64) -> Result<f64> {
    let path = setup.folder.join("bare");
    let mut file =
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let (began, whole) = (Instant::now(), Duration::try_from_secs_f64(seconds)?);
    let mut syncs = 0;
    while began.elapsed() < whole {
        file.write_all(&[7; KEY_BYTES + VALUE_BYTES])?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(f64::from(syncs) / began.elapsed().as_secs_f64())
}
