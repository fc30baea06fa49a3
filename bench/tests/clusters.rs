//! The program that measures clusters of processes starts them, kills a node and takes stock, as the benchmarks have it do.

#![expect(clippy::disallowed_methods, reason = "the tests start processes")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");

/// What is beside this program only when the workspace is built: cargo builds the programs of the package that it tests.
fn build(package: &str, program: &str) {
    let folder = Path::new(CLUSTER).parent().unwrap();
    if folder.join(program).exists() {
        return;
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        name => name,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--package", package, "--bin", program, "--profile", profile])
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success(), "{program} does not build");
}

#[test]
fn a_cluster_whose_leader_is_killed_has_every_acknowledged_write() {
    build("weft-server", "weft-server");
    build("weft-client", "kv");
    let folder = tempfile::tempdir().unwrap();
    let mut run = Command::new(CLUSTER);
    run.args(["coordinator", "--kills", "1", "--keys", "2000", "--rate", "500"]);
    run.args(["--memory", "64MiB", "--folder"]).arg(folder.path());
    let output = run.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["keys"], &found["kills"][0]["led_coordinators"]),
        (&json!(2000), &json!(true))
    );
    assert!(found["kills"][0]["partitions"].as_u64().unwrap() > 0, "{found}");
    for when in ["faults", "at_the_end"] {
        let is_none = |what: &str| found[when][what] == json!(0);
        assert!(["errors", "stale", "absent", "garbled"].into_iter().all(is_none), "{found}");
    }
}
