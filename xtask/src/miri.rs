//! Runs the tests of the modules that hold unsafe code under miri, which follows every access to memory by
//! the rules of the language.
//!
//! Miri is a component of nightly toolchains, and the product is built by a stable one: where there is none,
//! the same tests can be built and run as the machine runs them, with what stands for the system's calls
//! under miri. That shows that they are fit for miri, and nothing of what miri would.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::workspace::Workspace;

/// What `cargo xtask miri` is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Without miri: build the same tests for it, and run them as they are
    #[arg(long)]
    natively: bool,
}

/// The tests of one package that reach unsafe code.
struct Suite {
    package: &'static str,
    targets: &'static [&'static str],
    /// Beginnings of their names; all, if there are none.
    tests: &'static [&'static str],
}

/// What needs sockets, devices or an executor is not among them: miri has none.
const SUITES: &[Suite] = &[
    Suite {
        package: "weft-transport",
        targets: &["--lib", "--no-default-features"],
        tests: &["memory::tests", "lane::tests", "link::shm::ring::tests"],
    },
    Suite { package: "weft-object", targets: &["--tests"], tests: &[] },
    Suite { package: "weft-server", targets: &["--lib"], tests: &["store::partition"] },
];

/// What is to be installed. The second is what miri builds its standard library from.
const COMPONENTS: &str = "rustup +nightly component add miri rust-src";

/// The two models of which pointer may be used when; the language has settled on neither. Files are read to say
/// what failed before, so that miri's world is not closed; and integers become pointers in the locks of others.
const MODELS: [&str; 2] =
    ["-Zmiri-disable-isolation", "-Zmiri-disable-isolation -Zmiri-tree-borrows"];

/// Runs all suites under either model, or natively.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.natively {
        return SUITES.iter().try_for_each(|suite| run_natively(workspace, suite));
    }
    if !command::succeeds(Command::new("cargo").args(["+nightly", "miri", "--version"])) {
        bail!(
            "there is no miri: `{COMPONENTS}` installs it; `--natively` does without, and shows less"
        );
    }
    for flags in MODELS {
        for suite in SUITES {
            let mut miri = Command::new("cargo");
            miri.args(["+nightly", "miri"]).env("MIRIFLAGS", flags);
            command::run(suite.test(&mut miri))?;
        }
    }
    Ok(())
}

fn run_natively(workspace: &Workspace, suite: &Suite) -> Result<()> {
    let mut native = Command::new("cargo");
    native.env("RUSTFLAGS", "--cfg miri").env("CARGO_TARGET_DIR", workspace.target().join("miri"));
    command::run(suite.test(&mut native))
}

impl Suite {
    fn test<'a>(&self, cargo: &'a mut Command) -> &'a mut Command {
        cargo.args(["test", "--package", self.package]).args(self.targets).arg("--");
        cargo.args(self.tests)
    }
}
