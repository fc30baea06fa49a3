//! What CI runs. The tests come last, so that the output ends with the test runner's own count.

use std::process::{self, Command};

use anyhow::Result;

use crate::stages::Stages;
use crate::workspace::Workspace;
use crate::{chart, command, deploy, lint, models, setup, softroce};

/// Sets up, lints, builds and tests; stops at the first stage that fails.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("setup", || setup::run(workspace))?;
    stages.run("lint", || lint::run(workspace))?;
    // Where verbs can be built at all they are built in, so that nothing is built a second time for them.
    let features = setup::missing_for_softroce().is_empty().then(softroce::features);
    let nextest = || nextest(features.as_deref());
    stages.run("build", || command::run(nextest().arg("--no-run")))?;
    stages.run("doc tests", || documentation_tests(features.as_deref()))?;
    stages.run("models", models::run)?;
    let without_softroce = stages.run("softroce", || softroce::run_where_it_can_be(workspace))?;
    let without_chart = stages.run("chart", || chart::run_where_it_can_be(workspace))?;
    let without_docker = stages.run("deploy", || deploy::run_where_it_can_be(workspace))?;
    println!("\n{}", stages.table());
    let skipped = [
        ("connections over verbs", without_softroce),
        ("the chart", without_chart),
        ("the image, and nodes under docker-compose", without_docker),
    ];
    for (what, why) in skipped {
        if let Some(why) = why {
            println!("NOT TESTED: {what}. {why}\n");
        }
    }
    println!("== tests");
    let status = nextest().status()?;
    // Nothing may be printed after the runner's closing lines, an error report included.
    process::exit(status.code().unwrap_or(1));
}

fn documentation_tests(features: Option<&str>) -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--doc", "--quiet"]);
    command::run(with(&mut command, features))
}

fn nextest(features: Option<&str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(["nextest", "run", "--workspace"]);
    with(&mut command, features);
    command
}

fn with<'c>(command: &'c mut Command, features: Option<&str>) -> &'c mut Command {
    command.args(features.iter().flat_map(|features| ["--features", *features]))
}
