//! Runs the suites of what holds unsafe code, or reads what peers write, under AddressSanitizer.

use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::workspace::Workspace;

/// Named, so that only the tests are instrumented and neither build scripts nor macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Packages that are tried.
const PACKAGES: [&str; 4] = ["weft-transport", "weft-object", "weft-protocol", "weft-client"];

/// Of the client, what unsafe code there has to do with: the rest starts processes that are not instrumented. What the compiler says of programs that it
/// refuses runs nothing.
const TESTS: &str = "(not package(weft-client) or binary_id(weft-client::typed)) and not binary_id(weft-object::compiling)";

/// Builds the suites with instrumentation, in a folder of their own, and runs them.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut tests = Command::new("cargo");
    tests.args(["nextest", "run", "--target", TARGET, "--target-dir"]);
    tests.arg(workspace.target().join("asan"));
    for package in PACKAGES {
        tests.args(["--package", package]);
    }
    tests.args(["--filterset", TESTS]);
    // The sanitizer comes with every toolchain, but only nightly may name it.
    // The cfg has the transport tell it of the blocks that it hands out.
    let flags = "-Zsanitizer=address --cfg address_sanitizer";
    tests.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
    // A handler that keeps what came holds its own endpoint, and so do tests that end in the middle.
    tests.env("ASAN_OPTIONS", "detect_leaks=0");
    command::run(&mut tests)
}
