//! The front door of the workspace: `cargo xtask setup | lint | test | models | asan | miri | mutants | demo | bench | sim | softroce | chart | deploy`.
//!
//! Whatever a developer or CI does to the tree is one of these commands, so that a failure in CI is
//! reproduced by typing what CI typed. The program needs nothing on the machine but the toolchain
//! and a linker; [`setup`] brings the rest.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a task runner talks to a terminal, times its stages and reads its environment"
)]

mod asan;
mod bench;
mod chart;
mod command;
mod demo;
mod deploy;
mod lint;
mod miri;
mod models;
mod mutants;
mod playground;
mod redis;
mod setup;
mod sim;
mod softroce;
mod stages;
mod test;
mod tidy;
mod workspace;
mod ycsb;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use workspace::Workspace;

/// Set-up, checks, demonstration and benchmarks of the Weft workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building, testing and benchmarking need and this machine lacks.
    Setup,
    /// Check format, clippy, documentation, dependencies, spelling and the rules of the house.
    Lint,
    /// Everything that CI runs: set-up, lint, build, documentation tests, models, verbs, chart, image, tests.
    Test,
    /// Run the transport's rings and roles in many orders of their threads, by loom and shuttle.
    Models,
    /// Run the suites of what holds unsafe code or reads peers' bytes under AddressSanitizer.
    Asan,
    /// Run the tests of what holds unsafe code under miri, where it is installed.
    Miri(miri::Options),
    /// Break the transport in one place after the other, and see that its trials notice.
    Mutants(mutants::Options),
    /// Start a small cluster, use it, load it beside redis, rank a graph, and show the figures.
    Demo,
    /// Run a suite of benchmarks against its peers, in one run, as ratios.
    Bench(bench::Options),
    /// Run simulated clusters from a seed.
    Sim(sim::Options),
    /// Try connections over verbs, in an emulated machine that has an RDMA device.
    Softroce(softroce::Options),
    /// Render the chart for Kubernetes, and check what it promises.
    Chart,
    /// Build the image, run three nodes of it by compose, and kill one.
    Deploy,
}

fn main() -> ExitCode {
    match run(&Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<()> {
    let workspace = Workspace::locate()?;
    std::env::set_current_dir(workspace.root())?;
    match task {
        Task::Setup => setup::run(&workspace),
        Task::Lint => lint::run(&workspace),
        Task::Test => test::run(&workspace),
        Task::Models => models::run(),
        Task::Asan => asan::run(&workspace),
        Task::Miri(options) => miri::run(&workspace, options),
        Task::Mutants(options) => mutants::run(&workspace, options),
        Task::Demo => demo::run(&workspace),
        Task::Bench(options) => bench::run(&workspace, options),
        Task::Sim(options) => sim::run(options),
        Task::Softroce(options) => softroce::run(&workspace, options),
        Task::Chart => chart::run(&workspace),
        Task::Deploy => deploy::run(&workspace),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_hangs_together() {
        // Of all subcommands: otherwise one says that it does not when it is run.
        Args::command().debug_assert();
    }
}
