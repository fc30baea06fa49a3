//! `kv watch`: what happens, as it happens.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use weft_client::{BlockingClient, ClientConfig};

use crate::cluster::{Cluster, start_kv};
use crate::spread::wait_until_spread;

/// A `kv watch` that goes on.
struct Watching {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
    /// What it said when it had begun.
    began: String,
}

impl Watching {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        Self::begin(&mut start_kv(&[&["--cluster", cluster.address()], arguments].concat()))
    }

    fn begin(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut began = String::new();
        stderr.read_line(&mut began).unwrap();
        assert!(began.starts_with("kv: watching "), "{began}");
        Self { child, stdout, stderr, began }
    }

    fn line(&mut self) -> String {
        self.stdout.next().unwrap().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit code, the lines that were left, and what else it said.
    fn end(mut self) -> (Option<i32>, Vec<String>, String) {
        let left = self.stdout.map(Result::unwrap).collect();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), left, said)
    }
}

/// A cluster whose partitions stay where they are: a watch is lost with the primary that it is at.
fn at_rest(nodes: u32) -> Cluster {
    let cluster = Cluster::start(nodes);
    let connect = || BlockingClient::connect(ClientConfig::new(cluster.addresses())).unwrap();
    wait_until_spread(connect, nodes as usize);
    cluster
}

#[test]
fn what_happens_to_a_key_is_printed_at_once_until_ctrl_c() {
    let cluster = at_rest(2);
    let put = |value: &str| cluster.kv(&["put", "loom", value]).ok().trim().to_owned();
    let first = put("oak");
    let mut watching = Watching::start(&cluster, &["watch", "loom"]);
    assert_eq!(watching.began, format!("kv: watching \"loom\", which is at {first}\n"));
    let second = put("elm");
    assert_eq!(watching.line(), format!("written\t{second}\tloom"));
    cluster.kv(&["put", "looms", "two"]).ok();
    cluster.kv(&["del", "loom"]).ok();
    assert!(watching.line().starts_with("deleted\t1."));
    put("ash");
    assert!(watching.line().ends_with("\tloom"));
    watching.signal(Signal::INT);
    assert_eq!(watching.end(), (Some(0), vec![], String::new()));
}

#[test]
fn what_happens_to_keys_with_a_prefix_is_printed_with_values() {
    let cluster = at_rest(3);
    cluster.kv(&["table", "create", "yarns"]).ok();
    let arguments =
        ["--json", "-t", "yarns", "watch", "--prefix", "wool:", "--values", "--count", "4"];
    let mut watching = Watching::start(&cluster, &arguments);
    assert_eq!(watching.began, "kv: watching the keys that begin with \"wool:\"\n");
    let mut next = || serde_json::from_str::<Value>(&watching.line()).unwrap();
    cluster.kv(&["put", "wool:1", "of another table"]).ok();
    for (key, value) in [("wool:1", "red"), ("wool:2", "blue")] {
        let version = cluster.kv(&["-t", "yarns", "put", key, value]).ok().trim().to_owned();
        let told = next();
        assert_eq!((&told["change"], &told["key"]), (&"written".into(), &key.into()));
        assert_eq!((&told["value"], &told["version"]), (&value.into(), &version.into()));
        assert_eq!(told["value_version"], told["version"]);
    }
    cluster.kv(&["-t", "yarns", "del", "wool:2"]).ok();
    let told = next();
    assert_eq!((&told["change"], told.get("value")), (&"deleted".into(), None));
    cluster.kv(&["table", "drop", "yarns"]).ok();
    let told = next();
    assert_eq!(told["change"], "dropped");
    assert!(told["first_slot"].as_u64().unwrap() <= told["last_slot"].as_u64().unwrap());
    assert_eq!(watching.end(), (Some(0), vec![], String::new()), "it ends after four");
}

#[test]
fn who_falls_behind_is_told_what_to_do() {
    let cluster = Cluster::start(1);
    let arguments = ["watch", "--prefix", "", "--queue", "4KiB"];
    let watching = Watching::start(&cluster, &arguments);
    // It sees nothing of what happens, as one that hangs.
    watching.signal(Signal::STOP);
    let pairs: Vec<_> = (0..500).flat_map(|number| [format!("key-{number}"), "v".into()]).collect();
    let put: Vec<_> = ["mput"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
    cluster.kv(&put).ok();
    watching.signal(Signal::CONT);
    let (code, told, said) = watching.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(told.len() < 500, "some of them were told");
    for part in ["node 1", "dropped it", "watch again, then read anew", "WEFT-1111"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_node_that_was_killed_is_named() {
    let cluster = Cluster::start(1);
    let watching = Watching::start(&cluster, &["--timeout", "500ms", "watch", "loom"]);
    kill_process(cluster.pids()[0], Signal::KILL).unwrap();
    let (code, told, said) = watching.end();
    assert_eq!((code, told), (Some(1), vec![]));
    assert!(said.contains("node 1 at ") && said.contains("WEFT-12"), "{said}");
}

#[test]
fn variables_stand_in_for_the_flags_of_a_watch() {
    let cluster = Cluster::start(1);
    let mut by_variables = start_kv(&["watch", "-o", "table"]);
    by_variables.env("WEFT_CLUSTER", cluster.address()).env("WEFT_WATCH_PREFIX", "lo");
    by_variables.env("WEFT_WATCH_COUNT", "1").env("WEFT_WATCH_VALUES", "true");
    let mut watching = Watching::begin(by_variables.env("WEFT_WATCH_QUEUE", "8KiB"));
    cluster.kv(&["put", "loom", "oak\u{7}"]).ok();
    let line = watching.line();
    assert!(line.starts_with("written\t1.") && line.ends_with("\tloom\toak\\x07"), "{line}");
    assert_eq!(watching.end(), (Some(0), vec![], String::new()));
    for wrong in [
        &["watch"][..],
        &["watch", "key", "--prefix", "k"],
        &["watch", "key", "--count", "0"],
        &["watch", "key", "--queue", "1KiB"],
    ] {
        assert_eq!(cluster.kv(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(cluster.kv(&["-t", "none", "watch", "key"]).code, 1);
}

/// By `script`, which gives a program a terminal.
#[test]
fn ctrl_c_on_a_terminal_ends_the_watch_and_not_what_comes_after_it() {
    let cluster = Cluster::start(1);
    let home = TempDir::new().unwrap();
    let kv = format!("{} --cluster {}", env!("CARGO_BIN_EXE_kv"), cluster.address());
    let mut script = Command::new("script");
    script.args(["-qec", &kv, "/dev/null"]).env("XDG_STATE_HOME", home.path());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut terminal = Terminal {
        input: script.stdin.take().unwrap(),
        output: script.stdout.take().unwrap(),
        shown: String::new(),
    };
    for _ in 0..2 {
        terminal.types("watch loom\n");
        terminal.shows("kv: watching \"loom\"");
        terminal.types("\u{3}");
    }
    // The line after it is read.
    terminal.types("put greeting hello\nget greeting\n");
    terminal.shows("\nhello");
    // One that knows nothing of Ctrl-C ends with it, and the program too, as before.
    terminal.types("top --interval 1ms\n");
    terminal.shows("requests/s");
    terminal.types("\u{3}");
    let mut rest = String::new();
    terminal.output.read_to_string(&mut rest).unwrap();
    let ended = script.wait().unwrap();
    assert!(!ended.success(), "{}{rest}", terminal.shown);
}

/// A program on a terminal.
struct Terminal {
    input: ChildStdin,
    output: ChildStdout,
    shown: String,
}

impl Terminal {
    fn types(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
    }

    /// Returns when it has shown `text`, behind what was waited for before.
    fn shows(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut bytes = [0; 1024];
            let len = self.output.read(&mut bytes).unwrap();
            assert!(len > 0, "{text:?} is not in {}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
        let (_, behind) = self.shown.split_once(text).unwrap();
        self.shown = behind.to_owned();
    }
}
