//! What is left of a cluster with a node that has died goes on with everything.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use weft_client::{BlockingClient, ClientConfig};

use crate::cluster::Cluster;

/// Healthy it is not, and all is served.
const DEGRADED: i32 = 1;

#[test]
fn tables_are_counted_and_emptied_though_a_node_has_died() {
    let cluster = Cluster::start_with(3, &["--replicas", "3"]);
    let health = || cluster.kv(&["cluster", "health"]).code;
    // It says that it has begun when it serves.
    assert!(health() <= DEGRADED);
    cluster.kv(&["table", "create", "herd"]).ok();
    for number in 0..50 {
        cluster.kv(&["put", &format!("k{number}"), "v"]).ok();
        cluster.kv(&["--table", "herd", "put", &format!("k{number}"), "v"]).ok();
    }
    kill_process(cluster.pids()[2], Signal::KILL).unwrap();
    // Until others serve what it did, it is waited for them.
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "50");
    until(|| health() == DEGRADED);
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "50");
    let tables = cluster.kv(&["table", "list"]).ok();
    assert!(tables.contains("default") && tables.contains("herd"), "{tables}");
    let truncated = cluster.kv(&["table", "truncate", "herd"]);
    assert_eq!((truncated.code, truncated.stderr.as_str()), (0, "kv: 50 objects removed\n"));
    assert_eq!(cluster.kv(&["--table", "herd", "count"]).ok().trim(), "0");
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "50");
}

/// A client whose map is of before a node was given its part again: what that one serves is counted and emptied, too.
#[test]
fn what_a_node_serves_by_a_newer_map_is_not_forgotten() {
    let cluster = Cluster::start_with(3, &["--replicas", "3", "--", "--partitions", "4"]);
    for number in 0..20 {
        cluster.kv(&["put", &format!("k{number}"), "v"]).ok();
    }
    let primaries = || {
        let nodes = cluster.kv(&["--json", "cluster", "nodes"]).ok();
        let nodes: Vec<Value> = serde_json::from_str(&nodes).unwrap();
        let third = nodes.iter().find(|node| node["node"] == 3).unwrap();
        third["primaries"].as_u64().unwrap()
    };
    let third = cluster.pids()[2];
    kill_process(third, Signal::STOP).unwrap();
    until(|| primaries() == 0);
    let config = ClientConfig::new(cluster.addresses()[..2].to_vec());
    let client = BlockingClient::connect(config).unwrap();
    assert_eq!(client.count().unwrap(), 20);
    kill_process(third, Signal::CONT).unwrap();
    until(|| primaries() > 0);
    assert_eq!(client.count().unwrap(), 20);
    assert_eq!(client.truncate().unwrap(), 20);
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "0");
}

fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not come about");
        thread::sleep(Duration::from_millis(50));
    }
}
