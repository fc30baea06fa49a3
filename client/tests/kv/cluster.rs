//! A playground for a test, and `kv` as a script would run it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

const KV: &str = env!("CARGO_BIN_EXE_kv");

/// What `kv` said, and how it ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    /// What it printed, if all was well and it had nothing to complain about.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        String::from_utf8(self.stdout).unwrap()
    }
}

/// `kv`, unmoved by the environment of whoever runs the tests.
pub(crate) fn start_kv(arguments: &[&str]) -> Command {
    let mut command = Command::new(KV);
    let is_setting = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("WEFT_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

pub(crate) fn kv(arguments: &[&str]) -> Ran {
    finish(start_kv(arguments).stdin(Stdio::null()))
}

pub(crate) fn finish(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().expect("kv ends by itself"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Nodes of a playground in a directory of its own; stopped when the test ends, however it ends.
pub(crate) struct Cluster {
    dir: TempDir,
    up: Value,
}

impl Cluster {
    pub(crate) fn start(nodes: u32) -> Self {
        Self::start_with(nodes, &[])
    }

    /// The same, with more arguments for `kv playground`.
    pub(crate) fn start_with(nodes: u32, more: &[&str]) -> Self {
        Self::start_under(nodes, more, &[])
    }

    /// The same, with variables in the environment of `kv playground`.
    pub(crate) fn start_under(nodes: u32, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().unwrap();
        let server = server();
        let start = [
            "playground",
            "--detach",
            "--json",
            "--nodes",
            &nodes.to_string(),
            "--memory",
            "256MiB",
            "--dir",
            dir.path().to_str().unwrap(),
            "--server-binary",
            server.to_str().unwrap(),
        ];
        let mut start = start_kv(&[&start[..], more].concat());
        let started = finish(start.envs(variables.iter().copied()).stdin(Stdio::null()));
        let up = serde_json::from_str(&started.ok()).unwrap();
        Self { dir, up }
    }

    /// Runs `kv` with this cluster.
    pub(crate) fn kv(&self, arguments: &[&str]) -> Ran {
        kv(&[&["--cluster", self.address()], arguments].concat())
    }

    pub(crate) fn kv_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(stdin).unwrap();
        std::io::Seek::rewind(&mut input).unwrap();
        finish(start_kv(&[&["--cluster", self.address()], arguments].concat()).stdin(input))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn address(&self) -> &str {
        self.up["cluster"].as_str().unwrap()
    }

    pub(crate) fn nodes(&self) -> &[Value] {
        self.up["nodes"].as_array().unwrap()
    }

    pub(crate) fn addresses(&self) -> Vec<&str> {
        self.nodes().iter().map(|node| node["address"].as_str().unwrap()).collect()
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        pids_of(&self.up)
    }

    /// Returns when every node's process has ended.
    pub(crate) fn wait_until_gone(&self) {
        while self.running() > 0 {
            std::thread::yield_now();
        }
    }

    /// Returns when one of the nodes' processes has ended.
    pub(crate) fn wait_until_one_is_gone(&self) {
        while self.running() == self.nodes().len() {
            std::thread::yield_now();
        }
    }

    fn running(&self) -> usize {
        self.pids().into_iter().filter(|pid| is_running(*pid)).count()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let dir = self.dir.path().to_str().unwrap();
        let stopped = kv(&["playground", "stop", "--dir", dir]);
        if !std::thread::panicking() {
            // Some tests stop it themselves, which is told on stderr.
            assert_eq!(stopped.code, 0, "{}", stopped.stderr);
        }
    }
}

/// Whether the process is there and has not ended: one that nobody has reaped yet is still there.
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let is_zombie = |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, s)| s.starts_with('Z'));
    // A process ends with its last thread, not with the one that it goes by.
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let is_alone = threads.map_or(true, |threads| threads.count() <= 1);
    test_kill_process(pid).is_ok() && !(stat.is_ok_and(|stat| is_zombie(&stat)) && is_alone)
}

pub(crate) fn pids_of(up: &Value) -> Vec<Pid> {
    let pid = |node: &Value| Pid::from_raw(node["pid"].as_i64().unwrap() as i32).unwrap();
    up["nodes"].as_array().unwrap().iter().map(pid).collect()
}

/// The server's program, beside `kv`. Cargo builds the programs of the package that it tests, and
/// those of the others only when the whole workspace is built.
pub(crate) fn server() -> PathBuf {
    let profile_dir = Path::new(KV).parent().unwrap();
    let server = profile_dir.join("weft-server");
    if !server.exists() {
        let profile = match profile_dir.file_name().and_then(|name| name.to_str()).unwrap() {
            "debug" => "dev",
            name => name,
        };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--package", "weft-server", "--bin", "weft-server"])
            .args(["--profile", profile, "--target-dir"])
            .arg(profile_dir.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.unwrap().success(), "the server does not build");
    }
    server
}
