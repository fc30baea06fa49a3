//! A store as a service: a million values of 1 KiB, read and written in three mixes, beside bare calls that bring as many bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use weft_object::service;
use weft_object::service::Blob;
use weft_transport::{Connection, Endpoint};

use crate::Args;

/// How many values there are, and how long each is, in bytes.
const VALUES: u64 = 1_000_000;
pub(crate) const VALUE_BYTES: usize = 1 << 10;

/// How many calls are under way at once.
const DEPTH: u64 = 32;

/// Of a hundred calls, those that read.
const READS: [u32; 3] = [50, 95, 100];

/// Parts of the store, each behind a lock.
const PARTS: usize = 64;

#[service]
pub(crate) trait Store {
    fn get(&self, key: u64) -> Option<Blob>;
    fn put(&self, key: u64, value: &[u8]);
}

/// Values in hash maps.
#[derive(Default)]
pub(crate) struct Maps {
    parts: Vec<Mutex<HashMap<u64, Arc<[u8]>>>>,
}

impl Maps {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    fn part(&self, key: u64) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<[u8]>>> {
        self.parts[key as usize % PARTS].lock().expect("nobody panics in here")
    }
}

impl Store for Maps {
    fn get(&self, key: u64) -> Option<Blob> {
        self.part(key).get(&key).cloned().map(Blob::from)
    }

    fn put(&self, key: u64, value: &[u8]) {
        let before = self.part(key).insert(key, value.into());
        drop(before);
    }
}

/// Fills the store, and prints what each mix takes, a line each.
pub(crate) fn run(
    args: &Args,
    client: &StoreClient,
    calls: &Endpoint,
    (bare, bare_endpoint): (&Connection, &Endpoint),
) -> Result<()> {
    let value = vec![1; VALUE_BYTES];
    let fill = (0..DEPTH).map(async |lane| -> Result<()> {
        for key in (lane..VALUES).step_by(DEPTH as usize) {
            client.put(key, &value).await?;
        }
        Ok(())
    });
    calls.block_on(join_all(fill)).into_iter().collect::<Result<()>>()?;
    let count = u64::from(args.calls) * 10 / DEPTH;
    for reads in READS {
        let (mut bare_rates, mut rates) = (Vec::new(), Vec::new());
        for round in 0..args.rounds as u64 {
            let began = Instant::now();
            let lanes = (0..DEPTH).map(async |_| -> Result<()> {
                for _ in 0..count {
                    let deadline = bare_endpoint.clock().now() + Duration::from_secs(10);
                    let reply = bare.call(b"+ as long as a get is..", deadline).await?;
                    ensure!(reply.len() == VALUE_BYTES, "a value is as long as it is");
                }
                Ok(())
            });
            bare_endpoint.block_on(join_all(lanes)).into_iter().collect::<Result<()>>()?;
            bare_rates.push(rate(count * DEPTH, began));
            let began = Instant::now();
            let value = &value;
            let lanes = (0..DEPTH).map(async |lane| -> Result<()> {
                let mut random = SmallRng::seed_from_u64(round << 32 | lane);
                for _ in 0..count {
                    let key = random.random_range(0..VALUES);
                    if random.random_range(0..100) < reads {
                        let found = client.get(key).await?;
                        ensure!(
                            found.is_some_and(|found| found.len() == VALUE_BYTES),
                            "it is there"
                        );
                    } else {
                        client.put(key, value).await?;
                    }
                }
                Ok(())
            });
            calls.block_on(join_all(lanes)).into_iter().collect::<Result<()>>()?;
            rates.push(rate(count * DEPTH, began));
        }
        let ratios = rates.iter().zip(&bare_rates).map(|(ours, bare)| ours / bare).collect();
        let ratio = crate::caller::median(ratios);
        let [bare, service] = [bare_rates, rates].map(crate::caller::median);
        let report = json!({
            "case": "store",
            "reads": reads,
            "depth": DEPTH,
            "calls_per_second": { "bare": bare.round(), "service": service.round() },
            "ratio": { "bare": ratio },
        });
        println!("{report}");
    }
    Ok(())
}

fn rate(calls: u64, began: Instant) -> f64 {
    calls as f64 / began.elapsed().as_secs_f64()
}
