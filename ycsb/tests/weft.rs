//! The weft target against a node in this process: what lies there afterwards, and what was read.

#![expect(clippy::disallowed_methods, reason = "the tests run programs")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

use std::process::{Command, Output};

use weft_client::{BlockingClient, ClientConfig, Record, ScanOptions};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

fn start() -> Node {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some(HttpAddress::Off),
        control: Some(HttpAddress::Off),
        memory: Some("128MiB".parse().unwrap()),
        ..Settings::default()
    };
    Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap()
}

fn ycsb(phase: &str, node: &Node, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ycsb"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([phase, "weft", "--json", "--cluster", &node.address().to_string()])
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// What it says when it does not begin.
fn refused(phase: &str, node: &Node, arguments: &str) -> String {
    let output = ycsb(phase, node, arguments);
    assert_ne!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

fn succeed(phase: &str, node: &Node, arguments: &str) -> serde_json::Value {
    let output = ycsb(phase, node, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "ycsb {phase} {arguments}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// All values, by their keys.
fn values(node: &Node) -> Vec<(Vec<u8>, Vec<u8>)> {
    let client = BlockingClient::connect(ClientConfig::new([node.address().to_string()])).unwrap();
    let options = ScanOptions { with_values: true, ..ScanOptions::default() };
    let values = client.scan(options).unwrap().map(|scanned| {
        let scanned = scanned.unwrap();
        (scanned.key, scanned.value.unwrap().to_vec())
    });
    let mut values: Vec<_> = values.collect();
    values.sort();
    values
}

#[test]
fn a_record_is_one_of_fields_and_a_single_field_the_value() {
    let node = start();
    succeed("load", &node, "-P workloads/workloada -p recordcount=50");
    let records = values(&node);
    assert_eq!(records.len(), 50);
    for (_, record) in &records {
        let record = Record::parse(record).unwrap();
        let names = (0..10).map(|index| format!("field{index}").into_bytes());
        assert!(record.fields().map(|(name, _)| name.to_vec()).eq(names));
        assert!(record.fields().all(|(_, value)| value.len() == 100));
    }
    let node = start();
    succeed("load", &node, "-p recordcount=50 -p fieldcount=1 -p fieldlength=32");
    assert!(values(&node).iter().all(|(_, value)| value.len() == 32));
}

#[test]
fn records_are_whole_after_every_workload_in_both_modes() {
    for mode in ["blocking", "async"] {
        let node = start();
        let common = format!("-p recordcount=200 -p dataintegrity=true -p weft.mode={mode}");
        succeed("load", &node, &format!("{common} -threads 4"));
        let before = values(&node);
        for workload in ["workloada", "workloadf", "workloadd"] {
            let run = format!("-P workloads/{workload} {common} -threads 8 -p operationcount=2000");
            let report = succeed("run", &node, &run);
            let operations = &report["operations"];
            assert_eq!(report["mode"], mode);
            assert_eq!(operations["VERIFY"]["ok"], operations["READ"]["count"], "{workload}");
            for kind in ["UPDATE", "INSERT"] {
                let errors = &operations[kind]["errors"];
                assert!(errors.is_null() || *errors == 0, "{workload}: {report}");
            }
        }
        let after = values(&node);
        assert!(after.len() > before.len(), "workload D inserts");
        let unchanged = before.iter().filter(|record| after.binary_search(record).is_ok());
        assert_eq!(unchanged.count(), 200, "the values follow from their keys");
    }
}

#[test]
fn ranges_are_scanned_in_an_ordered_table() {
    for mode in ["blocking", "async"] {
        let node = start();
        let common = format!("-P workloads/workloade -p recordcount=500 -p weft.mode={mode}");
        let unloaded = refused("run", &node, &common);
        assert!(unloaded.contains("cannot use table usertable"), "{unloaded}");
        succeed("load", &node, &format!("{common} -threads 4"));
        assert_eq!(values(&node), [], "the default table has none");
        let run = format!("{common} -threads 8 -p operationcount=1000");
        let operations = &succeed("run", &node, &run)["operations"];
        assert!(operations["SCAN"]["ok"].as_u64().unwrap() > 850, "{operations}");
        assert_eq!(operations["SCAN"]["ok"], operations["SCAN"]["count"]);
        let client = BlockingClient::connect(ClientConfig::new([node.address().to_string()]));
        let table = client.unwrap().table("usertable").unwrap();
        let inserted = operations["INSERT"]["ok"].as_u64().unwrap();
        assert_eq!(table.count().unwrap(), 500 + inserted);
        // Records of other fields are noticed. None is inserted, which a scan of one would find right.
        let other = format!("{run} -p fieldcount=3 -p insertproportion=0 -p scanproportion=1");
        let output = ycsb("run", &node, &other);
        assert_ne!(output.status.code(), Some(0));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let scans = &report["operations"]["SCAN"];
        assert_eq!((&scans["ok"], &scans["errors"]), (&0.into(), &1000.into()), "{report}");
    }
    let node = start();
    succeed("load", &node, "-p recordcount=10 -p table=usertable");
    let unordered = refused("run", &node, "-P workloads/workloade");
    assert!(unordered.contains("table not ordered"), "{unordered}");
}

#[test]
fn an_update_of_one_field_changes_just_that() {
    let node = start();
    let record = "-p recordcount=1 -p fieldcount=4 -p fieldlength=8";
    succeed("load", &node, record);
    let before = values(&node).remove(0).1;
    let update = "-p operationcount=1 -p readproportion=0 -p updateproportion=1";
    succeed("run", &node, &format!("{record} {update}"));
    let after = values(&node).remove(0).1;
    let fields = |record| Record::parse(record).unwrap().fields();
    let changed = fields(&before).zip(fields(&after)).filter(|(one, other)| one != other);
    assert_eq!(changed.count(), 1);
}
