//! `kv bench`: a short mix of reads and writes, with figures. `ycsb` is the tool for comparisons.

mod load;

use std::time::Duration;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use serde_json::json;
use weft_client::PollPolicy;

use self::load::{Load, Measured};
use crate::args::Global;
use crate::duration;
use crate::number;
use crate::output::{Format, Output};

/// Run a short mix of reads and writes and print its figures; `ycsb` is the tool for comparisons
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// How many keys; they begin with `kv-bench:` and are deleted in the end
    #[arg(long, env = "WEFT_BENCH_KEYS", value_name = "N", default_value = "100000",
          value_parser = number::within(1..=100_000_000_u64))]
    keys: u64,

    /// Bytes of a value
    #[arg(long, env = "WEFT_BENCH_VALUE_SIZE", value_name = "BYTES", default_value = "32",
          value_parser = number::within(0..=900_000_u32))]
    value_size: u32,

    /// How long to measure, such as 3s
    #[arg(long, env = "WEFT_BENCH_DURATION", value_name = "DURATION", default_value = "3s",
          value_parser = duration::positive)]
    duration: Duration,

    /// How many requests are under way at a time, from one thread
    #[arg(long, env = "WEFT_BENCH_CONCURRENCY", value_name = "N", default_value = "100",
          value_parser = number::within(1..=100_000_u32))]
    concurrency: u32,

    /// How many of a hundred operations are reads
    #[arg(long, env = "WEFT_BENCH_READS", value_name = "PERCENT", default_value = "95",
          value_parser = number::within(0..=100_u32))]
    reads: u32,

    /// How the client waits: busy, adaptive or park
    #[arg(long, env = "WEFT_POLL", value_name = "POLICY", default_value = "adaptive")]
    poll: PollPolicy,

    /// Leave the keys where they are
    #[arg(long, env = "WEFT_BENCH_KEEP", value_parser = BoolishValueParser::new())]
    keep: bool,
}

impl Bench {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let client = global.connect_with(self.poll).context("cannot run the benchmark")?;
        let load = Load {
            keys: self.keys,
            value: vec![b'w'; self.value_size as usize],
            concurrency: self.concurrency,
            reads_percent: self.reads,
        };
        if let Err(error) = client.block_on(load.fill(&client)) {
            if !self.keep {
                // A node that is full stays so otherwise; that the keys could not be stored says more.
                let _ = client.block_on(load.clear(&client));
            }
            return Err(error).context("cannot store the benchmark's keys");
        }
        let measured = client.block_on(load.measure(&client, self.duration));
        if !self.keep {
            client.block_on(load.clear(&client)).context("cannot delete the benchmark's keys")?;
        }
        self.print(&measured, output)?;
        match &measured.first_error {
            Some(error) => Err(error.clone()).context("some operations failed, the first of them"),
            None => Ok(()),
        }
    }

    fn print(&self, measured: &Measured, output: &mut Output) -> anyhow::Result<()> {
        let operations = [("read", &measured.reads), ("write", &measured.writes)];
        if output.format == Format::Json {
            let figures = operations.map(|(name, kind)| {
                let us = |quantile| kind.latency.value_at_quantile(quantile) as f64 / 1e3;
                let figures = json!({
                    "count": kind.latency.len(),
                    "errors": kind.errors,
                    "ops_s": kind.latency.len() as f64 / measured.elapsed.as_secs_f64(),
                    "p50_us": us(0.5),
                    "p99_us": us(0.99),
                    "p999_us": us(0.999),
                    "max_us": kind.latency.max() as f64 / 1e3,
                });
                (name.to_owned(), figures)
            });
            output.json(&json!({
                "keys": self.keys,
                "value_bytes": self.value_size,
                "concurrency": self.concurrency,
                "duration_s": measured.elapsed.as_secs_f64(),
                "throughput_ops_s": measured.throughput(),
                "operations": serde_json::Map::from_iter(figures),
            }))?;
            return Ok(());
        }
        if output.format == Format::Raw {
            output.line(format!("{:.0}", measured.throughput()))?;
            return Ok(());
        }
        let rows = operations.map(|(name, kind)| {
            let us = |nanos: u64| format!("{:.1} us", nanos as f64 / 1e3);
            [
                name.to_owned(),
                format!("{:.0}", kind.latency.len() as f64 / measured.elapsed.as_secs_f64()),
                us(kind.latency.value_at_quantile(0.5)),
                us(kind.latency.value_at_quantile(0.99)),
                us(kind.latency.value_at_quantile(0.999)),
                us(kind.latency.max()),
                kind.errors.to_string(),
            ]
        });
        output.table(&["", "ops/s", "p50", "p99", "p99.9", "max", "errors"], rows, 1)?;
        output.line("")?;
        output.line(format!(
            "{:.0} operations a second; {} keys of {} bytes, {} requests at a time from one thread",
            measured.throughput(),
            self.keys,
            self.value_size,
            self.concurrency
        ))?;
        Ok(())
    }
}
