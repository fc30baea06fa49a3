//! Runs the transport's models: its code on the types of a checker, which tries the orders of its threads.

use std::process::Command;

use anyhow::Result;

use crate::command;

/// Features of the transport, each of which builds its unit tests on a checker's types.
const CHECKERS: [&str; 2] = ["loom", "shuttle"];

/// Runs the models of both checkers.
pub(crate) fn run() -> Result<()> {
    for checker in CHECKERS {
        let mut models = Command::new("cargo");
        models.args(["nextest", "run", "--package", "weft-transport", "--lib"]);
        // Other unit tests are built along, and fail outside of a model.
        models.args([
            "--no-default-features",
            "--features",
            checker,
            "--filterset",
            "test(models::)",
        ]);
        command::run(&mut models)?;
    }
    Ok(())
}
