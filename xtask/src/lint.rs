//! Runs every check that reads the tree without running it, and reports all that fail.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{command, setup, tidy};

/// Runs all checks; fails after the last one if any failed.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::for_lint(workspace)?;
    let checks: &[(&str, &dyn Fn() -> Result<()>)] = &[
        ("tidy", &|| tidy::run(workspace)),
        ("format", &format),
        ("spelling", &|| spelling(workspace)),
        ("dependencies", &dependencies),
        ("clippy", &clippy),
        ("documentation", &documentation),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        println!("\n-- lint: {name}");
        if let Err(error) = check() {
            eprintln!("{error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("lint failed: {}", failed.join(", "));
    }
    Ok(())
}

fn format() -> Result<()> {
    command::run(Command::new("cargo").args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    command::run(Command::new("cargo").args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))
}

fn documentation() -> Result<()> {
    command::run(
        Command::new("cargo")
            .args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// The advisory database is a repository on the internet, which CI does not reach: see deny.toml.
fn dependencies() -> Result<()> {
    command::run(Command::new("cargo").args([
        "deny",
        "--log-level",
        "warn",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}

fn spelling(workspace: &Workspace) -> Result<()> {
    let typos = setup::wheel_program("typos", workspace).context("typos is not installed")?;
    command::run(Command::new(typos).args(["--config", ".typos.toml"]))
}
