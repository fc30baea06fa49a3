//! The promises that scripts rely on: the members of the object, and the exit codes.

#![expect(clippy::disallowed_methods, reason = "the test runs the program")]

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn netbench(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netbench"))
        .args(line.split_whitespace())
        .output()
        .expect("the binary was built with this test")
}

/// The object that a line prints.
fn printed(line: &str) -> Value {
    let output = netbench(&format!("{line} --json"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("stdout is one JSON object")
}

/// Measures for a moment: enough for every member to be there, too little for its value to mean
/// anything.
fn object(line: &str) -> Value {
    printed(&format!("{line} --seconds 0.2 --warm-up 0 --runs 1"))
}

fn list<'a>(object: &'a Value, member: &str) -> &'a [Value] {
    object[member].as_array().unwrap_or_else(|| panic!("{member} is no list: {object}"))
}

/// Every one of `members` is a number above zero.
fn positive(object: &Value, members: &[&str]) {
    for member in members {
        assert!(object[*member].as_f64().is_some_and(|value| value > 0.0), "{member}: {object}");
    }
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
    check("rate --link shm", "messages_per_second", &[]);
    check("bandwidth --body 5000000", "bytes_per_second", &[]);
    check("bandwidth --body 1000000 --link shm --connections 2", "bytes_per_second", &[]);
    check("bandwidth --link shm --size 1048576", "bytes_per_second", &[]);
    check("latency --link shm --poll busy", "p50_us", &quantiles);
}

#[test]
fn messages_have_any_size_and_any_number_of_senders_and_handlers() {
    check("rate --size 1", "messages_per_second", &[]);
    check("rate --size 1 --senders 16 --handlers 2", "messages_per_second", &[]);
    check("rate --size 3 --senders 5 --connections 2", "messages_per_second", &[]);
    check("rate --size 11 --senders 3 --handlers 3 --link shm", "messages_per_second", &[]);
    check("rate --senders 16 --handlers 4", "messages_per_second", &[]);
    check("rate --size 1048576 --senders 2 --handlers 4", "messages_per_second", &[]);
    let object = object("rate --senders 2 --handlers 4");
    assert_eq!((object["senders"].as_u64(), object["handlers"].as_u64()), (Some(2), Some(4)));
}

#[test]
fn both_ways_are_measured_beside_one() {
    for link in ["tcp", "shm"] {
        let object = object(&format!("bidirectional --link {link} --senders 2"));
        let cases = list(&object, "cases");
        assert_eq!(cases.len(), 2, "{object}");
        assert_eq!(cases[0]["name"], "one-way");
        assert_eq!(cases[1]["name"], "both ways");
        for (case, receivers) in cases.iter().zip([1, 2]) {
            for side in [case, &case["raw"]] {
                positive(
                    side,
                    &["messages_per_second", "bytes_per_second", "processors", "to_first"],
                );
                assert_eq!(list(side, "each_node").len(), receivers, "{case}");
                assert_eq!(list(side, "each_run").len(), 1, "{case}");
            }
            assert!(case["processors_bind"].is_boolean(), "{case}");
        }
    }
}

#[test]
fn every_node_of_all_hears_the_others() {
    for link in ["tcp", "shm"] {
        let object =
            object(&format!("all-to-all --nodes 2,3 --link {link} --handlers 2 --size 100"));
        for (case, nodes) in list(&object, "cases").iter().zip([2, 3]) {
            assert_eq!(case["nodes"], nodes);
            for side in [case, &case["raw"]] {
                let each_node = list(side, "each_node");
                assert_eq!(each_node.len(), nodes, "{case}");
                assert!(each_node.iter().all(|rate| rate.as_f64() > Some(0.0)), "{case}");
            }
        }
    }
}

#[test]
fn small_calls_are_measured_beside_large_replies_and_a_body() {
    for link in ["tcp", "shm"] {
        let object = object(&format!("beside --link {link} --large-size 2000000 --large-rate 100"));
        let cases = list(&object, "cases");
        let names: Vec<_> = cases.iter().map(|case| case["beside"].as_str().unwrap()).collect();
        assert_eq!(names, ["nothing", "large replies", "a streamed body"], "{object}");
        assert_eq!(
            (&cases[0]["large_per_second"], &cases[0]["p999_to_alone"]),
            (&0.0.into(), &1.0.into())
        );
        for case in cases {
            positive(case, &["p50_us", "p99_us", "p999_us", "p999_to_alone"]);
        }
        for case in &cases[1..] {
            positive(case, &["large_per_second"]);
        }
    }
}

#[test]
fn sizes_are_printed_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    for (pattern, link) in
        [("one-way", "tcp"), ("bidirectional", "shm"), ("all-to-all --nodes 3", "tcp")]
    {
        let file = folder.path().join("figure.svg");
        let sizes = "--sizes 1,7,64,70000,1048576 --senders 2";
        let svg = file.display();
        let object =
            object(&format!("sizes --pattern {pattern} --link {link} {sizes} --svg {svg}"));
        let cases = list(&object, "cases");
        assert_eq!(cases.len(), 5, "{object}");
        for (case, size) in cases.iter().zip([1, 7, 64, 70000, 1048576]) {
            assert_eq!(case["size"], size);
            for side in [case, &case["raw"]] {
                positive(side, &["messages_per_second", "bytes_per_second"]);
            }
        }
        assert!(object["dips"].is_array() && object["raw_dips"].is_array(), "{object}");
        // Of many nodes none is the server.
        let of_two = object["pinned"] == true && !pattern.starts_with("all-to-all");
        assert_eq!(object["server_cpu"].is_u64(), of_two, "{object}");
        let text = std::fs::read_to_string(&file).expect("the figure was written");
        let figure = roxmltree::Document::parse(&text).expect("it is well-formed");
        let texts: Vec<&str> = figure.descendants().filter_map(|node| node.text()).collect();
        for expected in ["Weft, M messages/s", "Weft, GB/s", "bytes of a message", "64", "1M"] {
            let found = texts.iter().any(|text| text.trim() == expected);
            assert!(found, "{expected} is not in the figure");
        }
    }
}

#[test]
fn a_figure_that_cannot_be_written_is_an_error_that_names_it() {
    let line = "sizes --sizes 64 --runs 1 --seconds 0.01 --warm-up 0 --svg /nowhere/at/all.svg";
    let output = netbench(line);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("failed to write /nowhere/at/all.svg"), "{stderr}");
}

/// Whoever measures sees a reset connection, or that nothing comes any more.
#[test]
fn a_server_process_that_was_killed_is_named_with_its_signal() {
    let mut measuring = Command::new(env!("CARGO_BIN_EXE_netbench"))
        .args("rate --unpinned --seconds 60 --runs 1".split(' '))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    let of_it = format!("/proc/{0}/task/{0}/children", measuring.id());
    let server = loop {
        assert!(measuring.try_wait().expect("it is a child").is_none(), "it measured nothing");
        let children = std::fs::read_to_string(&of_it).unwrap_or_default();
        if let Some(server) = children.split_whitespace().next() {
            break server.parse().expect("a process id");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    // Most likely it measures then; what is said is the same while it starts.
    std::thread::sleep(Duration::from_millis(500));
    let server = Pid::from_raw(server).expect("not zero");
    kill_process(server, Signal::KILL).expect("it has not been waited for");
    let output = measuring.wait_with_output().expect("its stderr can be read");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("netbench: the server process: signal: 9 (SIGKILL)"), "{stderr}");
}

#[cfg(not(feature = "verbs"))]
#[test]
fn verbs_are_refused_once_where_they_were_not_built() {
    for line in ["latency --link verbs", "streams --link tcp,verbs", "all-to-all --link verbs"] {
        let output = netbench(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert_eq!(stderr.matches("was built without verbs").count(), 1, "{line}: {stderr}");
    }
}

#[test]
fn a_quiet_node_is_measured_under_every_policy() {
    for link in ["tcp", "shm"] {
        let object = object(&format!("idle --link {link} --connections 3"));
        let policies: Vec<&Value> =
            list(&object, "cases").iter().map(|case| &case["poll"]).collect();
        assert_eq!(policies, ["busy", "adaptive", "park"]);
        for case in list(&object, "cases").iter().chain([&object["raw"]]) {
            for side in ["node_percent", "client_percent"] {
                assert!(case[side].as_f64() >= Some(0.0), "{case}");
            }
        }
    }
}

/// Which of the peers are installed is the machine's affair; each is in one of the lists.
#[test]
fn peers_are_measured_or_said_to_be_missing() {
    for link in ["tcp", "shm"] {
        let line = format!("peers --link {link} --large-size 65536 --seconds 0.25 --runs 1");
        let object = printed(&line);
        let methods = list(&object, "methods");
        for method in &methods[..2] {
            positive(method, &["round_trip_us", "messages_per_second", "bytes_per_second"]);
        }
        for method in methods {
            let measured = method["round_trip_us"].as_f64() > Some(0.0);
            assert!(measured || method["failure"].is_string(), "{method}");
        }
        assert_eq!(methods.len() - 2 + list(&object, "missing").len(), 3, "{object}");
    }
}

#[test]
fn what_is_not_installed_is_named_with_the_command_that_installs_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_netbench"))
        .args(["peers", "--seconds", "0.25", "--runs", "1", "--json"])
        .env("PATH", "/nowhere")
        .output()
        .expect("the binary was built with this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).expect("stdout is one JSON object");
    let commands = list(&object, "missing").iter().map(|missing| missing["install"].as_str());
    let expected = ["ucx-utils", "libfabric-bin", "openmpi-bin libopenmpi-dev"];
    assert!(
        commands.eq(expected
            .map(|packages| format!("apt-get install {packages}"))
            .iter()
            .map(|c| Some(&**c))),
        "{object}"
    );
}

#[test]
fn streams_are_measured_beside_sockets_that_block_and_that_do_not() {
    let object =
        printed("streams --sizes 70000 --connections 3 --flush 0,4 --seconds 0.4 --runs 2");
    let cases = list(&object, "cases");
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
fn streams_are_measured_over_the_links_that_are_asked_for() {
    let line = "streams --link shm --sizes 100 --connections 1 --flush 0 --seconds 0.4 --runs 1";
    let object = printed(line);
    let methods = list(&object, "cases")[0]["methods"].as_object().expect("methods have names");
    let names: Vec<&str> = methods.keys().map(String::as_str).collect();
    assert_eq!(names, ["streams shm", "tcp blocking", "tcp busy"]);
}

#[test]
fn both_levels_of_buffers_are_measured_beside_the_raw_link() {
    for link in ["tcp", "shm"] {
        let line = format!("buffers --link {link} --sizes 70000,64 --poll park");
        let object = object(&line);
        let sizes = object["sizes"].as_array().expect("sizes are a list");
        let cases: Vec<_> = sizes.iter().map(|size| (&size["figure"], &size["size"])).collect();
        let (trips, bytes) = (Value::from("round_trip_us"), Value::from("bytes_per_second"));
        let (small, large) = (Value::from(64), Value::from(70000));
        assert_eq!(cases, [(&trips, &small), (&trips, &large), (&bytes, &small), (&bytes, &large)]);
        for size in sizes {
            for method in ["raw", "copying", "posted", "registered anew"] {
                let figures = &size["methods"][method];
                assert!(figures["median"].as_f64().is_some_and(|median| median > 0.0), "{size}");
            }
        }
        for level in ["posted_beats_copying_from", "registered_anew_beats_copying_from"] {
            let beats = &object[level]["bytes_per_second"];
            assert!(beats.is_null() || [&small, &large].contains(&beats), "{object}");
        }
    }
}

#[test]
fn threads_and_connections_need_not_be_as_many() {
    check("latency --connections 3 --senders 2", "p50_us", &[]);
    check("rate --connections 2 --senders 5", "messages_per_second", &[]);
    check("rate --connections 5 --senders 2 --size 100000", "messages_per_second", &[]);
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
    assert_eq!(raw_methods("latency --senders 64 --connections 2"), ["blocking"]);
}

#[test]
fn wrong_usage_says_what_is_wrong_and_exits_with_2() {
    for (line, expected) in [
        ("rate --size 0", "--size is 0"),
        ("rate --size 1 --senders 17", "1 bytes can tell 16 senders apart, but there are 17"),
        ("rate --handlers 17", "--handlers is 17, but must be from 1 to 16"),
        ("latency --handlers 2", "calls are answered by the thread that receives them"),
        ("sizes --nodes 3", "--nodes is of --pattern all-to-all"),
        ("all-to-all --nodes 1", "--nodes is 1, but must be from 2 to 64"),
        ("all-to-all --nodes 64 --poll busy", "need a processor each"),
        ("all-to-all --size 2 --senders 64 --nodes 5", "256 senders apart, but there are 320"),
        ("sizes --sizes 64,8", "each has to be larger than the last"),
        ("sizes --sizes 2097152", "--sizes is 2097152, but must be from 1 to 1048576"),
        ("idle --poll sometimes", "choose busy, adaptive or park"),
        ("peers --link verbs", "cargo xtask softroce"),
        ("latency --poll never", "choose busy, adaptive or park"),
        ("latency --poll busy --senders 256", "with --poll busy must be at most"),
        ("latency --server-cpu 99999", "--server-cpu is 99999"),
        ("swiftness", "unrecognized subcommand"),
    ] {
        let output = netbench(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(expected), "{line}: {stderr}");
    }
}
