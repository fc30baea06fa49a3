//! A cluster with agents, for jobs that are submitted.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use weft_client::{BlockingClient, ClientConfig};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

use crate::death::{Process, workers_with};
use crate::job::{Ended, Job, WIKI_VOTE, run, wait_for};
use crate::ranks::{assert_equal, parse_line};

/// A cluster of one node, with agents, and a folder that only its processes have on their command lines.
pub(crate) struct Cluster {
    pub(crate) node: Node,
    pub(crate) agents: Vec<Agent>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) struct Agent {
    pub(crate) child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have been stopped, or have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// With an agent for each of these numbers of slots.
    pub(crate) fn start(slots: &[usize]) -> Cluster {
        let settings = Settings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            memory: Some("256MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        let (node, folder) = (Node::start(&config).unwrap(), tempfile::tempdir().unwrap());
        let mut cluster = Cluster { node, agents: Vec::new(), folder };
        // One after the other, so that the first is the eldest.
        slots.iter().for_each(|slots| cluster.add_agent(*slots));
        cluster
    }

    pub(crate) fn add_agent(&mut self, slots: usize) {
        self.add_agent_of(Path::new(env!("CARGO_BIN_EXE_shuffle")), slots);
    }

    pub(crate) fn add_agent_of(&mut self, program: &Path, slots: usize) {
        let child = Command::new(program)
            .args(["agent", "--slots", &slots.to_string(), "--cluster", &self.address()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let process = child.id();
        self.agents.push(Agent { child });
        wait_for("an agent", || {
            let agents = self.json(&["agents"]);
            let of_process = |agent: &Value| agent["process"] == process;
            agents.as_array().unwrap().iter().any(of_process).then_some(())
        });
    }

    pub(crate) fn address(&self) -> String {
        self.node.address().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a command about the cluster prints.
    pub(crate) fn json(&self, command: &[&str]) -> Value {
        let address = self.address();
        let Ended { code, stdout, stderr } =
            run(command.iter().copied().chain(["--json", "--cluster", &address]));
        assert_eq!(code, Some(0), "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// Submits a job, in this cluster's folder. Returns its number.
    pub(crate) fn submit(&self, of: &[&str], job: &[&str]) -> u64 {
        let address = self.address();
        let words = ["submit", "--cluster", &address];
        let words = words.iter().chain(of).chain(job);
        let Ended { code, stdout, stderr } = Job::start_in(self.folder.path(), words).end();
        assert_eq!(code, Some(0), "{stderr}");
        stdout.trim().parse().unwrap()
    }

    pub(crate) fn show(&self, id: u64) -> Value {
        self.json(&["job", "show", &id.to_string()])
    }

    pub(crate) fn state(&self, id: u64) -> String {
        self.show(id)["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn wait_for_state(&self, id: u64, state: &str) -> Value {
        wait_for(state, || {
            let job = self.show(id);
            let is_over = !job["ended_ms"].is_null();
            assert!(job["state"] == state || !is_over, "{state}: {job}");
            (job["state"] == state).then_some(job)
        })
    }

    /// The workers of jobs, once there are so many.
    pub(crate) fn workers(&self, count: usize) -> Vec<Process> {
        wait_for("the workers", || {
            let found = workers_with(self.folder.path());
            (found.len() == count).then_some(found)
        })
    }

    /// Nothing of a job is left but what it came to: no process, no state in the store, and these files.
    pub(crate) fn assert_left(&self, files: &[&str]) {
        wait_for("the end of all workers", || {
            workers_with(self.folder.path()).is_empty().then_some(())
        });
        let client = BlockingClient::connect(ClientConfig::new([self.address()])).unwrap();
        wait_for("the end of all states", || {
            (client.table("shuffle-checkpoints").unwrap().count().unwrap() == 0).then_some(())
        });
        let mut left: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, files);
    }

    /// Rounds that take a few seconds, of three workers, and what they come to.
    pub(crate) fn long_ranks(&self, output: &str) -> Vec<String> {
        let output = self.path(output).into_os_string().into_string().unwrap();
        let words = ["pagerank", "--input", WIKI_VOTE, "--iterations", "4000"];
        let more = ["--checkpoint-every", "100", "--workers", "3", "--top", "0", "--output"];
        words.iter().chain(&more).map(|word| (*word).to_owned()).chain([output]).collect()
    }

    pub(crate) fn assert_ranks(&self, output: &str) {
        let words = ["pagerank", "--input", WIKI_VOTE, "--iterations", "4000", "--workers", "3"];
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("ranks");
        let ended = run(words.into_iter().chain(["--output", here.to_str().unwrap()]));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let [expected, found] = [here, self.path(output)]
            .map(|path| std::fs::read_to_string(path).unwrap().lines().map(parse_line).collect());
        assert_equal(&found, &expected, 1e-12, "on a cluster and here");
    }

    /// Waits until a job has kept something.
    pub(crate) fn wait_for_rounds(&self, id: u64) {
        wait_for("some rounds", || {
            let job = self.show(id);
            assert!(job["ended_ms"].is_null(), "{job}");
            let progress = &job["progress"];
            (progress["phase"] == "round" && progress["done"].as_u64() > Some(300)).then_some(())
        });
    }
}

pub(crate) fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
