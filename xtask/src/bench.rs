//! Measures Weft beside what a user would pick instead, in one run, as ratios of medians.
//!
//! Machines are noisy, so every suite interleaves ours and the peer's rounds, takes the median of the rounds' ratios,
//! and says so where the peer is slower than it is on a machine of that kind when nothing else runs.

mod cleaning;
mod cluster;
mod fullness;
mod index;
mod machine;
mod memory;
mod objects;
mod reads;
mod series;
mod services;
mod shuffle;
mod store;
mod transfer;
mod transport;

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::workspace::Workspace;
use crate::{command, setup};
use machine::Machine;

/// The load, before the build, of a machine on which nothing else runs.
const LOAD_QUIET: f64 = 1.0;

/// Which suite to run, and how often.
#[derive(Args)]
pub(crate) struct Options {
    /// The suite; without one, the suites are listed.
    suite: Option<Suite>,
    /// How many times each figure is taken; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    cluster: cluster::ClusterOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Latency, rates and bandwidth beside bare TCP and bare rings, by senders, nodes and sizes; idle cost;
    /// UCX, libfabric and MPI.
    Transport,
    /// 100 concurrent requesters beside redis: reads of 32 B and of 1 KiB, YCSB A, and processor time at the same pace.
    Store,
    /// Multi-gets, one requester alone, and values of 64 KiB, beside bare TCP.
    Reads,
    /// Ten million objects through a partition's index, and through what could be in its place.
    Index,
    /// Bytes a key of a million objects, of 32 B and of 1,000 B, by the node's account and by the kernel's.
    Memory,
    /// A node that is nine tenths full: twenty overwrites, what they cost, and reads meanwhile, beside one with room.
    Cleaning,
    /// How much of nodes of 64 to 512 MiB may be live while all of it is overwritten, by the lengths of values.
    Fullness,
    /// Graphs of objects: building, sending, receiving and using them, beside rkyv, bitcode, postcard and JSON.
    Objects,
    /// Graphs of objects from one process to another, over shared memory and TCP, beside raw bytes, rkyv and bitcode.
    Transfer,
    /// Calls of a typed service, with all kinds of arguments, beside bare calls of the transport.
    Services,
    /// Nodes that are killed, stopped and started again, and what replicas and disks cost.
    Cluster,
    /// PageRank, a word count and a sort by two workers, beside Timely Dataflow, Spark and a plain program.
    Shuffle,
}

/// What every suite is handed.
struct Bench<'a> {
    workspace: &'a Workspace,
    machine: &'a Machine,
    rounds: u32,
    /// Where reports and logs of this suite go.
    folder: PathBuf,
    /// How far apart the two processors were whenever a series of rounds began one: what a cache line takes there and back, in nanoseconds.
    apart_ns: RefCell<Vec<f64>>,
}

impl Bench<'_> {
    /// The rounds, each of which begins with a look at how far apart the processors are: the host of a virtual machine moves
    /// them, and figures of two distances are those of two machines.
    fn each_round(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.rounds).inspect(|_| {
            let mut netbench = Command::new(self.workspace.release_program("netbench"));
            netbench.args(["apart", "--seconds", "0.05", "--json"]);
            // Between which the suites have their two sides.
            netbench.args(["--server-cpu", "0", "--client-cpu", "1"]);
            // Of one processor there is nothing to say.
            let report = command::output(&mut netbench).ok();
            let report: Option<Value> = report.and_then(|text| serde_json::from_str(&text).ok());
            let apart = report.and_then(|report| report.pointer("/apart/median_ns")?.as_f64());
            self.apart_ns.borrow_mut().extend(apart);
        })
    }
}

/// Runs the suite that `options` names and writes its figures under the target folder.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let Some(suite) = options.suite else {
        list();
        return Ok(());
    };
    setup::for_bench(workspace)?;
    if matches!(suite, Suite::Transport) {
        setup::beside_transport(workspace);
    }
    let machine = Machine::read()?;
    let load = machine.load()?;
    command::run(Command::new("cargo").args(["build", "--release"]))?;

    let name = suite.name();
    let folder = workspace.target().join("bench").join(&name);
    fs::create_dir_all(&folder)?;
    let (rounds, apart_ns) = (options.rounds, RefCell::default());
    let bench = Bench { workspace, machine: &machine, rounds, folder, apart_ns };
    println!("\n{}", machine.description());
    if load > LOAD_QUIET {
        println!("load {load}: others are at work here, and the figures show it");
    }
    if machine.baseline().is_none() {
        println!("no baseline for this machine: a round is judged by the peer's best round");
    }
    println!();
    let figures = match suite {
        Suite::Transport => transport::run(&bench)?,
        Suite::Store => store::run(&bench)?,
        Suite::Reads => reads::run(&bench)?,
        Suite::Index => index::run(&bench)?,
        Suite::Memory => memory::run(&bench)?,
        Suite::Cleaning => cleaning::run(&bench)?,
        Suite::Fullness => fullness::run(&bench)?,
        Suite::Objects => objects::run(&bench)?,
        Suite::Transfer => transfer::run(&bench)?,
        Suite::Services => services::run(&bench)?,
        Suite::Cluster => cluster::run(&bench, &options.cluster)?,
        Suite::Shuffle => shuffle::run(&bench)?,
    };
    keep(&bench, &name, load, &figures)
}

fn list() {
    println!("suites:");
    for suite in Suite::value_variants() {
        let help = suite.to_possible_value().and_then(|value| value.get_help().cloned());
        println!("  {:<12} {}", suite.name(), help.unwrap_or_default());
    }
}

fn keep(bench: &Bench<'_>, name: &str, load: f64, figures: &Value) -> Result<()> {
    let path = bench.folder.with_extension("json");
    let apart_ns = bench.apart_ns.borrow();
    if let Some(median) = series::median(apart_ns.iter().copied()) {
        let (least, most) = apart_ns
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
        println!(
            "\nprocessors {median:.0} ns apart, {least:.0} to {most:.0} by {} looks",
            apart_ns.len()
        );
    }
    let report = json!({
        "suite": name,
        "machine": bench.machine.description(),
        "apart_ns": *apart_ns,
        "load_before": load,
        "rounds": bench.rounds,
        "figures": figures,
    });
    fs::write(&path, format!("{report:#}\n"))
        .with_context(|| format!("failed to write {}", path.display()))?;
    println!("\nfigures: {}", path.display());
    Ok(())
}

impl Suite {
    fn name(self) -> String {
        self.to_possible_value().expect("no suite is hidden").get_name().to_owned()
    }
}
