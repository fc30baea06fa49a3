//! What cleaning costs: a node nine tenths of whose log are live, beside one with the same records and so much room
//! that nothing is ever cleaned.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Bench;
use super::series::{Better, Series};
use crate::playground::{Playground, Setting};
use crate::ycsb::{Mode, Report, Target, Ycsb, report_path};

/// Of which seven eighths are the store's.
const FULL: &str = "512MiB";
const ROOMY: &str = "8GiB";
/// Records of about 1,050 B in the log: nine tenths of what is the store's of [`FULL`], without the index.
const RECORDS: u64 = 400_000;
const VALUE_BYTES: u64 = 1_000;
const OVERWRITES: u64 = 20;
const REQUESTERS: u32 = 32;
/// Operations a second of the reads that are timed, half of them beside as many writes.
const RATE: u32 = 100_000;
const SERVER_CPU: Option<u32> = Some(0);
const DRIVER_CPU: Option<u32> = Some(1);

/// How much longer reads may take at the 99.9th percentile while the cleaner works.
const SLOWER_WANTED: f64 = 2.0;
/// How much more than values and index the memory may be, after all overwrites.
const MEMORY_WANTED: f64 = 1.25;

/// A node with the records in it.
struct Filled<'a> {
    bench: &'a Bench<'a>,
    name: &'static str,
    playground: Playground,
}

/// What a node holds and has done, in bytes.
struct Figures {
    live: u64,
    log: u64,
    index: u64,
    resident: u64,
    limit: u64,
    moved: u64,
    freed: u64,
    written: u64,
}

/// Loads both, overwrites both, and reads from both in turns.
pub(super) fn run(bench: &Bench<'_>) -> Result<Value> {
    let full = Filled::start(bench, "full", FULL)?;
    let roomy = Filled::start(bench, "roomy", ROOMY)?;

    let mut rates = Series::new(Better::Higher, None);
    let before = full.figures()?;
    let share = before.live as f64 / (before.limit * 7 / 8 - before.index) as f64;
    for round in bench.each_round() {
        let operations = RECORDS * OVERWRITES / u64::from(bench.rounds);
        let ours = full.overwrite(operations, round)?;
        let peer = roomy.overwrite(operations, round)?;
        rates.push(ours.throughput()? / 1e6, peer.throughput()? / 1e6);
    }
    let after = full.figures()?;
    if after.resident > after.limit {
        bail!("{} bytes are resident, of at most {}", after.resident, after.limit);
    }

    let mut tails = Series::new(Better::Lower, None);
    let mut middles = Series::new(Better::Lower, None);
    for round in bench.each_round() {
        let [ours, peer] = [full.read(round)?, roomy.read(round)?];
        let both = |figure: &str| {
            let of = |report: &Report| {
                report.figure("READ", figure).with_context(|| format!("READ has no {figure}"))
            };
            anyhow::Ok((of(&ours)?, of(&peer)?))
        };
        let (ours_us, peer_us) = both("p999_us")?;
        tails.push(ours_us, peer_us);
        let (ours_us, peer_us) = both("p50_us")?;
        middles.push(ours_us, peer_us);
    }

    let payload = RECORDS * VALUE_BYTES;
    let memory = (after.log + after.index) as f64 / (payload + after.index) as f64;
    let moved = (after.moved - before.moved) as f64 / (after.written - before.written) as f64;
    println!(
        "\n{RECORDS} values of {VALUE_BYTES} B, live {:.1} % of what log and kept-back memory have",
        share * 100.0
    );
    println!("{}", rates.line("overwrites", "Mops/s", None));
    println!("{}", tails.line("reads beside, p99.9", "us", Some(SLOWER_WANTED)));
    println!("{}", middles.line("reads beside, p50", "us", None));
    println!("moved for a byte written   {moved:.1}");
    println!(
        "log and index to values and index, after {OVERWRITES} overwrites   {memory:.3} (at most {MEMORY_WANTED} wanted)"
    );
    println!("resident   {} of {} bytes", after.resident, after.limit);
    Ok(json!({
        "live_share": share,
        "overwrites_mops": rates.json(),
        "reads_p999_us": tails.json(),
        "reads_p50_us": middles.json(),
        "moved_bytes_a_byte_written": moved,
        "freed_bytes": after.freed,
        "memory_to_payload_and_index": memory,
        "resident_bytes": after.resident,
        "limit_bytes": after.limit,
    }))
}

impl<'a> Filled<'a> {
    fn start(bench: &'a Bench<'a>, name: &'static str, memory: &str) -> Result<Filled<'a>> {
        let folder = bench.folder.join(name);
        let setting = Setting { cpu: SERVER_CPU, memory: Some(memory), ..Setting::default() };
        let playground = Playground::start(bench.workspace, 1, &folder, setting)?;
        let filled = Filled { bench, name, playground };
        let load = Ycsb::load(bench.workspace, DRIVER_CPU);
        filled.report(load.target(&filled.target(), Mode::Async, REQUESTERS), "load")?;
        Ok(filled)
    }

    fn target(&self) -> Target {
        Target::Weft { cluster: self.playground.cluster().to_owned() }
    }

    /// Overwrites records chosen at random, as fast as it goes.
    fn overwrite(&self, operations: u64, round: u32) -> Result<Report> {
        let run = Ycsb::run(self.bench.workspace, DRIVER_CPU);
        let run = run
            .target(&self.target(), Mode::Async, REQUESTERS)
            .property("operationcount", operations)
            .property("readproportion", 0)
            .property("updateproportion", 1);
        self.report(run, &format!("overwrite-{round}"))
    }

    /// Reads beside as many overwrites, at a given pace.
    fn read(&self, round: u32) -> Result<Report> {
        let run = Ycsb::run(self.bench.workspace, DRIVER_CPU);
        let run = run
            .target(&self.target(), Mode::Async, REQUESTERS)
            .rate(RATE)
            .property("operationcount", 10 * RATE)
            .property("readproportion", 0.5)
            .property("updateproportion", 0.5);
        self.report(run, &format!("read-{round}"))
    }

    /// # Errors
    /// Also when an operation failed.
    fn report(&self, ycsb: Ycsb, what: &str) -> Result<Report> {
        let folder: &Path = &self.bench.folder;
        let path =
            report_path(folder, &self.target(), Mode::Async, &format!("{}-{what}", self.name));
        let report = ycsb
            .workload("workloada")
            .property("recordcount", RECORDS)
            .property("fieldcount", 1)
            .property("fieldlength", VALUE_BYTES)
            .property("writeallfields", true)
            .property("requestdistribution", "uniform")
            .report(&path)?;
        if report.errors() > 0 {
            bail!("{} operations of {what} failed on the {} node", report.errors(), self.name);
        }
        Ok(report)
    }

    fn figures(&self) -> Result<Figures> {
        let counters = self.playground.counters()?;
        let counter = |name: &str| counters.of(name);
        Ok(Figures {
            live: counter("store.live_bytes")?,
            log: counter("store.log_bytes")?,
            index: counter("store.index_bytes")?,
            resident: counter("memory.resident_bytes")?,
            limit: counter("memory.limit_bytes")?,
            moved: counter("cleaner.moved_bytes")?,
            freed: counter("cleaner.freed_bytes")?,
            written: counter("values.bytes_written")?,
        })
    }
}
