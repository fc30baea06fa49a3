//! What is left of a cluster with a node that has died goes on with everything.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

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
    let began = Instant::now();
    while health() != DEGRADED {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not go on");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "50");
    let tables = cluster.kv(&["table", "list"]).ok();
    assert!(tables.contains("default") && tables.contains("herd"), "{tables}");
    let truncated = cluster.kv(&["table", "truncate", "herd"]);
    assert_eq!((truncated.code, truncated.stderr.as_str()), (0, "kv: 50 objects removed\n"));
    assert_eq!(cluster.kv(&["--table", "herd", "count"]).ok().trim(), "0");
    assert_eq!(cluster.kv(&["count"]).ok().trim(), "50");
}
