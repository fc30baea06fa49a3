//! `kv cluster`: what operators see of a cluster, and what scripts are told by exit codes.

use std::net::TcpListener;

use serde_json::{Value, json};
use tonic::Code;
use weft_client::ErrorCode;
use weft_protocol::control::v1::{
    Coordinator, Durability, MapUpdate, Member, Node, Partition, Standing, StatusResponse, Worker,
};

use crate::cluster::{Ran, finish, kv, start_kv};
use crate::control_port::{ControlPort, Script};
use crate::ports::Port;

fn member(node: u64) -> Member {
    Member { node, incarnation: 10 + node }
}

fn node(id: u64) -> Node {
    Node {
        member: Some(member(id)),
        standing: Standing::Up.into(),
        data_address: format!("10.0.0.{id}:7400"),
        control_address: format!("10.0.0.{id}:7401"),
        zone: if id == 3 { String::new() } else { format!("rack-{id}") },
        capacity_bytes: 2 << 30,
        heard_ms_ago: Some(12),
        is_diskless: false,
        primaries: 1,
        replicas: 2,
    }
}

fn partition(number: u32) -> Partition {
    Partition {
        partition: number,
        first_slot: number * 8192,
        last_slot: number * 8192 + 8191,
        replicas: 3,
        durability: Durability::Memory.into(),
        epoch: 4,
        primary: Some(member(1 + u64::from(number))),
        members: [1, 2, 3].map(member).to_vec(),
        learners: Vec::new(),
        min_in_sync: 2,
        is_lost: false,
        is_starting: false,
        is_unused: false,
    }
}

/// Three nodes that hold two partitions and coordinate, all well.
fn healthy() -> StatusResponse {
    let coordinator = |node| Coordinator {
        node,
        is_leader: node == 2,
        is_voter: true,
        behind: 0,
        is_missed: false,
    };
    StatusResponse {
        cluster_id: (0..16).collect(),
        map_version: 42,
        coordinators: [1, 2, 3].map(coordinator).to_vec(),
        nodes: [1, 2, 3].map(node).to_vec(),
        partitions: [0, 1].map(partition).to_vec(),
        wanted_voters: 3,
        unplaced_kinds: 0,
    }
}

/// Node 3 is down, and was of all partitions.
fn degraded() -> StatusResponse {
    let mut status = healthy();
    status.nodes[2].set_standing(Standing::Down);
    status.nodes[2].heard_ms_ago = Some(61_000);
    status.partitions[1].members.pop();
    status.partitions[1].learners.push(member(3));
    status
}

fn lost() -> StatusResponse {
    let mut status = healthy();
    let lost = &mut status.partitions[1];
    (lost.is_lost, lost.primary) = (true, None);
    lost.members.clear();
    status
}

fn port_of(status: StatusResponse) -> ControlPort {
    ControlPort::start(Script { status, ..Script::default() })
}

fn cluster(port: &ControlPort, arguments: &[&str]) -> Ran {
    kv(&[&["cluster", "--control", &port.address], arguments].concat())
}

fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_status_says_in_short_how_the_cluster_is() {
    let port = port_of(degraded());
    let table = cluster(&port, &["-o", "table", "status"]).ok();
    assert_eq!(
        table,
        "cluster       000102030405060708090a0b0c0d0e0f\n\
         map version   42\n\
         health        degraded\n\
         nodes         3: 2 up, 1 down\n\
         partitions    2: 2 short of replicas\n\
         coordinators  3: node 1, node 2 leads, node 3 is down\n"
    );
    let raw = cluster(&port, &["status"]).ok();
    assert!(raw.contains("map version\t42\n"), "{raw}");
    let told = as_json(&cluster(&port, &["--json", "status"]).ok());
    assert_eq!(told["cluster"], "000102030405060708090a0b0c0d0e0f");
    assert_eq!((&told["health"], &told["map_version"]), (&json!("degraded"), &json!(42)));
    assert_eq!(
        told["partitions"],
        json!({ "total": 2, "unused": 0, "whole": 0, "short": 2, "no_writes": 0, "unserved": 0, "lost": 0 })
    );
    let coordinator =
        json!({ "node": 3, "leader": false, "voter": true, "behind": 0, "missing": true });
    assert_eq!(told["coordinators"][2], coordinator);
    assert_eq!(told["nodes"].as_array().unwrap().len(), 3);
}

#[test]
fn nodes_and_partitions_are_listed() {
    let port = port_of(degraded());
    let table = cluster(&port, &["-o", "table", "nodes"]).ok();
    assert_eq!(
        table,
        "node  standing  incarnation  data           control        zone        heard  capacity  primaries  replicas\n\
         1     up        11           10.0.0.1:7400  10.0.0.1:7401  rack-1   12ms ago   2.0 GiB          1         2\n\
         2     up        12           10.0.0.2:7400  10.0.0.2:7401  rack-2   12ms ago   2.0 GiB          1         2\n\
         3     down      13           10.0.0.3:7400  10.0.0.3:7401  -       1m 1s ago   2.0 GiB          1         2\n"
    );
    let raw = cluster(&port, &["nodes"]).ok();
    assert_eq!(raw.lines().last(), Some("3\tdown\t10.0.0.3:7400\t10.0.0.3:7401"));
    let told = as_json(&cluster(&port, &["--json", "nodes"]).ok());
    assert_eq!(
        told[0],
        json!({
            "node": 1, "incarnation": "11", "standing": "up", "data_address": "10.0.0.1:7400",
            "control_address": "10.0.0.1:7401", "zone": "rack-1", "capacity_bytes": 2u64 << 30,
            "is_diskless": false, "heard_ms_ago": 12, "primaries": 1, "replicas": 2,
        })
    );

    let table = cluster(&port, &["-o", "table", "partitions"]).ok();
    assert_eq!(
        table,
        "partition  slots          class               condition          primary  members  learners  in sync at least  epoch\n\
         0          0 to 8191      3 replicas, memory  short of replicas  1        1 2 3    -                        2      4\n\
         1          8192 to 16383  3 replicas, memory  short of replicas  2        1 2      3                        2      4\n"
    );
    let raw = cluster(&port, &["partitions"]).ok();
    assert_eq!(raw, "0\tshort\t1\t1 2 3\n1\tshort\t2\t1 2\n");
    let told = as_json(&cluster(&port, &["--json", "partitions"]).ok());
    assert_eq!(
        told[1],
        json!({
            "partition": 1, "first_slot": 8192, "last_slot": 16383, "wanted_replicas": 3,
            "durability": "memory", "epoch": 4, "primary": 2, "members": [1, 2], "learners": [3],
            "min_in_sync": 2, "is_lost": false, "is_starting": false, "is_unused": false, "condition": "short",
        })
    );
    let port = port_of(lost());
    assert_eq!(cluster(&port, &["partitions", "--lacking"]).ok(), "1\tlost\t-\t-\n");
}

#[test]
fn workers_are_listed_in_the_order_in_which_they_registered() {
    let worker = |worker, slots, build: &str| Worker {
        worker,
        address: format!("10.0.0.{worker}:9000"),
        slots,
        build: build.to_owned(),
        process: 70 + worker as u32,
    };
    let workers = vec![worker(3, 4, "1f2e"), worker(12, 16, "")];
    let port = ControlPort::start(Script { workers, ..Script::default() });
    assert_eq!(
        cluster(&port, &["-o", "table", "workers"]).ok(),
        "worker  address         build  slots  process\n\
         3       10.0.0.3:9000   1f2e       4       73\n\
         12      10.0.0.12:9000  -         16       82\n"
    );
    let raw = cluster(&port, &["workers"]).ok();
    assert_eq!(raw, "3\t10.0.0.3:9000\t1f2e\t4\t73\n12\t10.0.0.12:9000\t-\t16\t82\n");
    let told = as_json(&cluster(&port, &["--json", "workers"]).ok());
    assert_eq!(
        told[0],
        json!({ "worker": 3, "address": "10.0.0.3:9000", "slots": 4, "build": "1f2e", "process": 73 })
    );
    assert_eq!(told.as_array().unwrap().len(), 2);
}

#[test]
fn health_is_an_exit_code() {
    for (status, code, raw) in
        [(healthy(), 0, "healthy\n"), (degraded(), 1, "degraded\n"), (lost(), 3, "not-serving\n")]
    {
        let port = port_of(status);
        let ran = cluster(&port, &["health"]);
        assert_eq!((ran.code, &*ran.stderr), (code, ""));
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), raw);
    }
    let port = port_of(degraded());
    let table = cluster(&port, &["-o", "table", "health"]);
    assert_eq!(
        String::from_utf8(table.stdout).unwrap(),
        "degraded\n  partitions 2: 2 short of replicas\n  nodes that are down: 3\n  \
         coordinators that are missing: 3\n"
    );
    let ran = cluster(&port, &["--json", "health"]);
    let told = as_json(std::str::from_utf8(&ran.stdout).unwrap());
    assert_eq!((ran.code, &told["health"]), (1, &json!("degraded")));
    assert_eq!((&told["down_nodes"], &told["missing_coordinators"]), (&json!([3]), &json!([3])));
    assert_eq!(told["partitions"]["short"], 2);
    assert_eq!((&told["voters"], &told["wanted_voters"]), (&json!(3), &json!(3)));
    // Its node is up, and it has not what the others have.
    let mut status = healthy();
    (status.coordinators[2].is_missed, status.coordinators[2].behind) = (true, 99);
    let port = port_of(status);
    let table = cluster(&port, &["-o", "table", "health"]);
    assert_eq!(table.code, 1);
    let told = String::from_utf8(table.stdout).unwrap();
    assert_eq!(told, "degraded\n  coordinators that are missing: 3\n");
    let table = cluster(&port, &["-o", "table", "status"]).ok();
    assert!(table.contains("node 3 does not follow, 99 entries behind"), "{table}");
    // One votes, where three could.
    let mut status = healthy();
    (status.coordinators[0].is_voter, status.coordinators[2].is_voter) = (false, false);
    let table = cluster(&port_of(status), &["-o", "table", "health"]);
    assert_eq!(table.code, 1);
    assert_eq!(
        String::from_utf8(table.stdout).unwrap(),
        "degraded\n  coordinators that vote: 1 of 3\n"
    );
}

#[test]
fn a_cluster_that_does_not_answer_is_told_from_one_that_is_ill() {
    let nobody = Port::new();
    let dead = nobody.address.to_string();
    let ran = kv(&["cluster", "health", "--control", &dead]);
    assert_eq!((ran.code, ran.stdout.as_slice()), (4, &b""[..]));
    for part in [&*dead, "refused", "--control", "WEFT-1208"] {
        assert!(ran.stderr.contains(part), "{:?} lacks {part:?}", ran.stderr);
    }
    let ran = kv(&["cluster", "status", "--control", &dead]);
    assert_eq!(ran.code, 1, "elsewhere it is a failure like any other: {}", ran.stderr);
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let ran = kv(&["cluster", "health", "--control", &address, "--timeout", "100ms"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("in time"), "{}", ran.stderr);
    // Nothing is said to have been done by who only asks.
    assert!(ran.stderr.contains("WEFT-1208"), "{}", ran.stderr);
    let ran = kv(&["cluster", "leave", "1", "--control", &address, "--timeout", "100ms"]);
    assert!(ran.stderr.contains("WEFT-1203"), "{}", ran.stderr);
    for part in ["have node 1 leave", "may be carried out still", "`kv cluster nodes`"] {
        assert!(ran.stderr.contains(part), "{:?} lacks {part:?}", ran.stderr);
    }
    let ran = kv(&["cluster", "accept-loss", "1", "--control", &address, "--timeout", "100ms"]);
    for part in ["accept the loss", "may be carried out still", "`kv cluster partitions`"] {
        assert!(ran.stderr.contains(part), "{:?} lacks {part:?}", ran.stderr);
    }
    // Where nobody was asked, nothing is to be expected.
    let ran = kv(&["cluster", "leave", "1", "--control", &dead]);
    assert!(!ran.stderr.contains("carried out"), "{}", ran.stderr);
    // One that has no quorum.
    let refusal = (Code::Unavailable, ErrorCode::CoordinatorsUnavailable, "no quorum");
    let port = ControlPort::start(Script { refusal: Some(refusal), ..Script::default() });
    let ran = cluster(&port, &["health"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("(no quorum)") && ran.stderr.contains("WEFT-1123"));
    let wrong = kv(&["cluster", "health", "--control", "nonsense"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn one_address_that_answers_is_enough() {
    let (nobody, port) = (Port::new(), port_of(healthy()));
    let dead = nobody.address;
    let refusal = (Code::Unavailable, ErrorCode::CoordinatorsUnavailable, "no quorum");
    let cut_off = ControlPort::start(Script { refusal: Some(refusal), ..Script::default() });
    let addresses = format!("{dead},{},{}", cut_off.address, port.address);
    assert_eq!(kv(&["cluster", "health", "--control", &addresses]).ok(), "healthy\n");
    assert_eq!(cut_off.asked(), ["status"]);
    let by_variable = finish(start_kv(&["cluster", "health"]).env("WEFT_CONTROL", &addresses));
    assert_eq!(by_variable.ok(), "healthy\n");
    // Who says only where data goes means the port after that.
    let (host, number) = port.address.rsplit_once(':').expect("an address");
    let before = number.parse::<u16>().expect("a port") - 1;
    let cluster = format!("{host}:{before}");
    let by_cluster = finish(start_kv(&["cluster", "health"]).env("WEFT_CLUSTER", cluster));
    assert_eq!(by_cluster.ok(), "healthy\n");
}

#[test]
fn nodes_are_told_to_leave_and_to_stay() {
    let port = port_of(healthy());
    assert_eq!(cluster(&port, &["leave", "3"]).ok(), "");
    let told = as_json(&cluster(&port, &["--json", "stay", "3"]).ok());
    assert_eq!(told, json!({ "node": 3, "map_version": 44 }));
    assert_eq!(port.asked(), ["leave 3", "stay 3"]);
    // Who asks again may be too late, and has what he wanted.
    for (node, has_left, said) in [(3, false, "is leaving"), (4, true, "has left")] {
        let node = node.to_string();
        let told = as_json(&cluster(&port, &["--json", "leave", &node]).ok());
        assert_eq!(told["has_left"], has_left);
        let ran = cluster(&port, &["-o", "table", "leave", &node]);
        assert_eq!(ran.code, 0);
        assert!(ran.stderr.starts_with(&format!("kv: node {node} {said}")), "{}", ran.stderr);
    }
    port.asked();
    let refusal = (Code::NotFound, ErrorCode::NodeUnknown, "there is no node 9");
    let refusing = ControlPort::start(Script { refusal: Some(refusal), ..Script::default() });
    // What one has refused, no other is asked.
    let both = format!("{},{}", refusing.address, port.address);
    let ran = kv(&["cluster", "leave", "9", "--control", &both]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.stderr,
        "kv: cannot have node 9 leave: there is no node 9\n    WEFT-1124: `kv explain WEFT-1124` says more\n"
    );
    assert!(port.asked().is_empty());
}

#[test]
fn a_loss_is_accepted_of_partitions_that_are_named_or_of_all() {
    let port = port_of(lost());
    assert_eq!(cluster(&port, &["accept-loss", "1", "7"]).ok(), "1\n7\n");
    let table = cluster(&port, &["-o", "table", "accept-loss", "--all", "--give-up"]).ok();
    assert_eq!(table, "begun anew, empty: 2\n");
    let told = as_json(&cluster(&port, &["--json", "accept-loss", "1"]).ok());
    assert_eq!(told, json!({ "partitions": [1], "map_version": 45 }));
    assert_eq!(port.asked(), ["accept [1, 7] false", "accept [] true", "accept [1] false"]);
    for arguments in [&["accept-loss"][..], &["accept-loss", "1", "--all"]] {
        assert_eq!(cluster(&port, arguments).code, 2, "{arguments:?}");
    }
    assert!(port.asked().is_empty());
}

#[test]
fn what_becomes_of_the_map_is_watched_from_one_node_to_the_next() {
    let whole = MapUpdate {
        version: 42,
        is_whole: true,
        nodes: healthy().nodes,
        partitions: healthy().partitions,
        catalog_version: 5,
        ..MapUpdate::default()
    };
    let down = MapUpdate {
        version: 43,
        nodes: vec![degraded().nodes.remove(2)],
        catalog_version: 5,
        ..MapUpdate::default()
    };
    let less = MapUpdate {
        version: 44,
        gone_nodes: vec![3],
        partitions: vec![degraded().partitions.remove(1), lost().partitions.remove(1)],
        catalog_version: 6,
        ..MapUpdate::default()
    };
    let first = Script { updates: vec![(0, vec![whole.clone(), down])], ..Script::default() };
    let (first, second) = (
        ControlPort::start(first),
        ControlPort::start(Script { updates: vec![(43, vec![less])], ..Script::default() }),
    );
    let both = format!("{},{}", first.address, second.address);
    let ran = kv(&["cluster", "watch", "--count", "2", "--control", &both]);
    assert_eq!(
        String::from_utf8(ran.stdout).unwrap(),
        "43\tnode\t3\tdown, primary of 1, holds 2\n\
         44\tnode\t3\tgone\n\
         44\tpartition\t1\tepoch 4, primary 2, members 1 2, learners 3\n\
         44\tpartition\t1\tepoch 4, lost\n\
         44\ttables\t6\tchanged\n"
    );
    assert_eq!(ran.stderr, "kv: watching 3 nodes and 2 partitions, as of version 42\n");
    assert_eq!((first.asked(), second.asked()), (vec!["watch 0".into()], vec!["watch 43".into()]));

    let json = kv(&["cluster", "--json", "watch", "--count", "1", "--control", &both]).ok();
    let told = as_json(&json);
    assert_eq!((&told["version"], &told["is_whole"]), (&json!(42), &json!(true)));
    assert_eq!(told["partitions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_node_at_the_last_port_has_no_control_port_behind_it() {
    let ran = kv(&["--cluster", "127.0.0.1:65535", "cluster", "status"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--control"), "{}", ran.stderr);
}
