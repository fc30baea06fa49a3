//! Nodes that are started as what they are not: each is told so, and nothing is changed.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::slice;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::{TempDir, tempdir};
use weft_protocol::AskReply;
use weft_protocol::control::v1;
use weft_server::coordinator::codec::{decode_answer, encode_ask};
use weft_server::coordinator::{Answer, Ask};

use crate::files::{changed, check_unchanged, files};
use crate::ports::Port;
use crate::support::{Client, PATIENCE, Process, ask, run};

const SMALL: [&str; 6] = ["--memory", "64MiB", "--poll", "park", "--reactors", "1"];

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// A node that founds a cluster of its own, with a directory.
fn founder(id: &str, directory: &str) -> Process {
    let own = ["--http", "127.0.0.1:0", "--node-id", id, "--data-dir", directory];
    Process::start(&[&SMALL[..], &own].concat(), &[])
}

/// Exit code 1, and a message with each of `says`.
fn check_refused(arguments: &[&str], says: &[&str]) {
    let ports = ["--listen", "127.0.0.1:0", "--http", "off", "--control", "off"];
    let (code, message) = run(&[&SMALL[..], &ports, arguments].concat(), &[]);
    assert_eq!(code, Some(1), "{arguments:?}: {message}");
    for part in says {
        assert!(message.contains(part), "{arguments:?} does not say {part:?}: {message}");
    }
}

/// The same of a node that has a directory, in which each file is afterwards what it was, byte for byte.
fn check_refused_unchanged(directory: &str, arguments: &[&str], says: &[&str]) {
    let before = files(Path::new(directory));
    check_refused(&[&["--data-dir", directory], arguments].concat(), says);
    check_unchanged(&before, Path::new(directory));
}

/// It goes on as if nobody had come.
fn check_serves(node: &Process) {
    let ready = ask(node.http.unwrap(), "/ready");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
}

#[test]
fn a_second_node_of_one_id_is_told_so() {
    let folder = tempdir().unwrap();
    let node = founder("1", &path(&folder, "one"));
    let join = node.address.to_string();
    let other = path(&folder, "other");
    check_refused(
        &["--node-id", "1", "--data-dir", &other, "--join", &join],
        &["has the id 1 too", "--node-id"],
    );
    check_serves(&node);
    node.end();
}

/// However often it is started: what it wrote down when it began in vain makes it no node of the cluster.
#[test]
fn a_node_of_the_id_of_another_that_lives_does_not_take_its_place() {
    let folder = tempdir().unwrap();
    let first = founder("1", &path(&folder, "one"));
    let join = first.address.to_string();
    let two = path(&folder, "two");
    let own = ["--http", "127.0.0.1:0", "--node-id", "2", "--data-dir", &two, "--join", &join];
    let second = Process::start(&[&SMALL[..], &own].concat(), &[]);
    let other = path(&folder, "other");
    for _ in 0..2 {
        assert_eq!(told_of_two(&["--node-id", "2", "--data-dir", &other, "--join", &join], 1), 1);
        check_serves(&second);
    }
    second.end();
    first.end();
}

/// Of the log of a coordinator, too, whatever life of the node the copy was made in, and if it is told only of others.
#[test]
fn a_copy_of_the_disk_of_a_node_that_lives_does_not_take_its_place() {
    let folder = tempdir().unwrap();
    let first = founder("1", &path(&folder, "one"));
    let join = first.address.to_string();
    let two = path(&folder, "two");
    let own = ["--http", "127.0.0.1:0", "--node-id", "2", "--data-dir", &two, "--join", &join];
    let begin = || Process::start(&[&SMALL[..], &own].concat(), &[]);
    let copy = |name: &str| {
        let copied = Command::new("cp").args(["-r", &two]).arg(folder.path().join(name)).status();
        assert!(copied.unwrap().success());
        path(&folder, name)
    };
    begin().end();
    let of_earlier_life = copy("earlier");
    let second = begin();
    until_heard(&first, second.log_field("incarnation").parse().unwrap());
    for copy in [of_earlier_life, copy("current")] {
        // There is time to be found down, if anything had it be found so.
        assert_eq!(told_of_two(&["--data-dir", &copy, "--node-id", "2", "--join", &join], 2), 2);
        check_serves(&second);
    }
    second.end();
    first.end();
}

/// The leader knows of another address, and only one that does not lead is told to the node.
#[test]
fn a_node_comes_back_elsewhere_by_whomever_it_is_told_of() {
    let folder = tempdir().unwrap();
    let first = founder("1", &path(&folder, "one"));
    let begin = |id: &str, name: &str, join: &str| {
        let directory = path(&folder, name);
        let own = ["--http", "127.0.0.1:0", "--node-id", id, "--data-dir", &directory];
        Process::start(&[&SMALL[..], &own, &["--join", join]].concat(), &[])
    };
    let leader = first.address.to_string();
    let second = begin("2", "two", &leader);
    let third = begin("3", "three", &leader);
    let before = second.address;
    second.signal(Signal::KILL);
    // Nobody else gets its port meanwhile.
    let _taken = std::net::TcpListener::bind(before).unwrap();
    let second = begin("2", "two", &third.address.to_string());
    check_serves(&second);
    for node in [second, third, first] {
        node.end();
    }
}

/// A copy of its disk was taken for it while it stood still. It is of no use to anybody, and says so.
#[test]
fn a_node_whose_place_was_taken_tells_that_it_has_to_be_restarted() {
    let folder = tempdir().unwrap();
    let first = founder("1", &path(&folder, "one"));
    let join = first.address.to_string();
    let (two, copy) = (path(&folder, "two"), path(&folder, "copy"));
    let begin = |directory: &str| {
        let own = ["--http", "127.0.0.1:0", "--node-id", "2", "--data-dir", directory];
        Process::start(&[&SMALL[..], &own, &["--join", &join]].concat(), &[])
    };
    let second = begin(&two);
    assert!(Command::new("cp").args(["-r", &two, &copy]).status().unwrap().success());
    second.send(Signal::STOP);
    let third = begin(&copy);
    second.send(Signal::CONT);
    let http = second.http.unwrap();
    until(|| ask(http, "/health").starts_with("HTTP/1.1 503"));
    let health = ask(http, "/health");
    assert!(health.contains("another process is this node"), "{health}");
    check_serves(&third);
    third.end();
    second.signal(Signal::KILL);
    first.end();
}

fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it takes too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until the leader has heard of node 2 in this life.
fn until_heard(leader: &Process, incarnation: u64) {
    let client = Client::at(leader.address);
    let is_heard = |node: &v1::Node| {
        let is_it = |member: &v1::Member| member.node == 2 && member.incarnation == incarnation;
        node.member.as_ref().is_some_and(is_it) && node.heard_ms_ago.is_some()
    };
    loop {
        let reply = client.call(weft_protocol::Ask { body: &encode_ask(&Ask::Status) });
        if let Answer::Status(status) =
            decode_answer(AskReply::decode(&reply).unwrap().body).unwrap()
            && status.nodes.iter().any(is_heard)
        {
            return;
        }
    }
}

/// How often a node that is started with these arguments says that there are two of its id, of so many times that it is waited for. It never serves.
fn told_of_two(arguments: &[&str], times: usize) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-server"));
    command.args(SMALL).args(["--listen", "127.0.0.1:0", "--http", "off", "--control", "off"]);
    let mut child = command.args(arguments).env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.filter(|line| {
        assert!(!line.contains(" serving "), "{arguments:?}: {line}");
        line.contains("two nodes have one id")
    });
    let count = told.take(times).count();
    child.kill().unwrap();
    child.wait().unwrap();
    count
}

#[test]
fn a_directory_is_for_one_node_and_one_process() {
    let folder = tempdir().unwrap();
    let one = path(&folder, "one");
    let node = founder("1", &one);
    check_refused(&["--data-dir", &one], &["in use by another process"]);
    check_serves(&node);
    node.end();
    let says = ["is of node 1, and this is node 2", "nothing was changed"];
    check_refused_unchanged(&one, &["--node-id", "2"], &says);
    let node = founder("1", &one);
    check_serves(&node);
    node.end();
}

#[test]
fn a_node_of_another_cluster_is_told_so_whether_it_is_a_coordinator_or_not() {
    let folder = tempdir().unwrap();
    let (one, other) = (path(&folder, "one"), path(&folder, "other"));
    founder("2", &other).end();
    let node = founder("1", &one);
    let join = ["--join", &node.address.to_string()];
    let says = ["is of cluster", "nothing was changed: give --join addresses of its own cluster"];
    check_refused_unchanged(&other, &join, &says);
    // Who does not coordinate has to join, and may not; so has who lost its log of the coordinator's.
    check_refused_unchanged(&other, &[&join[..], &["--roles", "storage"]].concat(), &says);
    let coordinator = folder.path().join("other/coordinator");
    fs::rename(&coordinator, folder.path().join("aside")).unwrap();
    check_refused_unchanged(&other, &join, &says);
    check_refused_unchanged(&other, &[], &["has no log of a coordinator's; give --join"]);
    fs::rename(folder.path().join("aside"), coordinator).unwrap();
    check_serves(&node);
    node.end();
    // It is what it was.
    let node = founder("2", &other);
    check_serves(&node);
    node.end();
}

/// It has begun a life by then, with which it listens to those who look for it.
#[test]
fn a_node_that_meets_another_cluster_later_is_told_that_its_life_was_counted() {
    let folder = tempdir().unwrap();
    let (one, other) = (path(&folder, "one"), path(&folder, "other"));
    founder("2", &other).end();
    let before = files(Path::new(&other));
    let port = Port::new();
    let address = port.address.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-server"));
    command.args(SMALL).args(["--listen", "127.0.0.1:0", "--http", "off", "--control", "off"]);
    command.args(["--data-dir", &other, "--join", &address, "--roles", "storage"]);
    let mut child = command.env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let waits = lines.find(|line| line.contains("waiting for a cluster"));
    assert!(waits.is_some());
    let own = ["--http", "127.0.0.1:0", "--listen", &address, "--data-dir", &one];
    let node = Process::start(&[&SMALL[..], &own].concat(), &[]);
    let told: String = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.contains("nothing was changed but the number of its last life:"), "{told}");
    check_serves(&node);
    node.end();
    let identity = folder.path().join("other/node.toml");
    assert_eq!(changed(&before, Path::new(&other)), slice::from_ref(&identity));
    let without_life = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.lines().filter(|line| !line.starts_with("incarnation")).collect::<String>()
    };
    assert_eq!(without_life(&fs::read(&identity).unwrap()), without_life(&before[&identity]));
}

#[test]
fn a_coordinators_log_of_another_node_or_cluster_is_left_alone() {
    let folder = tempdir().unwrap();
    let own = path(&folder, "own");
    founder("3", &own).end();
    let coordinator = folder.path().join("own/coordinator");
    fs::rename(&coordinator, folder.path().join("aside")).unwrap();
    for (id, says) in [("2", "belongs to node 2, and this is node 3"), ("3", "belongs to cluster")]
    {
        let other = path(&folder, &format!("other-{id}"));
        founder(id, &other).end();
        fs::rename(Path::new(&other).join("coordinator"), &coordinator).unwrap();
        check_refused_unchanged(&own, &[], &[says, "nothing was changed"]);
        fs::remove_dir_all(&coordinator).unwrap();
    }
    // With its own it goes on.
    fs::rename(folder.path().join("aside"), coordinator).unwrap();
    let node = founder("3", &own);
    check_serves(&node);
    node.end();
}

#[test]
fn nobody_joins_a_node_that_keeps_nothing() {
    let folder = tempdir().unwrap();
    let node = Process::small();
    let join = node.address.to_string();
    check_refused(
        &["--node-id", "2", "--data-dir", &path(&folder, "two"), "--join", &join],
        &["keeps nothing that would outlive its process", "--data-dir"],
    );
    check_serves(&node);
    node.end();
}
