//! `kv hotkeys`: what a cluster is asked for the most.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use weft_client::{BlockingClient, ClientConfig, TableOptions};

use crate::cluster::{Cluster, start_kv};
use crate::ports::Port;
use crate::spread::wait_until_spread;
use crate::{cluster, kv};

fn connect(cluster: &Cluster) -> BlockingClient {
    BlockingClient::connect(ClientConfig::new(cluster.addresses())).unwrap()
}

/// Asks for `key` so often.
fn ask(client: &BlockingClient, key: &[u8], times: usize) {
    let outcomes = client.multi_get(&vec![key; times]).collect_in_order();
    assert!(outcomes.iter().all(Result::is_ok));
}

#[test]
fn the_keys_that_are_asked_for_the_most_are_told() {
    let cluster = Cluster::start(3);
    assert_eq!(cluster.kv(&["hotkeys"]).ok(), "", "nobody asks for anything");
    let client = connect(&cluster);
    let looms = client.create_table("looms", TableOptions::default()).unwrap();
    let long = [&b"{loom}"[..], &[b'l'; 294]].concat();
    // Far enough apart that no chance changes their order, and of one node: others may have been up for longer, or less long.
    ask(&client, b"{loom}first", 64_000);
    ask(&looms, b"{loom}second", 32_000);
    ask(&client, b"{loom}\xff3", 16_000);
    ask(&client, &long, 8_000);
    for _ in 0..40 {
        client.multi_put(&[("{loom}written", "weft"); 100]).try_collect_in_order().unwrap();
    }

    let raw = cluster.kv(&["hotkeys", "--count", "2"]).ok();
    let names: Vec<_> = raw.lines().map(|line| line.rsplit_once('\t').unwrap().0).collect();
    assert_eq!(names, ["{loom}first\tdefault", "{loom}second\tlooms"]);

    let json: Value = serde_json::from_str(&cluster.kv(&["--json", "hotkeys"]).ok()).unwrap();
    let keys = json.as_array().unwrap();
    assert_eq!((&keys[0]["key"], &keys[0]["table"]), (&"{loom}first".into(), &"default".into()));
    assert_eq!((&keys[1]["key"], &keys[1]["table"]), (&"{loom}second".into(), &"looms".into()));
    assert_eq!(
        (&keys[2]["key_base64"], &keys[2]["is_whole_key"]),
        (&"e2xvb219/zM=".into(), &true.into())
    );
    assert_eq!((&keys[3]["key_length"], &keys[3]["is_whole_key"]), (&300.into(), &false.into()));
    assert_eq!(keys[3]["crc32c"], crc32c::crc32c(&long));
    assert_eq!(keys[3]["key"].as_str().unwrap().as_bytes(), &long[..256]);
    let figure = |key: &Value, name: &str| key[name].as_f64().unwrap();
    for key in keys {
        let rate = figure(key, "requests_per_second");
        assert!(figure(key, "least_per_second") <= rate, "{key}");
        assert!(rate <= figure(key, "most_per_second"), "{key}");
        assert!((0.0..=1.0).contains(&figure(key, "share")), "{key}");
        let by_kind = figure(key, "reads_per_second") + figure(key, "writes_per_second");
        assert!((by_kind - rate).abs() < 1.0, "{key}");
    }
    assert!(keys[0]["writes_per_second"] == 0.0 && keys[4]["reads_per_second"] == 0.0, "{json}");

    let table = cluster.kv(&["-o", "table", "hotkeys"]).ok();
    for part in ["requests/s", "at least", "{loom}\\xff3", "looms", "… (300 bytes), CRC"] {
        assert!(table.contains(part), "{part:?} is not in {table}");
    }
    // What is dropped is not told any more, and neither is its name.
    client.drop_table("looms").unwrap();
    let raw = cluster.kv(&["hotkeys"]);
    let raw = String::from_utf8_lossy(&raw.stdout).into_owned();
    assert!(raw.starts_with("{loom}first\t") && !raw.contains("second"), "{raw}");

    let mut by_variable = start_kv(&["--cluster", cluster.address(), "hotkeys", "-o", "raw"]);
    let one = cluster::finish(by_variable.env("WEFT_HOTKEYS_COUNT", "1"));
    assert_eq!(one.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    let wrong = cluster.kv(&["hotkeys", "--count", "0"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("from 1 to 1024"), "{}", wrong.stderr);
}

#[test]
fn keys_of_all_nodes_are_merged() {
    let cluster = Cluster::start(3);
    wait_until_spread(|| connect(&cluster), 3);
    let client = connect(&cluster);
    for number in 0..30 {
        ask(&client, format!("key-{number}").as_bytes(), 2_000);
    }
    let json = cluster.kv(&["--json", "hotkeys", "--count", "100"]).ok();
    let keys: Value = serde_json::from_str(&json).unwrap();
    let keys = keys.as_array().unwrap();
    let mut nodes: Vec<_> = keys.iter().map(|key| key["node"].as_u64().unwrap()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!((keys.len(), nodes), (30, vec![1, 2, 3]));
    let rates: Vec<_> =
        keys.iter().map(|key| key["requests_per_second"].as_f64().unwrap()).collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
}

#[test]
fn a_node_that_does_not_answer_is_named_and_the_keys_of_the_others_are_told() {
    let cluster = Cluster::start(2);
    let client = connect(&cluster);
    for number in 0..50 {
        ask(&client, format!("key-{number}").as_bytes(), 2_000);
    }
    kill_process(cluster.pids()[1], Signal::KILL).unwrap();
    cluster.wait_until_one_is_gone();
    let timeout = format!("{}ms", Duration::from_secs(2).as_millis());
    let some = cluster.kv(&["--timeout", &timeout, "--json", "hotkeys", "--count", "50"]);
    assert_eq!(some.code, 1);
    assert!(some.stderr.contains("node 2") && some.stderr.contains("WEFT-12"), "{}", some.stderr);
    let keys: Value = serde_json::from_slice(&some.stdout).unwrap();
    let keys = keys.as_array().unwrap();
    assert!(!keys.is_empty() && keys.iter().all(|key| key["node"] == 1), "{keys:?}");

    let nobody = Port::new();
    let failed = kv(&["--cluster", &nobody.address.to_string(), "hotkeys"]);
    assert!(failed.code == 1 && failed.stderr.contains("WEFT-1208"), "{}", failed.stderr);
}
