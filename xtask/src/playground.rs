//! A cluster of real server processes on this machine, for as long as the value lives.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command;
use crate::workspace::Workspace;

/// A running playground; dropping it stops its nodes.
pub(crate) struct Playground {
    kv: PathBuf,
    /// `kv playground`, which stays with its nodes: Ctrl-C reaches it as it does this process, and then it stops them.
    running: Child,
    cluster: String,
    nodes: Vec<Node>,
}

/// What a node counts, by the names of docs/operations.md.
pub(crate) struct Counters(Value);

impl Counters {
    pub(crate) fn of(&self, name: &str) -> Result<u64> {
        self.0[name].as_u64().with_context(|| format!("a node counts no {name}"))
    }
}

/// One server process.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) pid: u32,
}

/// How the nodes of a playground are, where that is not left to them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setting<'a> {
    /// The one processor that they run on.
    pub(crate) cpu: Option<u32>,
    /// The limit of each, such as `1GiB`.
    pub(crate) memory: Option<&'a str>,
    /// How they wait for the network, such as `park`.
    pub(crate) poll: Option<&'a str>,
    /// How many of them hold each object.
    pub(crate) replicas: Option<u8>,
}

impl Playground {
    /// Starts `nodes` nodes in `folder`, and returns once they serve. A playground that is left in that folder is stopped first.
    pub(crate) fn start(
        workspace: &Workspace,
        nodes: u32,
        folder: &Path,
        setting: Setting<'_>,
    ) -> Result<Playground> {
        let kv = workspace.release_program("kv");
        stop_remains(&kv, folder);
        let mut start = command::on_cpu(&kv, setting.cpu);
        start
            .envs(setting.poll.map(|poll| ("WEFT_POLL", poll)))
            .args(["playground", "--nodes", &nodes.to_string(), "-o", "json"])
            .arg("--dir")
            .arg(folder)
            .args(setting.memory.iter().flat_map(|memory| ["--memory", memory]))
            .envs(setting.replicas.map(|n| ("WEFT_PLAYGROUND_REPLICAS", n.to_string())))
            // What somebody has set for playgrounds of his own.
            .env_remove("WEFT_PLAYGROUND_DETACH")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let line = command::line(&start);
        let failed = || format!("failed to run `{line}`");
        let running = start.spawn().with_context(failed)?;
        let (cluster, nodes) = (String::new(), Vec::new());
        let mut playground = Playground { kv, running, cluster, nodes };
        let running = &mut playground.running;
        let printed = running.stdout.as_mut().map(first_value).transpose().with_context(failed)?;
        let Some(printed) = printed.flatten() else {
            bail!("`{line}` failed: {}", running.wait().with_context(failed)?);
        };
        (playground.cluster, playground.nodes) =
            parse(&printed).with_context(|| format!("`{line}` printed this: {printed}"))?;
        Ok(playground)
    }

    /// The address by which a client finds the cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Its nodes.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// `kv` with the cluster's address, for the caller to add a verb.
    pub(crate) fn kv(&self) -> Command {
        let mut kv = Command::new(&self.kv);
        kv.args(["--cluster", &self.cluster]);
        kv
    }

    /// What the first node counts, as `kv stat` shows it.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let printed = command::output(self.kv().args(["stat", "-o", "json"]))?;
        let mut stat: Value = serde_json::from_str(&printed)?;
        let counters = stat.pointer_mut("/nodes/0/counters").map(Value::take);
        counters.map(Counters).with_context(|| format!("`kv stat` printed no counters: {printed}"))
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.running.try_wait() {
            return;
        }
        let mut interrupt = Command::new("sh");
        interrupt.args(["-c", "kill -INT \"$0\"", &self.running.id().to_string()]);
        let is_told = command::succeeds(&mut interrupt);
        if !is_told || !self.running.wait().is_ok_and(|status| status.success()) {
            eprintln!("`kv playground` has not ended as it should: nodes may be running");
        }
    }
}

/// Stops nodes that were left in `folder`.
fn stop_remains(kv: &Path, folder: &Path) {
    let mut stop = Command::new(kv);
    stop.args(["playground", "stop", "--dir"]).arg(folder);
    if folder.exists() && !command::succeeds(&mut stop) {
        eprintln!("`{}` failed: nodes may be running", command::line(&stop));
    }
}

/// The first JSON value that comes, without waiting for more.
fn first_value(from: &mut impl Read) -> Result<Option<Value>> {
    Ok(serde_json::Deserializer::from_reader(from).into_iter().next().transpose()?)
}

/// The cluster's address and its nodes, as `kv playground -o json` prints them.
fn parse(value: &Value) -> Result<(String, Vec<Node>)> {
    let cluster = value["cluster"].as_str().context("no `cluster`")?.to_owned();
    let nodes = value["nodes"].as_array().context("no `nodes`")?;
    Ok((cluster, nodes.iter().map(Node::from_json).collect::<Result<_>>()?))
}

impl Node {
    fn from_json(value: &Value) -> Result<Node> {
        Ok(Node {
            id: value["id"].as_u64().context("a node has no `id`")?,
            address: value["address"].as_str().context("a node has no `address`")?.to_owned(),
            pid: value["pid"].as_u64().context("a node has no `pid`")?.try_into()?,
        })
    }

    /// The memory of the process that is in RAM now.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let status =
            std::fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.map(|kib| kib * 1024).with_context(|| format!("no VmRSS in {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playground_is_known_by_its_cluster_and_nodes() {
        let printed = r#"{
            "cluster": "127.0.0.1:7400", "dir": "target/demo/playground",
            "nodes": [{"id": 1, "address": "127.0.0.1:7400", "pid": 4711}]
        }"#;
        let printed = first_value(&mut printed.as_bytes()).unwrap().unwrap();
        let (cluster, nodes) = parse(&printed).unwrap();
        assert_eq!(cluster, "127.0.0.1:7400");
        assert_eq!((nodes[0].id, nodes[0].pid), (1, 4711));
        assert!(parse(&serde_json::json!({"cluster": "127.0.0.1:7400"})).is_err());
        assert!(first_value(&mut &b""[..]).unwrap().is_none());
    }

    #[test]
    fn the_memory_of_a_process_is_what_the_kernel_says() {
        let own = Node { id: 1, address: String::new(), pid: std::process::id() };
        let before = own.resident_bytes().unwrap();
        let held = vec![1_u8; 64 << 20];
        let growth = own.resident_bytes().unwrap() - before;
        assert!(growth > held.len() as u64 / 2, "grew by {growth} bytes");
    }
}
