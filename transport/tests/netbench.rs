//! The promises that scripts rely on: the members of the object, and the exit codes.

#![expect(clippy::disallowed_methods, reason = "the test runs the program")]

use std::process::{Command, Output};

use serde_json::Value;

fn netbench(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netbench"))
        .args(line.split_whitespace())
        .output()
        .expect("the binary was built with this test")
}

/// Measures for a moment: enough for every member to be there, too little for its value to mean
/// anything.
fn object(line: &str) -> Value {
    let output = netbench(&format!("{line} --seconds 0.2 --warm-up 0 --runs 1 --json"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("stdout is one JSON object")
}

fn check(line: &str, headline: &str, others: &[&str]) {
    let object = object(line);
    let figure = |half: &Value, member: &str| half[member].as_f64().unwrap_or(f64::NAN);
    for half in [&object, &object["raw"]] {
        for member in std::iter::once(&headline).chain(others) {
            assert!(figure(half, member) > 0.0, "{line}: {object}");
        }
    }
    let ratio = figure(&object, headline) / figure(&object["raw"], headline);
    let stated = figure(&object, "ratio");
    assert!((ratio - stated).abs() <= 0.001 + ratio * 0.001, "{line}: {object}");
}

#[test]
fn every_benchmark_prints_the_members_that_scripts_rely_on() {
    let quantiles = ["p99_us", "p999_us"];
    for poll in ["busy", "adaptive", "park"] {
        check(&format!("latency --link tcp --size 32 --poll {poll}"), "p50_us", &quantiles);
    }
    check("rate --size 64", "messages_per_second", &[]);
    check("bandwidth", "bytes_per_second", &[]);
}

#[test]
fn streams_are_measured_beside_sockets_that_block_and_that_do_not() {
    let output =
        netbench("streams --sizes 70000 --connections 3 --flush 0,4 --seconds 0.4 --runs 2 --json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("stdout is one JSON object");
    let cases = object["cases"].as_array().expect("cases are a list");
    assert_eq!(cases.len(), 2);
    for case in cases {
        for method in ["tcp blocking", "tcp busy", "streams tcp", "streams shm"] {
            let figures = &case["methods"][method];
            assert!(figures["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{case}");
            assert_eq!(figures["each_run"].as_array().map(Vec::len), Some(2), "{case}");
        }
    }
}

#[test]
fn threads_and_connections_need_not_be_as_many() {
    check("latency --connections 3 --threads 2", "p50_us", &[]);
    check("rate --connections 2 --threads 5", "messages_per_second", &[]);
    check("rate --connections 5 --threads 2 --size 100000", "messages_per_second", &[]);
}

#[test]
fn the_raw_half_is_the_one_that_waits_in_the_same_way() {
    assert_eq!(object("latency --poll busy")["raw"]["method"], "busy-poll");
    assert_eq!(object("latency --poll park")["raw"]["method"], "blocking");
}

#[test]
fn busy_polling_is_left_out_where_threads_would_spin_on_one_processor() {
    let raw_methods = |line: &str| {
        let object = object(line);
        let methods = object["raw_methods"].as_array().expect("it is a list").iter();
        methods.map(|half| half["method"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(raw_methods("latency"), ["blocking", "busy-poll"]);
    assert_eq!(raw_methods("latency --threads 64 --connections 2"), ["blocking"]);
}

#[test]
fn wrong_usage_says_what_is_wrong_and_exits_with_2() {
    for (line, expected) in [
        ("rate --size 4", "--size is 4"),
        ("latency --poll never", "choose busy, adaptive or park"),
        ("latency --poll busy --threads 256", "with --poll busy must be at most"),
        ("latency --server-cpu 99999", "--server-cpu is 99999"),
        ("swiftness", "unrecognized subcommand"),
    ] {
        let output = netbench(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(expected), "{line}: {stderr}");
    }
}
