//! `fullness`: how much of a node's store may be live, with values of given lengths, so that all of it can be overwritten. Tries
//! less and less until nothing is refused, each time on a new node.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that measures and prints")]

use std::io::Write as _;
use std::num::NonZeroU16;
use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use weft_client::{Client, ClientConfig, ClientError, ErrorCode, stat_name};
use weft_server::config::{Config, Host, Settings};
use weft_server::node::Node;

/// Find how much of a node may be live, and print it as JSON, a line a range of lengths
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value = "64MiB")]
    memory: String,
    #[arg(long)]
    partitions: Option<NonZeroU16>,
    /// Lengths of values, drawn uniformly, such as 1000-64000
    #[arg(long, value_parser = lens, num_args = 1.., required = true)]
    lens: Vec<Range<usize>>,
    /// How often all is overwritten, in an order that is another one each time
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// What is tried first, in percent of what the index leaves to the log, and last
    #[arg(long, default_value_t = 94)]
    most: u64,
    #[arg(long, default_value_t = 60)]
    least: u64,
}

/// Bytes of values that are under way together, about.
const TOGETHER_BYTES: usize = 128 << 10;

fn lens(text: &str) -> Result<Range<usize>> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    Ok(least.parse()?..most.parse::<usize>()? + 1)
}

fn main() -> Result<()> {
    let args = Args::parse();
    for lens in &args.lens {
        let mut percent = args.most;
        while !holds(&args, lens, percent)? {
            percent -= 1;
            if percent < args.least {
                bail!("less than {} % with values of {lens:?} bytes", args.least);
            }
        }
        let lens = format!("{}-{}", lens.start, lens.end - 1);
        let report = json!({"memory": args.memory, "lens": lens, "percent": percent});
        writeln!(std::io::stdout(), "{report}").context("failed to print")?;
    }
    Ok(())
}

/// Whether a node of which `percent` is live takes all overwrites.
fn holds(args: &Args, lens: &Range<usize>, percent: u64) -> Result<bool> {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse()?),
        http: Some("off".parse()?),
        control: Some("off".parse()?),
        memory: Some(args.memory.parse()?),
        partitions: args.partitions,
        ..Settings::default()
    };
    let config = Config::resolve(settings, Host::of_this_process())?;
    let node = Node::start(&config)?;
    let client = ClientConfig::new([node.address().to_string()]);
    let client = Client::connect_blocking(client)?;
    let held = client.block_on(overwrite(&client, args, lens, percent));
    drop(client);
    drop(node);
    match held {
        Ok(()) => Ok(true),
        Err(error) if error.code() == ErrorCode::MemoryLimitReached => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn overwrite(
    client: &Client,
    args: &Args,
    lens: &Range<usize>,
    percent: u64,
) -> Result<(), ClientError> {
    let mut random = StdRng::seed_from_u64(1);
    let together = (TOGETHER_BYTES / lens.end).max(1);
    let value = vec![7_u8; lens.end];
    let mut objects: Vec<(u64, usize)> = Vec::new();
    loop {
        let stats = client.stats().await;
        let stats = stats[0].stats.as_ref().expect("the node answers");
        let of = |name: &str| stats.value(name).expect("it counts that");
        let limit = of(stat_name::MEMORY_LIMIT_BYTES);
        let store = limit - (limit / 8).clamp(16 << 20, 512 << 20) - of("store.index_bytes");
        if of(stat_name::LIVE_BYTES) * 100 >= store * percent {
            break;
        }
        let first = objects.len() as u64;
        let added: Vec<_> = (first..first + together as u64)
            .map(|number| (number, random.random_range(lens.clone())))
            .collect();
        let pairs: Vec<_> =
            added.iter().map(|&(number, len)| (number.to_le_bytes(), &value[..len])).collect();
        client.multi_put(&pairs).try_collect().await?;
        objects.extend(added);
    }
    for _ in 0..args.rounds {
        objects.shuffle(&mut random);
        for some in objects.chunks(together) {
            let pairs: Vec<_> =
                some.iter().map(|&(number, len)| (number.to_le_bytes(), &value[..len])).collect();
            client.multi_put(&pairs).try_collect().await?;
        }
    }
    Ok(())
}
