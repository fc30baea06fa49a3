//! Runs every check that reads the tree without running it, and reports all that fail.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{command, setup, tidy};

/// A workspace of its own, so that `--workspace` does not reach it.
const FUZZ: &str = "fuzz/Cargo.toml";

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
        ("fuzz targets", &|| fuzz_targets(workspace)),
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
    command::run(Command::new("cargo").args(["fmt", "--all", "--check"]))?;
    command::run(Command::new("cargo").args(["fmt", "--manifest-path", FUZZ, "--check"]))
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

/// The targets need nightly to run but not to compile, and rot if nothing compiles them.
///
/// They share the workspace's target folder, and so its compiled dependencies.
fn fuzz_targets(workspace: &Workspace) -> Result<()> {
    command::run(
        Command::new("cargo")
            .args(["clippy", "--manifest-path", FUZZ, "--quiet", "--target-dir"])
            .arg(workspace.target())
            .args(["--", "-D", "warnings"]),
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
