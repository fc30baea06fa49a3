//! `object_reads`: reads objects of a running cluster, one by one or many at a time, and says how many come and how soon. What
//! `ycsb` does not ask: multi-gets, and values of a size alone, without records and their checks.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures and prints")]

use std::cell::RefCell;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use weft_client::{Client, ClientConfig, ClientError, LinkPolicy, Lookup, PollPolicy};
use weft_transport::Time;

/// Read objects of a cluster, and print what that took as JSON
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, value_name = "ADDRESS")]
    cluster: String,
    /// Store the objects first
    #[arg(long)]
    load: bool,
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 32)]
    value_size: usize,
    /// Keys of a request: more than one are a multi-get
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Requests that are under way at a time, from one thread
    #[arg(long, default_value_t = 1)]
    concurrency: u64,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, default_value = "adaptive")]
    poll: PollPolicy,
    #[arg(long, default_value = "tcp")]
    link: LinkPolicy,
}

/// How many bytes of values, about, one multi-put stores.
const LOAD_BYTES: usize = 8 << 20;

/// What is read before it counts, in parts of what does.
const WARM_UP: f64 = 0.2;

/// Latencies are told apart to a thousandth, up to a minute, in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.keys > 0 && args.batch > 0, "--keys and --batch are at least 1");
    let mut config = ClientConfig::new([args.cluster.clone()]);
    (config.poll, config.link) = (args.poll, args.link);
    let client = Client::connect_blocking(config).context("cannot connect")?;
    if args.load {
        client.block_on(load(&client, &args)).context("cannot store the objects")?;
    }
    let warm_up = Duration::try_from_secs_f64(args.seconds * WARM_UP).context("--seconds")?;
    client.block_on(read(&client, &args, warm_up))?;
    let measured = Duration::try_from_secs_f64(args.seconds).context("--seconds")?;
    let (elapsed, latency) = client.block_on(read(&client, &args, measured))?;
    let keys_a_second = (latency.len() * args.batch as u64) as f64 / elapsed.as_secs_f64();
    let us = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    let report = json!({
        "keys_a_second": keys_a_second,
        "bytes_a_second": keys_a_second * args.value_size as f64,
        "requests": latency.len(),
        "p50_us": us(0.5),
        "p99_us": us(0.99),
        "p999_us": us(0.999),
    });
    writeln!(std::io::stdout(), "{report}").context("failed to print")
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"read............";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

async fn load(client: &Client, args: &Args) -> Result<(), ClientError> {
    let value = vec![7; args.value_size];
    let step = (LOAD_BYTES / args.value_size.max(100)).max(1) as u64;
    for begin in (0..args.keys).step_by(step as usize) {
        let end = (begin + step).min(args.keys);
        let pairs: Vec<_> = (begin..end).map(|number| (key(number), &value)).collect();
        client.multi_put(&pairs).try_collect().await?;
    }
    Ok(())
}

/// Reads keys drawn uniformly for so long. Returns how long it took, and how long each request did.
async fn read(
    client: &Client,
    args: &Args,
    duration: Duration,
) -> Result<(Duration, Histogram<u64>)> {
    let clock = client.endpoint().clock();
    let begun = clock.now();
    let latency = RefCell::new(Histogram::new_with_max(LATENCY_MAX, 3)?);
    let mut requesters = (0..args.concurrency)
        .map(|seed| request(client, args, seed, begun + duration, &latency))
        .collect::<FuturesUnordered<_>>();
    while let Some(ended) = requesters.next().await {
        ended?;
    }
    drop(requesters);
    Ok((clock.now().since(begun), latency.into_inner()))
}

/// One request after the other until `end`.
async fn request(
    client: &Client,
    args: &Args,
    seed: u64,
    end: Time,
    latency: &RefCell<Histogram<u64>>,
) -> Result<()> {
    let clock = client.endpoint().clock();
    let mut random = StdRng::seed_from_u64(seed);
    let mut keys = vec![key(0); args.batch];
    let is_whole = |lookup: &Lookup| match lookup {
        Lookup::Found(object) => object.len() == args.value_size,
        Lookup::Absent { .. } => false,
    };
    let mut begin = clock.now();
    while begin < end {
        keys.fill_with(|| key(random.random_range(0..args.keys)));
        if let [key] = &keys[..] {
            ensure!(is_whole(&client.get(key).await?), "an object is not as it was stored");
        } else {
            let mut found = client.multi_get(&keys);
            while let Some(outcome) = found.next().await {
                let (_, lookup) = outcome.map_err(|(_, error)| error)?;
                ensure!(is_whole(&lookup), "an object is not as it was stored");
            }
        }
        let ended = clock.now();
        let nanos = u64::try_from(ended.since(begin).as_nanos()).unwrap_or(LATENCY_MAX);
        latency.borrow_mut().saturating_record(nanos);
        begin = ended;
    }
    Ok(())
}
