//! The command as a script meets it: what it prints, where, and how it exits.

#![expect(clippy::disallowed_methods, reason = "the tests run the program")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

use std::process::{Command, Output};

fn ycsb(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ycsb"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("WEFT_CLUSTER");
    command.args(arguments.split_whitespace()).output().unwrap()
}

fn check(arguments: &str, code: i32) -> (String, String) {
    let output = ycsb(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "ycsb {arguments}: {stdout}{stderr}");
    (stdout, stderr)
}

fn json(arguments: &str) -> serde_json::Value {
    let (stdout, _) = check(arguments, 0);
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn the_report_has_upstreams_lines() {
    let (stdout, stderr) = check("run basic -P workloads/workloada -threads 4 -s", 0);
    for line in [
        "[OVERALL], RunTime(ms), ",
        "[OVERALL], Throughput(ops/sec), ",
        "[READ], Operations, ",
        "[READ], AverageLatency(us), ",
        "[READ], MinLatency(us), ",
        "[READ], MaxLatency(us), ",
        "[READ], 50thPercentileLatency(us), ",
        "[READ], 95thPercentileLatency(us), ",
        "[READ], 99thPercentileLatency(us), ",
        "[READ], Return=OK, ",
        "[UPDATE], Operations, ",
        "[UPDATE], Return=OK, ",
        "[CONFIG], Mode, blocking",
        "[CONFIG], Update, put of one field",
        "[CPU], Driver(s/million ops), ",
        "[CPU], Server(s), null",
    ] {
        assert!(stdout.contains(line), "no `{line}` in {stdout}");
    }
    assert!(stderr.contains("4 requesters, blocking, on 4 threads"), "{stderr}");
    assert!(stderr.contains(" 0 sec: "), "{stderr}");
    assert!(stderr.contains("sec: 1000 operations; "), "{stderr}");
    assert!(stderr.contains("CPU time of the server is unknown"), "{stderr}");
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let arguments = "run weft -p recordcount=1 -p operationcount=1 -p weft.timeout=100";
    let mut command = Command::new(env!("CARGO_BIN_EXE_ycsb"));
    let output = command.args(arguments.split(' ')).env("WEFT_CLUSTER", "").output().unwrap();
    // Whether or not somebody is at the default address, nothing is wrong with what was given.
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(2), "{stderr}");
}

#[test]
fn every_operation_is_counted_in_both_modes() {
    for mode in ["blocking", "async"] {
        let report = json(&format!(
            "run basic -P workloads/workloadf -p operationcount=10007 -threads 16 \
             -p basic.mode={mode} -p basic.async.threads=3 --json"
        ));
        let count = |operation: &str| report["operations"][operation]["ok"].as_u64().unwrap();
        assert_eq!(report["mode"], mode);
        assert_eq!(report["workload"], "workloadf");
        assert_eq!(count("READ"), 10_007, "the reads of read-modify-writes are reads too");
        assert_eq!(count("UPDATE"), count("READ-MODIFY-WRITE"));
        assert!((4_500..5_500).contains(&count("UPDATE")));
        assert!(report["overall"]["throughput_ops_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_load_inserts_every_record() {
    let report = json("load basic -P workloads/workloada -p recordcount=1234 -threads 5 --json");
    assert_eq!(report["operations"]["INSERT"]["ok"], 1_234);
}

#[test]
fn a_run_ends_when_its_time_is_over_and_keeps_to_its_target() {
    for mode in ["blocking", "async"] {
        let report = json(&format!(
            "run basic -P workloads/workloadc -p operationcount=0 -p maxexecutiontime=1 \
             -threads 4 -target 2000 -p basic.mode={mode} --json"
        ));
        let reads = report["operations"]["READ"]["count"].as_u64().unwrap();
        assert!((1..=2_004).contains(&reads), "{mode}: {reads}");
        assert!(report["overall"]["runtime_ms"].as_u64().unwrap() >= 1_000);
    }
}

#[test]
fn the_time_from_when_an_operation_was_due_is_reported_on_request() {
    let (stdout, _) = check(
        "run basic -P workloads/workloadc -target 100000 -p measurement.interval=both \
         -p hdrhistogram.percentiles=99.9",
        0,
    );
    assert!(stdout.contains("[Intended-READ], 99.9PercentileLatency(us), "), "{stdout}");
}

#[test]
fn the_report_can_go_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let (stdout, _) = check(
        &format!(
            "run basic -P workloads/workloadc -p exportfile={} \
             -p exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter",
            path.display()
        ),
        0,
    );
    assert_eq!(stdout, "");
    let lines: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(lines[0]["metric"], "OVERALL");
}

#[test]
fn a_wrong_command_says_what_to_do_and_exits_with_2() {
    for (arguments, expected) in [
        ("run mongodb", "possible values: weft"),
        ("run basic -P no/such/file", "give the path of a workload file"),
        ("run basic -P workloads/workloada -p recordcount=many", "not a whole number"),
        ("run basic -P workloads/workloada -p recordcount", "write -p name=value"),
        ("run basic", "recordcount is missing; give it by -p"),
        ("run basic -P workloads/workloada -threads 0", "from 1 to 65536"),
        ("run basic -P workloads/workloada -threads x", "from 1 to 65536"),
        ("run basic -P workloads/workloada -target 0.0001", "give a whole number"),
        ("run basic -P /dev/zero", "longer than 1 MiB; give the path of a workload file"),
        (
            "run basic -P workloads/workloada -threads 1000 -target 1000 -p spin.sleep=true",
            "1000 threads would spin",
        ),
        ("run basic -P workloads/workloada -p operationcount=0", "would never end"),
        ("run basic -P workloads/workloada -p basic.mode=fast", "one of blocking, async"),
        ("run basic -P workloads/workloada -p basic.mode=async -p basic.async.threads=0", "above"),
        ("run basic -P workloads/workloada -p dataintegrity=true", "stores nothing"),
        ("run basic -P workloads/workloada -p measurementtype=raw", "one of hdrhistogram"),
        ("run basic -P workloads/workloada -p hdrhistogram.percentiles=101", "from 0 to 100"),
        ("run basic -P workloads/workloada -p exporter=my.Exporter", "TextMeasurementsExporter"),
        ("run basic -P workloads/workloada -p exportfile=/no/such/x", "give another -p exportfile"),
        ("run basic -P workloads/workloada -p server.pids=me", "process ids"),
        ("run weft -P workloads/workloada -p weft.poll=sometimes", "one of busy, adaptive, park"),
        ("run weft -P workloads/workloada -p weft.cluster=zz", "`zz` is not HOST:PORT"),
        ("run weft -P workloads/workloada --cluster zz", "`zz` is not HOST:PORT"),
        ("run weft -P workloads/workloada -p weft.cluster=a:1,b", "`a:1,b` is not HOST:PORT"),
        ("run weft -P workloads/workloada -p weft.cluster=", "`` is not HOST:PORT"),
        ("run weft -P workloads/workloada -p weft.async.threads=0", "number above 0"),
        ("run basic -P workloads/workloada -p readproportion=-1", "not a number of 0 or more"),
        ("run basic -P workloads/workloada -p readproportion=inf", "not a number of 0 or more"),
        ("run basic -P workloads/workloada -p recordcount=-1", "not a whole number of 0 or more"),
        ("run basic -P workloads/workloade -p minscanlength=200", "at most maxscanlength"),
        ("run basic -P workloads/workloade -p minscanlength=0", "a whole number above 0"),
        ("run", "Usage: ycsb run <TARGET> [OPTIONS]"),
    ] {
        let (stdout, stderr) = check(arguments, 2);
        assert!(stderr.contains(expected), "ycsb {arguments}: {stderr}");
        assert_eq!(stdout, "", "ycsb {arguments}");
    }
}

#[test]
fn a_store_that_is_not_there_is_a_failure() {
    for arguments in [
        "run weft -P workloads/workloada -p weft.cluster=127.0.0.1:1 -p weft.timeout=300",
        "run weft -P workloads/workloada --cluster 127.0.0.1:1 -p weft.timeout=300",
    ] {
        let (_, stderr) = check(arguments, 1);
        assert!(stderr.contains("127.0.0.1:1"), "{stderr}");
        assert!(stderr.contains("weft.cluster=HOST:PORT"), "{stderr}");
    }
}

#[test]
fn unknown_properties_are_warned_about() {
    let (_, stderr) = check("run basic -P workloads/workloada -p recordscount=5", 0);
    assert!(stderr.contains("recordscount is unknown"), "{stderr}");
    assert!(stderr.contains("did you mean recordcount?"), "{stderr}");
}

#[test]
fn the_properties_are_listed() {
    let (stdout, _) = check("properties", 0);
    assert!(stdout.lines().any(|line| line.starts_with("requestdistribution ")), "{stdout}");
}

#[test]
fn server_time_can_come_from_process_ids() {
    let own = std::process::id();
    let report = json(&format!("run basic -P workloads/workloadc -p server.pids={own} --json"));
    assert!(report["cpu_seconds"]["server"].is_number(), "{report}");
}

#[test]
fn one_requester_is_one() {
    let (_, stderr) = check("run basic -P workloads/workloada", 0);
    assert!(stderr.contains("ycsb: 1 requester, blocking, on 1 thread; "), "{stderr}");
}
