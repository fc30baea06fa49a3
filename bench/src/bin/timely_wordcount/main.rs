//! `timely_wordcount`: counts the words of a text with Timely Dataflow, in processes as Weft's
//! workers are. With `--combine`, as who knows Timely would write it: a worker counts its own words
//! and sends only these counts.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program that reads, measures time and prints")]

mod count;
mod text;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use serde::{Deserialize, Serialize};
use weft_bench::timely_cluster;

/// Count the words of a text with Timely Dataflow, and print seconds and the result as JSON
#[derive(Clone, Debug, Parser)]
struct Args {
    /// Plain text, whose words lie between ASCII whitespace
    #[arg(long)]
    input: PathBuf,
    /// Processes, 1 to 64
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: u8,
    /// Count each worker's words before they are sent
    #[arg(long)]
    combine: bool,
    /// How many of the most frequent words to print
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Be this worker
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

/// What one worker has counted: words that no other has.
#[derive(Serialize, Deserialize)]
struct Report {
    seconds: f64,
    bytes: u64,
    words: u64,
    distinct: u64,
    /// The sum of what [`checksum`] says of each.
    checksum: u64,
    top: Vec<Frequent>,
}

#[derive(Serialize, Deserialize)]
struct Frequent {
    word: String,
    count: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let workers = usize::from(args.workers);
    if let Some(worker) = args.worker {
        return timely_cluster::join(worker, workers, move |worker| {
            Ok(report(count::count(worker, &args.input, args.combine)?, args.top))
        });
    }
    let reports: Vec<Report> = timely_cluster::start(workers)?;
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let counted = serde_json::json!({
        "workers": workers,
        "combine": args.combine,
        "bytes": sum(|report| report.bytes),
        "words": sum(|report| report.words),
        "distinct": sum(|report| report.distinct),
        "seconds": reports.iter().map(|report| report.seconds).fold(0.0, f64::max),
        "checksum": reports.iter().fold(0, |sum: u64, report| sum.wrapping_add(report.checksum)),
        "top": most_frequent(reports.into_iter().flat_map(|report| report.top), args.top),
    });
    writeln!(std::io::stdout(), "{counted}").context("cannot print")
}

fn report(counted: count::Counted, top: usize) -> Report {
    let count::Counted { counts, bytes, seconds } = counted;
    let sum = counts.iter().map(|(word, count)| checksum(word, *count));
    let frequent = counts.iter().map(|(word, count)| Frequent {
        word: String::from_utf8_lossy(word).into_owned(),
        count: *count,
    });
    Report {
        seconds,
        bytes,
        words: counts.values().sum(),
        distinct: counts.len() as u64,
        checksum: sum.fold(0, u64::wrapping_add),
        top: most_frequent(frequent, top),
    }
}

/// The highest counts first; of equal ones, the lower word.
fn most_frequent(words: impl Iterator<Item = Frequent>, top: usize) -> Vec<Frequent> {
    let mut words: Vec<Frequent> = words.collect();
    words.sort_unstable_by(|one, other| {
        other.count.cmp(&one.count).then_with(|| one.word.cmp(&other.word))
    });
    words.truncate(top);
    words
}

/// What a word adds to the checksum, modulo 2^64: its CRC-32, as zlib has it, times its count. The
/// sum is the same for the same counts, whoever counted.
fn checksum(word: &[u8], count: u64) -> u64 {
    u64::from(crc32fast::hash(word)).wrapping_mul(count)
}
