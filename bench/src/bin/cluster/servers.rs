//! Nodes as processes of this machine: started, killed, stopped and started again from their directories.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use weft_client::Durability;

/// Below those that the system gives to whoever connects: the port of a node that is down stays free.
const FIRST_PORT: u16 = 21_000;
const LAST_PORT: u16 = 31_000;

/// How the nodes of a cluster are.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) nodes: u16,
    pub(crate) durability: Durability,
}

/// The nodes of one cluster, which end when this is dropped, or the thread ends that made it.
pub(crate) struct Servers {
    kv: PathBuf,
    server: PathBuf,
    folder: PathBuf,
    memory: String,
    setting: Setting,
    nodes: Vec<Node>,
}

struct Node {
    id: u64,
    address: String,
    control: String,
    process: Option<Child>,
}

impl Servers {
    /// Starts a new cluster, whose nodes keep what they have in `folder`. What was there is removed.
    pub(crate) fn start(
        programs: &Path,
        folder: &Path,
        memory: &str,
        setting: Setting,
    ) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut ports = (FIRST_PORT..LAST_PORT).filter(|port| is_free(*port));
        let mut address = || {
            let port = ports.next().context("there are no free ports")?;
            anyhow::Ok(format!("{}:{port}", Ipv4Addr::LOCALHOST))
        };
        let mut nodes = Vec::new();
        for id in 1..=u64::from(setting.nodes) {
            nodes.push(Node { id, address: address()?, control: address()?, process: None });
        }
        let mut servers = Self {
            kv: programs.join("kv"),
            server: programs.join("weft-server"),
            folder: folder.to_owned(),
            memory: memory.to_owned(),
            setting,
            nodes,
        };
        servers.start_all()?;
        Ok(servers)
    }

    pub(crate) fn setting(&self) -> Setting {
        self.setting
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    pub(crate) fn controls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.control.clone()).collect()
    }

    /// Starts what does not run.
    pub(crate) fn start_all(&mut self) -> Result<()> {
        let ids: Vec<_> =
            self.nodes.iter().filter(|node| node.process.is_none()).map(|node| node.id).collect();
        ids.into_iter().try_for_each(|id| self.start_node(id))
    }

    /// Starts node `id` with the directory that it has.
    pub(crate) fn start_node(&mut self, id: u64) -> Result<()> {
        let seeds = self.addresses().join(",");
        let path = self.folder.join(format!("node-{id}.log"));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(&self.kv);
        // Becomes the server once it is told to, and ends with this thread.
        command.args(["launch", &std::process::id().to_string()]).arg(&self.server);
        command.arg("--data-dir").arg(self.folder.join(format!("node-{id}")));
        command.args(["--memory", &self.memory, "--http", "off"]);
        command.args(["--durability", self.setting.durability.name()]);
        command.args(["--replicas", &self.setting.nodes.min(3).to_string()]);
        // As `kv playground` has it: the nodes share the processors.
        let cores = available_parallelism()?.get();
        command.args(["--reactors", &(cores / self.nodes.len()).max(1).to_string()]);
        let is_alone = self.nodes.len() == 1;
        let node = self.node(id)?;
        command.args(["--node-id", &id.to_string(), "--listen", &node.address]);
        command.args(["--control", &node.control]);
        if !is_alone {
            command.args(["--join", &seeds]);
        }
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let process = node.process.insert(command.spawn().context("cannot start a node")?);
        let mut word = process.stdin.take().context("it was piped")?;
        word.write_all(b"\n").context("a node has ended before it was told to begin")
    }

    /// As `kill -9` does it. Returns when the process is gone.
    pub(crate) fn kill(&mut self, id: u64) -> Result<()> {
        self.signal(id, Signal::KILL)?;
        self.reap(id).map(drop)
    }

    /// Has all nodes killed before it waits for one.
    pub(crate) fn kill_all(&mut self) -> Result<()> {
        let ids = self.ids();
        ids.iter().try_for_each(|id| self.signal(*id, Signal::KILL))?;
        ids.iter().try_for_each(|id| self.reap(*id).map(drop))
    }

    /// Has all nodes stop in good order, at once.
    pub(crate) fn stop_all(&mut self) -> Result<()> {
        let ids = self.ids();
        ids.iter().try_for_each(|id| self.signal(*id, Signal::TERM))?;
        for id in ids {
            let status = self.reap(id)?;
            ensure!(status == Some(0), "node {id} does not stop in good order: its log says why");
        }
        Ok(())
    }

    pub(crate) fn signal(&mut self, id: u64, signal: Signal) -> Result<()> {
        let process = self.node(id)?.process.as_ref().context("the node does not run")?;
        let pid = Pid::from_raw(i32::try_from(process.id())?).context("a process has no id")?;
        kill_process(pid, signal).with_context(|| format!("cannot send node {id} a signal"))
    }

    /// Processor time of all that run, user's and system's.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let processes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        processes.map(|process| cpu_seconds(process.id())).sum()
    }

    fn node(&mut self, id: u64) -> Result<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id == id).context("there is no such node")
    }

    /// Waits for the end of a node. Returns its exit code, if it was not ended by a signal.
    fn reap(&mut self, id: u64) -> Result<Option<i32>> {
        let mut process = self.node(id)?.process.take().context("the node does not run")?;
        let status = process.wait()?;
        if let (None, None) = (status.code(), status.signal()) {
            bail!("node {id} has ended, nobody knows how");
        }
        Ok(status.code())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            // It may have ended by itself.
            process.kill().and_then(|()| process.wait().map(drop)).ok();
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).context("/proc/PID/stat has another form")?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Fields 14 and 15. The second field is the program's name in parentheses, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "17 (a) S (b) S 1 2 3 4 5 6 7 8 9 10 400 21 22 23\n";
        assert_eq!(cpu_ticks(stat), Some(421));
        assert_eq!(cpu_ticks("17 (kv) S 1"), None);
    }
}
