//! `index_choice`: ten million objects through one of the indexes that a partition could have: what it takes an object,
//! and what the worst insertion costs. Each in a process of its own, since memory is what the kernel says is resident.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures time and prints")]

mod candidates;
mod log;

use std::fs;
use std::hint::black_box;
use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use candidates::Candidate;
use log::KEY_BYTES;

/// Put objects with keys of 16 B and values of 32 B into a store with the given index, and print what that took as JSON
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, value_enum)]
    index: Candidate,
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Keys that are looked up when all are in
    #[arg(long, default_value_t = 2_000_000)]
    lookups: u64,
}

/// How often memory is looked at while the store fills: often enough to meet an index just after it has grown.
const SAMPLES: u64 = 200;

/// Below this part of all keys, what a store takes anyhow is counted for too much an object.
const SAMPLED_FROM: f64 = 0.1;

/// Lookups that a store may prepare for together.
const BATCH: usize = 32;

fn main() -> Result<()> {
    let Args { index, keys, lookups } = Args::parse();
    ensure!(keys >= SAMPLES, "--keys is at least {SAMPLES}");
    let mut store = index.store(keys)?;

    // Not zero, so that it is written now, and none of what grows below.
    let mut nanos = vec![1_u32; usize::try_from(keys)?];
    let taken = resident()?;
    let mut bytes_an_object = Vec::new();
    let mut end = processor_nanos();
    for number in 0..keys {
        store.put(&key(number), &[7; 32]);
        let begun = std::mem::replace(&mut end, processor_nanos());
        nanos[usize::try_from(number)?] = u32::try_from(end - begun).unwrap_or(u32::MAX);
        let done = number + 1;
        if done % (keys / SAMPLES) == 0 && done as f64 >= keys as f64 * SAMPLED_FROM {
            let index = resident()?.saturating_sub(taken + store.object_bytes());
            bytes_an_object.push(index as f64 / done as f64);
            end = processor_nanos();
        }
    }
    let total: u64 = nanos.iter().map(|nanos| u64::from(*nanos)).sum();
    let above = |limit: u32| nanos.iter().filter(|nanos| **nanos > limit).count();

    // In an order that no prefetcher foresees.
    let scattered = |i: u64| key((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % keys);
    let all: Vec<_> = (0..lookups).map(scattered).collect();
    let one_by_one = timed(|| all.iter().for_each(|key| assert!(black_box(store.get(key)))));
    let batched = timed(|| {
        for batch in all.chunks(BATCH) {
            store.prepare(batch);
            batch.iter().for_each(|key| assert!(black_box(store.get(key))));
        }
    });

    bytes_an_object.sort_by(f64::total_cmp);
    let report = json!({
        "index": index.name(),
        "keys": keys,
        "bytes_an_object": {
            "mean": bytes_an_object.iter().sum::<f64>() / bytes_an_object.len() as f64,
            "least": bytes_an_object.first(),
            "most": bytes_an_object.last(),
            "by_account": store.account_bytes().map(|bytes| bytes as f64 / keys as f64),
        },
        "put": {
            "mean_ns": total as f64 / keys as f64,
            "worst_us": f64::from(nanos.iter().copied().max().unwrap_or_default()) / 1e3,
            "above_100_us": above(100_000),
            "above_1_ms": above(1_000_000),
        },
        "get_ns": one_by_one / lookups as f64,
        "get_batched_ns": batched / lookups as f64,
    });
    writeln!(std::io::stdout(), "{report}").context("failed to print")
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user............";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Of this thread: what else runs on the machine is none of the index's.
fn processor_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = processor_nanos();
    work();
    (processor_nanos() - begun) as f64
}

/// What of this process is resident, in bytes.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("no /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.strip_suffix(" kB"));
    let kib = kib.context("no VmRSS in /proc/self/status")?.trim();
    Ok(1024 * kib.parse::<u64>()?)
}
