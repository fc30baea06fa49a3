//! What CI runs. The tests come last, so that the output ends with the test runner's own count.

use std::process::{self, Command};

use anyhow::Result;

use crate::stages::Stages;
use crate::workspace::Workspace;
use crate::{command, lint, models, setup, softroce};

/// Sets up, lints, builds and tests; stops at the first stage that fails.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("setup", || setup::run(workspace))?;
    stages.run("lint", || lint::run(workspace))?;
    stages.run("build", build)?;
    stages.run("doc tests", documentation_tests)?;
    stages.run("models", models::run)?;
    let skipped = stages.run("softroce", || softroce::run_where_it_can_be(workspace))?;
    println!("\n{}", stages.table());
    if let Some(why) = skipped {
        println!("NOT TESTED: connections over verbs. {why}\n");
    }
    println!("== tests");
    let status = nextest().status()?;
    // Nothing may be printed after the runner's closing lines, an error report included.
    process::exit(status.code().unwrap_or(1));
}

/// Builds what nextest runs and nothing else, all in the one profile that the tests use.
fn build() -> Result<()> {
    command::run(nextest().arg("--no-run"))
}

fn documentation_tests() -> Result<()> {
    command::run(Command::new("cargo").args(["test", "--workspace", "--doc", "--quiet"]))
}

fn nextest() -> Command {
    let mut command = Command::new("cargo");
    command.args(["nextest", "run", "--workspace"]);
    command
}
