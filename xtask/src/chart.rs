//! The chart for Kubernetes, rendered and checked without a cluster: `deploy/helm/check.py`, which says what is checked.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{command, setup};

/// Installs what is missing, and checks the chart.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    check(&setup::for_chart(workspace)?)
}

/// As [`run`], or else returns why not: because what it needs cannot be installed. Nothing else is a reason.
pub(crate) fn run_where_it_can_be(workspace: &Workspace) -> Result<Option<String>> {
    match setup::for_chart(workspace) {
        Ok(libraries) => check(&libraries).map(|()| None),
        Err(error) => {
            let why = format!("What renders it could not be installed: {error:#}.");
            println!("{why}");
            Ok(Some(why))
        }
    }
}

fn check(libraries: &Path) -> Result<()> {
    command::run(
        Command::new("python3")
            // Nothing of the machine's own, and nothing written beside the script.
            .args(["-B", "deploy/helm/check.py"])
            .env("PYTHONPATH", libraries),
    )
}
