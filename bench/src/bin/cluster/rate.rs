//! As many requests as go, of so many requesters, and what processor time servers take for each.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use weft_client::{Client, ClientError};

use crate::ledger::{VALUE_BYTES, key};
use crate::servers::Servers;

/// What is asked before it counts.
const WARM_UP: Duration = Duration::from_millis(500);

/// Objects of one multi-operation.
const TOGETHER: u32 = 5_000;

/// Latencies are told apart to a thousandth, up to a minute, in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;

/// What requesters do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Puts,
    Gets,
}

/// What is asked of a table's `keys`.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) keys: u32,
    pub(crate) requesters: u32,
    pub(crate) seconds: f64,
}

/// Writes every key.
pub(crate) fn fill(client: &Client, keys: u32) -> Result<()> {
    for begin in (0..keys).step_by(TOGETHER as usize) {
        let pairs: Vec<_> = (begin..keys.min(begin + TOGETHER))
            .map(|number| (key(number), [1; VALUE_BYTES]))
            .collect();
        client.block_on(client.multi_put(&pairs).try_collect())?;
    }
    Ok(())
}

/// Asks, and reports requests a second, processor time of a request and how long they took.
pub(crate) fn measure(client: &Client, servers: &Servers, asked: Asked) -> Result<Value> {
    let for_so_long = |duration| {
        let latency = RefCell::new(Histogram::new_with_max(LATENCY_MAX, 3)?);
        let until = Instant::now() + duration;
        let requesters =
            (0..asked.requesters).map(|seed| request(client, asked, seed, until, &latency));
        let requesters: FuturesUnordered<_> = requesters.collect();
        let ended: Vec<Result<(), ClientError>> = client.block_on(requesters.collect());
        let ended: Result<(), _> = ended.into_iter().collect();
        ended.context("a request failed")?;
        anyhow::Ok(latency.into_inner())
    };
    for_so_long(WARM_UP)?;
    let (cpu_before, began) = (servers.cpu_seconds()?, Instant::now());
    let latency = for_so_long(Duration::try_from_secs_f64(asked.seconds)?)?;
    let (elapsed, cpu) = (began.elapsed(), servers.cpu_seconds()? - cpu_before);
    let us = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    Ok(json!({
        "ops_a_second": latency.len() as f64 / elapsed.as_secs_f64(),
        "cpu_us": cpu * 1e6 / latency.len() as f64,
        "p50_us": us(0.5),
        "p99_us": us(0.99),
    }))
}

async fn request(
    client: &Client,
    asked: Asked,
    seed: u32,
    until: Instant,
    latency: &RefCell<Histogram<u64>>,
) -> Result<(), ClientError> {
    let mut random = StdRng::seed_from_u64(seed.into());
    let mut began = Instant::now();
    while began < until {
        let key = key(random.random_range(0..asked.keys));
        match asked.what {
            What::Puts => client.put(key, [2; VALUE_BYTES]).await.map(drop)?,
            What::Gets => client.get(key).await.map(drop)?,
        }
        let ended = Instant::now();
        latency.borrow_mut().saturating_record(ended.duration_since(began).as_nanos() as u64);
        began = ended;
    }
    Ok(())
}
