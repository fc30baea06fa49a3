//! Runs simulated clusters: the production cores in a seeded world.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::command;

/// Which simulations to run.
#[derive(Args)]
pub(crate) struct Options {
    /// The first seed: the same seed is the same run, event by event.
    #[arg(long)]
    seed: u64,
    /// How many seeds to run, counting up from the first.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How many of them at once.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// What else the simulator is to be told, as in `-- --shrink`; its `--help` says what there is.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Builds the simulator and runs the seeds that `options` names.
pub(crate) fn run(options: &Options) -> Result<()> {
    command::run(
        Command::new("cargo")
            .args(["run", "--release", "--quiet", "--package", "weft-sim", "--bin", "weft-sim"])
            .args(["--", "--seed", &options.seed.to_string()])
            .args(["--seeds", &options.seeds.to_string()])
            .args(["--jobs", &options.jobs.to_string()])
            .args(&options.rest),
    )
}
