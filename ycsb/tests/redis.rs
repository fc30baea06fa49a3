//! The redis target against a small server in this process that speaks the protocol, so that these
//! tests need no Redis, see what is stored, and can make requests fail.

#![cfg(feature = "redis")]
#![expect(clippy::disallowed_methods, reason = "the tests run programs, and play a server")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A hash's fields, in the order in which they were written.
type Hash = Vec<(Vec<u8>, Vec<u8>)>;

/// What the server does to a request for a record, by its number.
type Fault = fn(u64) -> bool;

#[derive(Default)]
struct Store {
    strings: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    hashes: Mutex<BTreeMap<Vec<u8>, Hash>>,
    requests: AtomicU64,
    connections: AtomicU64,
}

/// Serves on a port of its own until the test process ends.
fn serve(fails: Fault) -> (Arc<Store>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let store = Arc::new(Store::default());
    let served = Arc::clone(&store);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let store = Arc::clone(&served);
            std::thread::spawn(move || store.converse(&stream.unwrap(), fails));
        }
    });
    (store, port)
}

impl Store {
    fn converse<S>(&self, stream: &S, fails: Fault)
    where
        for<'a> &'a S: Read + Write,
    {
        let mut output = stream;
        self.connections.fetch_add(1, Ordering::Relaxed);
        let mut input = BufReader::new(stream);
        while let Some(command) = read_command(&mut input) {
            let reply = match command[0].as_slice() {
                b"GET" | b"SET" | b"HGETALL" | b"HSET"
                    if fails(self.requests.fetch_add(1, Ordering::Relaxed)) =>
                {
                    b"-ERR out of order\r\n".to_vec()
                }
                b"GET" => match self.strings.lock().unwrap().get(&command[1]) {
                    Some(value) => bulk(value),
                    None => b"$-1\r\n".to_vec(),
                },
                b"SET" => {
                    self.strings.lock().unwrap().insert(command[1].clone(), command[2].clone());
                    b"+OK\r\n".to_vec()
                }
                b"HGETALL" => {
                    let hashes = self.hashes.lock().unwrap();
                    let fields = hashes.get(&command[1]).map_or(&[][..], Vec::as_slice);
                    let mut reply = format!("*{}\r\n", 2 * fields.len()).into_bytes();
                    for (name, value) in fields {
                        reply.extend([bulk(name), bulk(value)].concat());
                    }
                    reply
                }
                b"HSET" => {
                    let mut hashes = self.hashes.lock().unwrap();
                    let hash = hashes.entry(command[1].clone()).or_default();
                    for field in command[2..].chunks(2) {
                        match hash.iter_mut().find(|(name, _)| *name == field[0]) {
                            Some((_, value)) => value.clone_from(&field[1]),
                            None => hash.push((field[0].clone(), field[1].clone())),
                        }
                    }
                    format!(":{}\r\n", command.len() / 2 - 1).into_bytes()
                }
                b"INFO" => {
                    let requests = self.requests.load(Ordering::Relaxed);
                    let info = format!("# CPU\r\nused_cpu_sys:{requests}.5\r\nused_cpu_user:1\r\n");
                    bulk(info.as_bytes())
                }
                _ => b"+OK\r\n".to_vec(),
            };
            if output.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// `None` when the client has gone.
fn read_command(input: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let mut number = |prefix: char| {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(prefix)?.parse::<usize>().ok()
    };
    let count = number('*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let length: usize = line.trim_end().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(length);
        words.push(word);
    }
    Some(words)
}

/// Runs `ycsb PHASE redis ARGUMENTS --json`; the report, standard error and the exit code.
fn ycsb(phase: &str, port: u16, arguments: &str) -> (serde_json::Value, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_ycsb"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([phase, "redis", "--json", "-p", &format!("redis.port={port}")])
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|_| panic!("no report: {stderr}")), stderr, output.status.code())
}

fn succeed(phase: &str, port: u16, arguments: &str) -> serde_json::Value {
    let (report, stderr, code) = ycsb(phase, port, arguments);
    assert_eq!(code, Some(0), "ycsb {phase} {arguments}: {stderr}");
    report
}

#[test]
fn a_record_of_one_field_is_a_string_and_one_of_several_a_hash() {
    let (store, port) = serve(|_| false);
    succeed(
        "load",
        port,
        "-p recordcount=100 -p fieldcount=1 -p fieldlength=32 -p insertorder=ordered \
         -p zeropadding=12 -threads 3",
    );
    {
        let strings = store.strings.lock().unwrap();
        assert_eq!(strings.len(), 100);
        assert_eq!(strings.keys().next().unwrap(), b"user000000000000");
        assert_eq!(strings.keys().last().unwrap(), b"user000000000099");
        assert!(strings.values().all(|value| value.len() == 32));
    }
    succeed("load", port, "-P workloads/workloada -p recordcount=50 -p redis.mode=async");
    let hashes = store.hashes.lock().unwrap();
    assert_eq!(hashes.len(), 50);
    assert!(hashes.contains_key(b"user6284781860667377211".as_slice()));
    for hash in hashes.values() {
        let names = (0..10).map(|index| format!("field{index}").into_bytes());
        assert!(hash.iter().map(|(name, _)| name.clone()).eq(names));
        assert!(hash.iter().all(|(_, value)| value.len() == 100));
    }
}

#[test]
fn updates_keep_records_whole_in_both_modes() {
    for mode in ["blocking", "async"] {
        let (store, port) = serve(|_| false);
        let common = format!("-p recordcount=50 -p dataintegrity=true -p redis.mode={mode}");
        succeed("load", port, &format!("{common} -threads 4"));
        let before = store.hashes.lock().unwrap().clone();
        for workload in ["workloada", "workloadf"] {
            let report = succeed(
                "run",
                port,
                &format!("-P workloads/{workload} {common} -threads 8 -p operationcount=2000"),
            );
            let operations = &report["operations"];
            assert_eq!(report["mode"], mode);
            assert_eq!(operations["VERIFY"]["ok"], operations["READ"]["count"]);
            assert!(operations["UPDATE"]["ok"].as_u64().unwrap() > 800);
            assert_eq!(operations["UPDATE"]["errors"], 0);
        }
        assert_eq!(*store.hashes.lock().unwrap(), before, "the values follow from their keys");
    }
}

#[test]
fn an_update_of_one_field_changes_just_that() {
    let (store, port) = serve(|_| false);
    succeed("load", port, "-p recordcount=1 -p fieldcount=4 -p fieldlength=8");
    let record = || store.hashes.lock().unwrap().values().next().unwrap().clone();
    let before = record();
    let update = "-p recordcount=1 -p fieldcount=4 -p fieldlength=8 -p operationcount=1 \
                  -p readproportion=0 -p updateproportion=1 -p seed=7";
    succeed("run", port, update);
    let after = record();
    assert_eq!((before.len(), after.len()), (4, 4));
    assert_eq!(before.iter().zip(&after).filter(|(one, other)| one != other).count(), 1);
}

#[test]
fn blocking_requesters_have_a_connection_each_and_async_ones_share() {
    for (mode, expected) in [("blocking", 8), ("async", 2)] {
        let (store, port) = serve(|_| false);
        let threads = "-p redis.async.threads=2 -threads 8";
        succeed("load", port, &format!("-p recordcount=100 -p redis.mode={mode} {threads}"));
        let connections = store.connections.load(Ordering::Relaxed);
        assert_eq!(connections, expected + 1, "{mode}: one more asks for statistics");
    }
}

#[test]
fn a_server_is_reached_by_its_unix_socket_too() {
    let path = std::env::temp_dir().join(format!("weft-ycsb-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let store = Arc::new(Store::default());
    let served = Arc::clone(&store);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let store = Arc::clone(&served);
            std::thread::spawn(move || store.converse(&stream.unwrap(), |_| false));
        }
    });
    let socket = format!("-p redis.socket={} -p recordcount=50", path.display());
    // Nobody is at that port.
    let loaded = succeed("load", 1, &socket);
    assert_eq!((&loaded["link"], store.hashes.lock().unwrap().len()), (&"unix".into(), 50));
    let workload = "-P workloads/workloada -p redis.mode=async -p operationcount=200";
    let report = succeed("run", 1, &format!("{workload} {socket}"));
    assert_eq!(report["operations"]["READ"]["errors"], 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_latest_records_are_there_when_they_are_read() {
    let (_, port) = serve(|_| false);
    succeed("load", port, "-p recordcount=100");
    let report = succeed(
        "run",
        port,
        "-p recordcount=100 -p operationcount=3000 -p requestdistribution=latest -threads 8 \
         -p readproportion=0.8 -p updateproportion=0 -p insertproportion=0.2",
    );
    assert_eq!(report["operations"]["READ"]["errors"], 0);
    assert!(report["operations"]["INSERT"]["ok"].as_u64().unwrap() > 400);
}

#[test]
fn the_servers_cpu_time_is_what_it_took_during_the_run() {
    let (_, port) = serve(|_| false);
    let report = succeed("load", port, "-p recordcount=40");
    assert_eq!(report["cpu_seconds"]["server"], 40.0, "this server charges a second a request");
}

#[test]
fn failed_operations_are_results_of_a_run_and_failures_of_a_load() {
    let (_, port) = serve(|number| number % 4 == 3);
    let (report, stderr, code) = ycsb("load", port, "-p recordcount=100 -threads 2");
    assert_eq!(code, Some(1));
    let insert = &report["operations"]["INSERT"];
    // A requester stops at the first insert that fails, so each has one.
    assert_eq!(insert["errors"], 2);
    let inserted = &insert["ok"];
    let what = format!("{inserted} of 100 records were inserted; 2 requesters stopped, each at");
    assert!(stderr.contains(&what), "{stderr}");
    assert!(stderr.contains("INSERT failed: "), "{stderr}");

    let run = "-p recordcount=100 -p operationcount=200 -p readproportion=1 -p updateproportion=0";
    let (report, stderr, code) = ycsb("run", port, run);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("further failed requests are counted, not shown"), "{stderr}");
    let read = &report["operations"]["READ"];
    assert_eq!(read["count"], 200);
    assert!(read["errors"].as_u64().unwrap() >= 50, "{read}");
}

#[test]
fn records_that_are_missing_are_told_beside_failures() {
    let (_, port) = serve(|number| (600..620).contains(&number));
    // Every other record is there: that 500 uniform reads find none, or nearly all, cannot happen.
    succeed("load", port, "-p recordcount=500");
    let run = "-p recordcount=1000 -p operationcount=500 -p readproportion=1 \
               -p updateproportion=0 -p requestdistribution=uniform";
    let (report, stderr, code) = ycsb("run", port, run);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(report["operations"]["READ"]["errors"].as_u64().unwrap() > 100, "{report}");
    let missing = "READ failed: there is no record user";
    assert_eq!(stderr.matches(missing).count(), 5, "{stderr}");
    assert!(stderr.contains("check that recordcount, insertorder and zeropadding"), "{stderr}");
    assert!(stderr.contains("further missing records are counted, not shown"), "{stderr}");
    assert!(stderr.contains("READ failed: ResponseError"), "{stderr}");
}

#[test]
fn a_failed_insert_is_tried_again_if_asked_for() {
    let (store, port) = serve(|number| number % 4 == 3);
    let retry = "-p core_workload_insertion_retry_limit=2 \
                 -p core_workload_insertion_retry_interval=0";
    let report = succeed("load", port, &format!("-p recordcount=100 {retry}"));
    assert_eq!(store.hashes.lock().unwrap().len(), 100);
    assert_eq!(report["operations"]["INSERT"]["ok"], 100);
    assert_eq!(report["operations"]["INSERT"]["errors"], 33);
}

#[test]
fn a_run_without_its_records_says_so() {
    let (_, port) = serve(|_| false);
    let (report, stderr, code) = ycsb("run", port, "-P workloads/workloadc");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("load them by `ycsb load`"), "{stderr}");
    assert_eq!(report["operations"]["READ"]["errors"], 1_000);

    succeed("load", port, "-p recordcount=1000 -p fieldcount=2");
    let (_, stderr, code) = ycsb("run", port, "-P workloads/workloadc");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("run with the fieldcount of the load"), "{stderr}");
}

#[test]
fn a_wrong_value_is_found() {
    let (store, port) = serve(|_| false);
    succeed("load", port, "-p recordcount=10 -p dataintegrity=true");
    for hash in store.hashes.lock().unwrap().values_mut() {
        hash[5].1[50] ^= 1;
    }
    let run = "-p recordcount=10 -p dataintegrity=true -p operationcount=10 \
               -p readproportion=1 -p updateproportion=0";
    let (report, stderr, code) = ycsb("run", port, run);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("10 of 10 reads did not verify"), "{stderr}");
    assert_eq!(report["operations"]["VERIFY"]["errors"], 10);
}
