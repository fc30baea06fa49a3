//! Runs simulated clusters: the production cores in a seeded world.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::command;

/// Which simulations to run.
#[derive(Args)]
pub(crate) struct Options {
    /// What to simulate: `cluster` is whole clusters under everything, `store` clients and nodes under faults of the network.
    #[arg(long, default_value = "cluster")]
    scenario: String,
    /// The first seed: the same seed is the same run, event by event.
    #[arg(long)]
    seed: u64,
    /// How many seeds to run, counting up from the first.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How many of them at once.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Look for a smaller run that fails in the same way.
    #[arg(long)]
    shrink: bool,
    /// Print each run's history.
    #[arg(long)]
    history: bool,
    /// Put this bug into the nodes, to see that it is found; a wrong name lists all that there are.
    #[arg(long, value_name = "NAME")]
    planted: Option<String>,
    /// What else the simulator is to be told, as in `-- --clients 2`; its `--help` says what there is.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Builds the simulator and runs the seeds that `options` names.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { scenario, seed, seeds, jobs, shrink, history, planted, rest } = options;
    let mut cargo = Command::new("cargo");
    cargo.args([
        "run",
        "--profile",
        "sim",
        "--quiet",
        "--package",
        "weft-sim",
        "--bin",
        "weft-sim",
    ]);
    if planted.is_some() {
        cargo.args(["--features", "planted-bugs"]);
    }
    cargo.args(["--", "--scenario", scenario, "--seed", &seed.to_string()]);
    cargo.args(["--seeds", &seeds.to_string(), "--jobs", &jobs.to_string()]);
    cargo.args(shrink.then_some("--shrink")).args(history.then_some("--history"));
    if let Some(planted) = planted {
        cargo.args(["--planted", planted]);
    }
    command::run(cargo.args(rest))
}
