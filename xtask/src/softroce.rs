//! Connections over verbs without hardware: an emulated machine with the kernel's own SoftRoCE device.
//!
//! Builds what speaks verbs, boots a small machine and runs it there: the conformance suite, streams and others'
//! programs over them, a node and `kv`, and `netbench` beside perftest. An emulated processor makes absolute figures
//! meaningless; ratios to perftest in the same boot mean something.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::Workspace;
use crate::{command, setup};

/// What `cargo xtask softroce` is told.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Build optimized programs, and take each figure five times, that of a call 25 times
    #[arg(long)]
    release: bool,
}

/// The crates that have the feature.
const CRATES: [&str; 4] = ["weft-transport", "weft-object", "weft-server", "weft-client"];

/// The programs to take along.
const PROGRAMS: &[&str] = &["netbench", "weft-server", "kv"];

/// The tests to take along.
const TESTS: &[&str] =
    &["conformance", "verbs", "streams", "unchanged_programs", "channels", "services"];

/// The library whose inner tests are to be taken along: of peers that lie, which only it can make up.
const UNIT_TESTS: &str = "weft_transport";

/// The program of somebody else's that one of the tests starts.
const REDIS: &str = "redis-server";

const FOLDER: &str = "xtask/softroce";

/// What the emulated machine is told to run: the device, its address, the host's.
const INSIDE: &str = "sh inside rxe0 1 10.0.0.1";

/// Bounds the machine's life, in seconds; it needs four minutes, six where others build, and as long where each figure is
/// taken often.
const SECONDS_MAX: &str = "720";

/// How often each figure is taken: once to see that it can be, or often enough for a median.
const ROUNDS: [u32; 2] = [1, 5];

/// Installs what is missing, builds, checks, and runs the emulated machine.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    setup::for_softroce()?;
    try_out(workspace, options)
}

/// As [`run`], or else returns why not: because what it needs is not installed. Nothing else is a reason.
pub(crate) fn run_where_it_can_be(workspace: &Workspace) -> Result<Option<String>> {
    let missing = setup::missing_for_softroce();
    if missing.is_empty() {
        return try_out(workspace, &Options::default()).map(|()| None);
    }
    let why = format!("Could not be installed: {}.", missing.join(", "));
    println!("{why}");
    Ok(Some(why))
}

fn try_out(workspace: &Workspace, options: &Options) -> Result<()> {
    command::run(cargo("clippy").args(["--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    let mut build = cargo("build");
    for name in PROGRAMS {
        build.args(["--bin", name]);
    }
    for name in TESTS {
        build.args(["--test", name]);
    }
    build.arg("--message-format=json-render-diagnostics");
    if options.release {
        build.arg("--release");
    }
    let bins = PROGRAMS.iter().map(|name| (*name, "bin"));
    let tests = TESTS.iter().map(|name| (*name, "test"));
    let mut programs = executables(&mut build, bins.chain(tests))?;
    let mut build = cargo("test");
    build.args(["--no-run", "--lib", "--message-format=json-render-diagnostics"]);
    programs.append(&mut executables(&mut build, [(UNIT_TESTS, "lib")])?);

    // In a folder of their own, by names without the numbers that cargo adds to tests.
    let taken = workspace.target().join("xtask").join("softroce");
    std::fs::create_dir_all(&taken)
        .with_context(|| format!("failed to make {}", taken.display()))?;
    let mut machine = Command::new(format!("{FOLDER}/run"));
    machine.args(["-t", SECONDS_MAX]).arg(format!("{FOLDER}/inside"));
    for (name, program) in &programs {
        let path = taken.join(name);
        std::fs::copy(program, &path)
            .with_context(|| format!("failed to copy {}", program.display()))?;
        machine.arg(path);
    }
    machine.arg(command::find(REDIS).with_context(|| format!("there is no `{REDIS}`"))?);
    let rounds = ROUNDS[usize::from(options.release)];
    command::run(machine.args(["--", &format!("{INSIDE} {rounds}")]))
}

/// Cargo's `verb` on the workspace with the feature. All of the workspace, so that everything is
/// built with the same features as for the other tests, and is there already.
fn cargo(verb: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([verb, "--workspace", "--features", &features()]);
    cargo
}

/// The feature, of each crate that has it.
pub(crate) fn features() -> String {
    CRATES.map(|name| format!("{name}/verbs")).join(",")
}

/// Builds, and returns where cargo says that it has put the programs of these names and kinds.
fn executables<'a>(
    build: &mut Command,
    wanted: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<(String, PathBuf)>> {
    println!("$ {}", command::line(build));
    let messages = command::output(build)?;
    let found = |(name, kind): (&str, &str)| {
        let path = messages.lines().find_map(|line| executable(line, name, kind));
        Ok((name.to_owned(), path.with_context(|| format!("cargo has built no `{name}`"))?))
    };
    wanted.into_iter().map(found).collect()
}

/// The file of the program `name` of this kind, if that is what this message of cargo's is about. A test may be called as a program of another crate.
fn executable(message: &str, name: &str, kind: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let is_it = message["reason"] == "compiler-artifact"
        && target["name"] == name
        && target["kind"][0] == kind;
    is_it.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::executable;

    #[test]
    fn a_program_is_known_by_its_name_in_cargo_s_messages() {
        let message = r#"{"reason": "compiler-artifact", "target": {"name": "kv", "kind": ["bin"]}, "executable": "/target/kv"}"#;
        assert_eq!(executable(message, "kv", "bin").as_deref(), Some(Path::new("/target/kv")));
        assert_eq!(executable(message, "kv", "test"), None);
        assert_eq!(executable(message, "netbench", "bin"), None);
        let library = message.replace(r#""/target/kv""#, "null");
        assert_eq!(executable(&library, "kv", "bin"), None);
        assert_eq!(executable("no message", "kv", "bin"), None);
    }
}
