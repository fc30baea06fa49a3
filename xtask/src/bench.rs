//! Measures Weft beside what a user would pick instead, in one run, as ratios of medians.
//!
//! Machines are noisy, so every suite interleaves ours and the peer's rounds, takes the median of the rounds' ratios,
//! and says so where the peer is slower than it is on a machine of that kind when nothing else runs.

mod cleaning;
mod index;
mod machine;
mod memory;
mod reads;
mod series;
mod shuffle;
mod store;
mod transport;

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
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Latency, rates and bandwidth beside bare TCP and bare rings, by senders, nodes and sizes; idle cost;
    /// UCX, libfabric and MPI.
    Transport,
    /// 100 concurrent readers of a million small objects, beside redis.
    Store,
    /// Multi-gets, one requester alone, and values of 64 KiB, beside bare TCP.
    Reads,
    /// Ten million objects through a partition's index, and through what could be in its place.
    Index,
    /// Bytes a key of a million small objects, by the node's account and by the kernel's.
    Memory,
    /// A node that is nine tenths full: twenty overwrites, what they cost, and reads meanwhile, beside one with room.
    Cleaning,
    /// PageRank of 16 M edges over two workers, beside a plain program with two threads.
    Shuffle,
}

/// What every suite is handed.
struct Bench<'a> {
    workspace: &'a Workspace,
    machine: &'a Machine,
    rounds: u32,
    /// Where reports and logs of this suite go.
    folder: PathBuf,
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
    let bench = Bench { workspace, machine: &machine, rounds: options.rounds, folder };
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
    let report = json!({
        "suite": name,
        "machine": bench.machine.description(),
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
