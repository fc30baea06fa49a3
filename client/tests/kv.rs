//! `kv` against real server processes: what scripts see on stdout, stderr and in the exit code.

#![expect(clippy::unwrap_used, reason = "the cluster's functions are called by tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests run programs, and look at what they leave"
)]

#[path = "kv/cluster.rs"]
mod cluster;
#[path = "kv/cluster_state.rs"]
mod cluster_state;
#[path = "kv/control_port.rs"]
mod control_port;
#[path = "kv/files.rs"]
mod files;
#[path = "kv/hot_keys.rs"]
mod hot_keys;
#[path = "kv/node_dies.rs"]
mod node_dies;
#[path = "kv/playground.rs"]
mod playground;
#[path = "tables/ports.rs"]
mod ports;
#[path = "tables/spread.rs"]
mod spread;
#[path = "kv/tables.rs"]
mod tables;
#[path = "kv/values.rs"]
mod values;
#[path = "kv/watch.rs"]
mod watch;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use weft_client::{BlockingClient, ClientConfig, ErrorCode, Lookup, NodeId};
use weft_protocol::Slot;

use self::cluster::{Cluster, Ran, kv, start_kv};
use self::ports::Port;

#[test]
fn nodes_of_a_playground_share_the_memory() {
    let dir = TempDir::new().unwrap();
    let (server, dir_name) = (cluster::server(), dir.path().to_str().unwrap());
    let server = server.to_str().unwrap();
    let start = ["--json", "playground", "--detach", "--nodes", "3", "--dir", dir_name];
    let start = [&start[..], &["--server-binary", server]].concat();
    let limits = |arguments: &[&str], variables: &[(&str, &str)]| -> Vec<u64> {
        let arguments = [&start[..], arguments].concat();
        let up = cluster::finish(start_kv(&arguments).envs(variables.iter().copied()));
        let up: Value = serde_json::from_str(&up.ok()).unwrap();
        let stat = kv(&["--cluster", up["cluster"].as_str().unwrap(), "--json", "stat"]);
        kv(&["playground", "stop", "--dir", dir_name]).ok();
        let stat: Value = serde_json::from_str(&stat.ok()).unwrap();
        let nodes = stat["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["memory"]["limit_bytes"].as_u64().unwrap()).collect()
    };
    let system = rustix::system::sysinfo();
    let there = u64::from(system.mem_unit) * system.totalram;
    let shared = limits(&[], &[]);
    let least = 64 << 20;
    assert!(shared.iter().sum::<u64>() <= (there / 2).max(3 * least), "{shared:?} of {there}");
    assert_eq!(limits(&["--memory", "80MiB"], &[]), [80 << 20; 3]);
    assert_eq!(limits(&["--", "--memory", "80MiB"], &[]), [80 << 20; 3]);
    assert_eq!(limits(&[], &[("WEFT_MEMORY", "80MiB")]), [80 << 20; 3]);
}

#[test]
fn what_nodes_do_is_shown_as_often_as_asked() {
    let cluster = Cluster::start(2);
    let top = ["top", "--interval", "50ms", "--count", "3"];
    let raw = cluster.kv(&top).ok();
    assert_eq!(raw.lines().count(), 6);
    assert!(raw.lines().all(|line| line.ends_with("\t0")), "nobody asks for anything: {raw}");
    let json = cluster.kv(&[&["--json"], &top[..]].concat()).ok();
    for line in json.lines() {
        let nodes: Value = serde_json::from_str(line).unwrap();
        assert_eq!(nodes.as_array().unwrap().len(), 2);
        assert!(nodes[0]["limit_bytes"].as_u64().unwrap() > 0, "{nodes}");
    }
    let table = cluster.kv(&[&["-o", "table"], &top[..]].concat()).ok();
    assert!(table.contains("requests/s"), "{table}");
}

#[test]
fn a_short_benchmark_leaves_nothing_behind() {
    let cluster = Cluster::start(2);
    let arguments = ["--json", "bench", "--keys", "500", "--duration", "100ms"];
    let figures: Value = serde_json::from_str(&cluster.kv(&arguments).ok()).unwrap();
    assert!(figures["throughput_ops_s"].as_f64().unwrap() > 0.0);
    for operation in ["read", "write"] {
        assert!(figures["operations"][operation]["count"].as_u64().unwrap() > 0, "{figures}");
        assert_eq!(figures["operations"][operation]["errors"], 0);
    }
    let stat: Value = serde_json::from_str(&cluster.kv(&["--json", "stat"]).ok()).unwrap();
    assert_eq!(stat["total"]["keys"], 0);
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let nobody = Port::new();
    let address = nobody.address.to_string();
    for arguments in [&["get", "k"][..], &["put", "k", "v"], &["stat"], &["ping"], &["mget", "k"]] {
        let failed = kv(&[&["--cluster", &address], arguments].concat());
        assert_eq!((failed.code, failed.stdout.as_slice()), (1, &b""[..]), "{arguments:?}");
        for part in [&address, "refused", "check the addresses", "WEFT-1208"] {
            assert!(failed.stderr.contains(part), "{:?} lacks {part:?}", failed.stderr);
        }
    }
    // Another program answers, as a node's HTTP port does.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
        // Until kv has gone.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let failed = kv(&["--cluster", &address, "get", "k"]);
    answering.join().unwrap();
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("what answers there is no node's data port"),
        "{}",
        failed.stderr
    );
    let unknown = kv(&["--cluster", "no-such-host.invalid:7400", "get", "k"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("cannot be resolved"), "{}", unknown.stderr);
}

#[test]
fn wrong_usage_is_told_from_failure() {
    for (arguments, said) in [
        (&["--cluster", "nonsense", "get", "k"][..], "HOST:PORT"),
        (&["--timeout", "soon", "get", "k"], "write a number and a unit, such as 5s"),
        (&["--timeout", "0s", "get", "k"], "longer than nothing"),
        (&["--cluster", "127.0.0.1:7400", "get"], "Usage: kv get [OPTIONS] <KEY>"),
        (&["-o", "xml", "get", "k"], "table"),
        (&["frobnicate"], "frobnicate"),
        (&["get"], "KEY"),
        (&["mput", "a", "1", "b"], "\"b\", has no value"),
        (&["explain", "WEFT-1"], "WEFT-1101"),
        (&["playground", "--nodes", "0"], "give a whole number from 1 to 2048"),
        (&["playground", "--nodes", "many"], "give a whole number from 1 to 2048"),
        (&["bench", "--value-size", "2MiB"], "give a whole number from 0 to 900000"),
        (&["ping", "--count", "0"], "give a whole number from 1 to"),
    ] {
        let wrong = kv(arguments);
        assert_eq!(wrong.code, 2, "{arguments:?}: {}", wrong.stderr);
        assert!(wrong.stderr.contains(said), "{:?} lacks {said:?}", wrong.stderr);
    }
    let missing = kv(&["put", "k", "@/no/such/file"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("/no/such/file") && missing.stderr.contains("--literal"));
    let dir = TempDir::new().unwrap();
    let fresh = dir.path().join("fresh");
    let fresh = ["playground", "--nodes", "1", "--dir", fresh.to_str().unwrap()];
    let not_a_server = kv(&[&fresh[..], &["--server-binary", "/bin/true"]].concat());
    assert_eq!(not_a_server.code, 1);
    let says = &not_a_server.stderr;
    assert!(says.contains("without a word; check that /bin/true"), "{says}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let dir_of_file = ["playground", "--dir", file.to_str().unwrap()];
    let server = ["--server-binary", "/bin/true"];
    let not_a_dir = kv(&[&dir_of_file[..], &server].concat());
    assert_eq!(not_a_dir.code, 1);
    assert!(not_a_dir.stderr.contains("by --dir"), "{}", not_a_dir.stderr);
    let no_server = kv(&["playground", "--server-binary", "/no/such/server"]);
    assert_eq!(no_server.code, 1);
    assert!(no_server.stderr.contains("/no/such/server"), "{}", no_server.stderr);
}

/// By `script`, which gives a program a terminal.
#[test]
fn lines_on_a_terminal_are_commands() {
    let cluster = Cluster::start(1);
    let home = TempDir::new().unwrap();
    let kv = format!("{} --cluster {}", env!("CARGO_BIN_EXE_kv"), cluster.address());
    let lines = "put greeting 'hello there'\nget greeting\nget nobody\nput 'unfinished\n\
                 nonsense\n--json get greeting\nput -t default farewell bye\nexit\nget never\n";
    let clients = || {
        let stat: Value = serde_json::from_str(&cluster.kv(&["--json", "stat"]).ok()).unwrap();
        stat["nodes"][0]["counters"]["operations.open_client"].as_u64().unwrap()
    };
    let clients_before = clients();
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &kv, "/dev/null"]).env("XDG_STATE_HOME", home.path());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    script.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ended = script.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{shown}");
    for said in [
        "hello there",
        "key not found: \"nobody\"",
        "a quotation mark is missing",
        "unrecognized subcommand",
        r#""value":"hello there""#,
    ] {
        assert!(shown.contains(said), "{said:?} is not in {shown}");
    }
    assert_eq!(clients() - clients_before, 1, "all lines go by one client");
    let history = fs::read_to_string(home.path().join("weft/kv_history")).unwrap();
    assert!(history.contains("get greeting") && !history.contains("never"), "{history}");
    // Elsewhere it is wrong usage.
    let nothing = self::kv(&[]);
    assert!(nothing.code == 2 && nothing.stderr.contains("give a command"), "{}", nothing.stderr);
}

#[test]
fn variables_stand_in_for_flags() {
    let nobody = Port::new();
    let address = nobody.address.to_string();
    let mut command = start_kv(&["playground", "stop"]);
    let dir = TempDir::new().unwrap();
    command.env("WEFT_PLAYGROUND_DIR", dir.path()).env("WEFT_PLAYGROUND_DETACH", "1");
    let stopped = cluster::finish(command.env("WEFT_OUTPUT", "table"));
    let said = format!("kv: nothing runs in {}\n", dir.path().display());
    assert_eq!((stopped.code, stopped.stderr), (0, said));
    let failed = cluster::finish(start_kv(&["get", "k"]).env("WEFT_CLUSTER", &address));
    assert!(failed.stderr.contains(&address), "{}", failed.stderr);
    let json = cluster::finish(start_kv(&["--json", "explain", "1203"]).env("WEFT_OUTPUT", "raw"));
    assert!(json.ok().starts_with('{'));
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let dir = TempDir::new().unwrap();
    let stop = ["playground", "stop", "--dir", dir.path().to_str().unwrap()];
    let mut command = start_kv(&stop);
    for variable in ["WEFT_CLUSTER", "WEFT_TIMEOUT", "WEFT_OUTPUT", "WEFT_PLAYGROUND_GRACE"] {
        command.env(variable, "");
    }
    let stopped = cluster::finish(&mut command);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("nothing runs in"), "{}", stopped.stderr);
    // It hides neither a flag nor a memory share from the nodes of a playground.
    let server = cluster::server();
    let start = ["--json", "playground", "--detach", "--nodes", "1", "--dir", stop[3]];
    let start = [&start[..], &["--server-binary", server.to_str().unwrap()]].concat();
    let variables = ["WEFT_MEMORY", "WEFT_HTTP", "WEFT_POLL", "WEFT_PLAYGROUND_DETACH"];
    let mut command = start_kv(&start);
    cluster::finish(command.envs(variables.map(|name| (name, "")))).ok();
    kv(&stop).ok();
}

#[test]
fn codes_are_explained_and_shells_completed() {
    let one = kv(&["explain", "weft-1203"]).ok();
    assert!(one.starts_with("WEFT-1203: ") && one.contains("may have been applied"), "{one}");
    let all: Value = serde_json::from_str(&kv(&["--json", "explain"]).ok()).unwrap();
    assert_eq!(all.as_array().unwrap().len(), ErrorCode::all().len());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(kv(&["completions", shell]).ok().contains("playground"), "{shell}");
    }
}

#[test]
fn a_playground_says_how_to_reach_it_and_stops_as_often_as_asked() {
    let cluster = Cluster::start(3);
    let nodes = cluster.nodes();
    assert_eq!(nodes.len(), 3);
    assert_eq!(cluster.address(), nodes[0]["address"]);
    for (node, id) in nodes.iter().zip(1..) {
        assert_eq!(node["id"], id);
        let address = node["address"].as_str().unwrap();
        kv(&["--cluster", address, "put", "greeting", "hello"]).ok();
        let log = fs::read_to_string(cluster.dir().join(format!("node-{id}.log"))).unwrap();
        assert!(log.contains(address), "{log}");
    }
    // Another one does not take its place.
    let second = kv(&["playground", "--detach", "--dir", cluster.dir().to_str().unwrap()]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("runs in"), "{}", second.stderr);

    let pids = cluster.pids();
    let stop = ["--json", "playground", "stop", "--dir", cluster.dir().to_str().unwrap()];
    let stopped = |ran: Ran| serde_json::from_str::<Value>(&ran.ok()).unwrap();
    let first = stopped(kv(&stop));
    assert_eq!((&first["stopped"], &first["killed"]), (&json!(3), &json!(0)));
    assert!(!pids.into_iter().any(cluster::is_running), "a node is left");
    let again = kv(&stop);
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("nothing runs in"), "{}", again.stderr);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["stopped"], &again["already_gone"]), (&json!(0), &json!(0)));
}

/// Each playground begins anew, and removes what the one before kept, but nothing else.
#[test]
fn a_playground_removes_nothing_that_no_playground_made() {
    let dir = TempDir::new().unwrap();
    let kept = dir.path().join("data");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("thesis"), "mine").unwrap();
    let (server, dir_name) = (cluster::server(), dir.path().to_str().unwrap());
    let start = |nodes: &str| {
        let start = ["playground", "--detach", "--nodes", nodes, "--dir", dir_name];
        kv(&[&start[..], &["--server-binary", server.to_str().unwrap(), "--memory", "64MiB"]]
            .concat())
    };
    let stop = || kv(&["playground", "stop", "--dir", dir_name]).ok();
    let refused = start("2");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("is not of a playground"), "{}", refused.stderr);
    // One node keeps nothing.
    start("1").ok();
    stop();
    assert_eq!(fs::read_to_string(kept.join("thesis")).unwrap(), "mine");
    fs::remove_dir_all(&kept).unwrap();
    for _ in 0..2 {
        start("2").ok();
        assert!(kept.join("node-2").exists() && !kept.join("left").exists());
        stop();
        fs::write(kept.join("left"), "of the one before").unwrap();
    }
}

#[test]
fn nodes_that_died_are_no_obstacle_to_stopping() {
    let cluster = Cluster::start(2);
    for pid in cluster.pids() {
        kill_process(pid, Signal::KILL).unwrap();
    }
    cluster.wait_until_gone();
    let stop = ["--json", "playground", "stop", "--dir", cluster.dir().to_str().unwrap()];
    let stopped: Value = serde_json::from_str(&kv(&stop).ok()).unwrap();
    assert_eq!(stopped["already_gone"], 2);
}

#[test]
fn an_empty_list_of_processes_is_no_playground() {
    let dir = TempDir::new().unwrap();
    let dir_name = dir.path().to_str().unwrap();
    // What a crash of the machine may leave.
    let file = dir.path().join("playground.json");
    fs::write(&file, "").unwrap();
    let stopped = kv(&["playground", "stop", "--dir", dir_name]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("nothing runs in"), "{}", stopped.stderr);
    let server = cluster::server();
    let start = ["playground", "--detach", "--nodes", "1", "--dir", dir_name];
    kv(&[&start[..], &["--server-binary", server.to_str().unwrap()]].concat()).ok();
    kv(&["playground", "stop", "--dir", dir_name]).ok();
    fs::write(&file, "{").unwrap();
    let damaged = kv(&["playground", "stop", "--dir", dir_name]);
    assert_eq!(damaged.code, 1);
    assert!(damaged.stderr.contains("is damaged"), "{}", damaged.stderr);
}

#[test]
fn a_process_that_only_has_the_id_of_a_node_is_left_alone() {
    let cluster = Cluster::start(1);
    let file = cluster.dir().join("playground.json");
    let kept = fs::read_to_string(&file).unwrap();
    // As if the node had ended and this test had been given its id.
    let mut state: Value = serde_json::from_str(&kept).unwrap();
    state["nodes"][0]["pid"] = std::process::id().into();
    // They may have started within one tick, and then this test would be the node.
    let started = state["nodes"][0]["started_at_ticks"].as_u64().unwrap();
    state["nodes"][0]["started_at_ticks"] = (started - 100).into();
    fs::write(&file, state.to_string()).unwrap();
    let stop = ["--json", "playground", "stop", "--dir", cluster.dir().to_str().unwrap()];
    let stopped: Value = serde_json::from_str(&kv(&stop).ok()).unwrap();
    assert_eq!((&stopped["stopped"], &stopped["already_gone"]), (&json!(0), &json!(1)));
    fs::write(&file, kept).unwrap();
}

#[test]
fn a_playground_that_somebody_stays_with_ends_with_ctrl_c() {
    let dir = TempDir::new().unwrap();
    let server = cluster::server();
    let mut stayed = start_kv(&[
        "--json",
        "playground",
        "--nodes",
        "2",
        "--dir",
        dir.path().to_str().unwrap(),
        "--server-binary",
        server.to_str().unwrap(),
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut line = String::new();
    BufReader::new(stayed.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let up: Value = serde_json::from_str(&line).unwrap();
    let address = up["cluster"].as_str().unwrap();
    kv(&["--cluster", address, "put", "greeting", "hello"]).ok();
    kill_process(Pid::from_child(&stayed), Signal::INT).unwrap();
    assert!(stayed.wait().unwrap().success());
    for pid in cluster::pids_of(&up) {
        assert!(!cluster::is_running(pid), "a node is left");
    }
    assert!(!dir.path().join("playground.json").exists());
}

#[test]
fn a_server_that_does_not_start_is_quoted() {
    let dir = TempDir::new().unwrap();
    let server = cluster::server();
    let dir_name = dir.path().to_str().unwrap();
    let start = ["playground", "--detach", "--dir", dir_name, "--server-binary"];
    let start = [&start[..], &[server.to_str().unwrap()]].concat();
    // Settings that no server can use are wrong usage of whoever passes them on.
    for (arguments, said) in [
        (&["--", "--no-such-flag"][..], "--no-such-flag"),
        (&["--", "--partitions", "0"], "from 1 to 4096"),
        (&["--memory", "lots"], "such as 512MiB"),
    ] {
        let failed = kv(&[&start[..], arguments].concat());
        assert_eq!(failed.code, 2, "{arguments:?}: {}", failed.stderr);
        assert!(failed.stderr.contains(said), "{arguments:?}: {}", failed.stderr);
        assert!(failed.stderr.contains("refuses its settings"), "{}", failed.stderr);
    }
    assert!(!dir.path().join("playground.json").exists());
}

/// Three clients, each busy with the keys of one node. One node is killed: those of all go on, since others take over what it was the primary of.
#[test]
fn a_killed_node_takes_nobody_with_it() {
    let cluster = Cluster::start(3);
    let connect = || {
        let mut config = ClientConfig::new(cluster.addresses());
        config.timeout = Duration::from_secs(20);
        BlockingClient::connect(config).unwrap()
    };
    spread::wait_until_spread(connect, 3);
    let (killed, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let since_kill = [const { AtomicU64::new(0) }; 3];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|index| {
                let client = connect();
                let key = key_of(&client, NodeId(index as u64 + 1));
                let (killed, done, since_kill) = (&killed, &done, &since_kill[index]);
                scope.spawn(move || {
                    let mut written = 0_u64;
                    while !done.load(Ordering::SeqCst) {
                        let begun_after_kill = killed.load(Ordering::SeqCst);
                        client.put(&key, written.to_string()).unwrap();
                        let Lookup::Found(read) = client.get(&key).unwrap() else {
                            panic!("it was written")
                        };
                        assert_eq!(*read, *written.to_string().as_bytes());
                        written += 1;
                        if begun_after_kill {
                            since_kill.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        kill_process(cluster.pids()[1], Signal::KILL).unwrap();
        cluster.wait_until_one_is_gone();
        killed.store(true, Ordering::SeqCst);
        let enough = |index: usize| since_kill[index].load(Ordering::SeqCst) >= 100;
        // Who is finished has failed, and says so when all are.
        while !(0..3).all(enough) && !workers.iter().any(|worker| worker.is_finished()) {
            std::thread::yield_now();
        }
        done.store(true, Ordering::SeqCst);
    });
    // The dead one is told from the living, and they are not held up by it.
    let pinged = cluster.kv(&["--timeout", "500ms", "ping"]);
    assert_eq!(pinged.code, 1);
    assert!(pinged.stderr.contains("node 2") && pinged.stderr.contains("WEFT-1201"));
    let stat = cluster.kv(&["--timeout", "500ms", "-o", "table", "stat"]);
    assert_eq!(stat.code, 1);
    assert!(String::from_utf8(stat.stdout).unwrap().contains("total"));
}

/// A key that the node owns, which owns some.
fn key_of(client: &BlockingClient, node: NodeId) -> String {
    let map = client.client().map();
    let owned = |key: &String| map.owner_of(Slot::of(key.as_bytes())).unwrap().id == node;
    (0..).map(|number| format!("key {number}")).find(owned).unwrap()
}
