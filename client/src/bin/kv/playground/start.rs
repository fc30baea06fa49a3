//! Starting the nodes of a playground, and staying with them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weft_client::{Address, Client, ClientConfig, NodeId};
use weft_protocol::control::health::{Health, Verdict};
use weft_transport::Clock;

use super::mark::{self, KEPT, log_name};
use super::ports::{NodePorts, free_ports};
use super::process::{Identity, Process, any_ends_within};
use super::program::find_server;
use super::stop::end_all;
use super::{Locked, Playground, State, state};
use crate::command::launch::Launch;
use crate::complaint::{WrongUsage, note};
use crate::control::Control;
use crate::environment;

/// What to start, and where.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: u16,
    pub(crate) dir: PathBuf,
    pub(crate) server_binary: Option<PathBuf>,
    pub(crate) server_arguments: Vec<String>,
    /// The nodes end when this process does.
    pub(crate) attached: bool,
    /// How long the nodes may take until they serve.
    pub(crate) patience: Duration,
}

/// The variables that nodes go by: how much of the machine they take. What others say, such as where data is kept, is meant for other
/// nodes or for `kv`.
const COUNTING: [&str; 3] = ["WEFT_MEMORY", "WEFT_REACTORS", "WEFT_POLL"];

/// How a playground that somebody stayed with came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How many nodes had to be stopped.
    pub(crate) stopped: usize,
}

/// How often other ports are tried, because one was taken between finding it free and using it.
const PORT_ATTEMPTS: usize = 5;

/// How long a node may take to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is looked whether a node answers that did not before.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The exit code of a server whose settings cannot be used.
const SERVER_USAGE: i32 = 2;

/// Why nodes that were started do not answer.
enum Unready {
    /// One could not have its port; others may do.
    PortTaken,
    Failed(anyhow::Error),
}

impl Plan {
    /// Starts the nodes and waits until every one of them answers; if that cannot be, none is left. Then it waits, as long as its patience lasts, until
    /// all that they are to hold is served.
    pub(crate) fn start(self) -> anyhow::Result<Playground> {
        let server = find_server(self.server_binary.as_deref())?;
        let locked = Locked::create(&self.dir)?;
        refuse_if_running(&locked)?;
        mark::begin_to_log(locked.dir(), self.nodes > 1)?;
        // From here on ctrl-C is an event like others, and nothing is left behind.
        let mut interrupts =
            Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]).context("cannot watch for signals")?;
        for _ in 0..PORT_ATTEMPTS {
            let (state, mut children) = self.spawn(&server, &locked)?;
            let ready = self.wait_until_ready(&state, &mut children, &mut interrupts, locked.dir());
            let error = match ready {
                Ok(()) => {
                    let dir = locked.dir().to_owned();
                    return Ok(Playground { dir, state, children, interrupts });
                }
                Err(Unready::PortTaken) => None,
                Err(Unready::Failed(error)) => Some(error),
            };
            end(&state, children)?;
            locked.clear()?;
            if let Some(error) = error {
                return Err(error);
            }
        }
        bail!("somebody else took every port that was found free, {PORT_ATTEMPTS} times over")
    }

    /// Starts every node's process, and lets them become nodes once it is written down which they are.
    fn spawn(&self, server: &Path, locked: &Locked) -> anyhow::Result<(State, Vec<Child>)> {
        let count = usize::from(self.nodes);
        let ports = free_ports(count).context("cannot find free ports")?;
        let seeds: Vec<String> = ports.iter().map(|node| node.data.to_string()).collect();
        let seeds = seeds.join(",");
        let kept = locked.dir().join(KEPT);
        if count > 1 {
            mark::begin_to_keep(&kept)?;
        }
        let mut state = State { nodes: Vec::new() };
        let mut children = Vec::new();
        for (id, NodePorts { data: address, http, control }) in (1..).zip(ports) {
            let mut arguments = node_arguments(id, address, http, control);
            if count > 1 {
                let data_dir = kept.join(format!("node-{id}")).display().to_string();
                arguments.extend(["--join".to_owned(), seeds.clone()]);
                arguments.extend(["--data-dir".to_owned(), data_dir]);
            }
            let log = locked.dir().join(log_name(id));
            let spawned = self.spawn_node(server, &arguments, &log).and_then(|child| {
                let process = Identity::of(child.id());
                children.push(child);
                Ok(process?)
            });
            match spawned {
                Ok(process) => {
                    state.nodes.push(state::Node { id, address, http, control, process })
                }
                Err(error) => {
                    end(&state, children)?;
                    return Err(error.context(format!("cannot start {}", server.display())));
                }
            }
        }
        if let Err(error) = locked.write(&state) {
            end(&state, children)?;
            return Err(error);
        }
        children.iter_mut().for_each(Launch::let_go);
        Ok((state, children))
    }

    fn spawn_node(&self, server: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Child> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Launch::command(server, self.attached)?;
        command.args(arguments).args(&self.server_arguments);
        // Whoever reads kv's output to its end must not have to wait for the nodes' end.
        command.stdout(log.try_clone()?).stderr(log);
        command.envs(self.shares());
        let is_for_others = |name: &OsString| COUNTING.iter().all(|counting| name != counting);
        for variable in environment::settings().filter(is_for_others) {
            command.env_remove(variable);
        }
        Ok(command.spawn()?)
    }

    /// An even share of what a node alone would take, which is half of the memory and a reactor for each core: the nodes are on
    /// one machine. By variables, so that whoever gives a flag gets what it says; nothing, if somebody
    /// has said something where a variable would hide it.
    fn shares(&self) -> Vec<(&'static str, String)> {
        let nodes = usize::from(self.nodes);
        let memory = f64::from(500_000 / u32::from(self.nodes)) / 10_000.0;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut shares = vec![("WEFT_MEMORY", format!("{memory}%"))];
        if nodes > 1 {
            shares.push(("WEFT_REACTORS", (cores / nodes).max(1).to_string()));
        }
        let is_config = |argument: &String| argument.starts_with("--config");
        let has_config = self.server_arguments.iter().any(is_config);
        shares.retain(|(variable, _)| !has_config && !environment::says_to_servers(variable));
        shares
    }

    fn wait_until_ready(
        &self,
        state: &State,
        children: &mut [Child],
        interrupts: &mut Signals,
        dir: &Path,
    ) -> Result<(), Unready> {
        let clock = Clock::system();
        let deadline = clock.now() + self.patience;
        let mut client = None;
        let mut waiting = state.nodes.iter().peekable();
        while let Some(node) = waiting.peek() {
            if answers(&mut client, state, node.id) {
                waiting.next();
            } else {
                self.look_around(state, children, interrupts, dir)?;
            }
            if let Some(node) = waiting.peek()
                && clock.now() > deadline
            {
                return Err(Unready::Failed(anyhow!(
                    "node {} does not answer at {} after {:?}; give it more time by --patience, or \
                     look why in its log, which ends:\n{}",
                    node.id,
                    node.address,
                    self.patience,
                    log_end(dir, node.id).unwrap_or_else(|| "  (nothing)".to_owned())
                )));
            }
        }
        let ports = state.nodes.iter().map(|node| node.control.to_string().parse());
        let ports: Vec<Address> = ports.collect::<Result<_, _>>().expect("it is an address");
        let control = Control::new(ports, LOOK_TIMEOUT);
        let control = control.map_err(|error| Unready::Failed(error.into()))?;
        while !serves(&control) {
            self.look_around(state, children, interrupts, dir)?;
            if clock.now() > deadline {
                // With long leases that takes as long as one.
                note(&format!(
                    "every node answers, but not all is served after {:?}; `kv cluster health` says \
                     when it is",
                    self.patience
                ));
                break;
            }
        }
        Ok(())
    }

    /// Waits a little, and fails if a node has ended or somebody wants to be rid of all this.
    fn look_around(
        &self,
        state: &State,
        children: &mut [Child],
        interrupts: &mut Signals,
        dir: &Path,
    ) -> Result<(), Unready> {
        let processes = processes(state).map_err(Unready::Failed)?;
        let alive = processes.iter().flatten();
        any_ends_within(alive, LOOK_EVERY).map_err(|error| Unready::Failed(error.into()))?;
        if interrupts.pending().any(|signal| signal != SIGCHLD) {
            return Err(Unready::Failed(anyhow!("interrupted while the nodes were starting")));
        }
        for ((node, process), child) in state.nodes.iter().zip(&processes).zip(children) {
            let has_ended = match process {
                Some(process) => process.ends_within(Duration::ZERO),
                None => Ok(true),
            };
            if !has_ended.map_err(|error| Unready::Failed(error.into()))? {
                continue;
            }
            let log = log_end(dir, node.id);
            let status = child.try_wait().map_err(|error| Unready::Failed(error.into()))?;
            if let (Some(log), Some(SERVER_USAGE)) = (&log, status.and_then(|status| status.code()))
            {
                // What is wrong was typed here, or set in the environment that this command has too.
                return Err(Unready::Failed(WrongUsage(refused_settings(node.id, log)).into()));
            }
            if log.as_ref().is_some_and(|log| log.contains("in use")) {
                return Err(Unready::PortTaken);
            }
            return Err(Unready::Failed(self.ended_early(node.id, log.as_deref())));
        }
        Ok(())
    }

    fn ended_early(&self, node: u64, log: Option<&str>) -> anyhow::Error {
        match (log, &self.server_binary) {
            (Some(log), _) => anyhow!("node {node} ended before it answered; it says:\n{log}"),
            (None, Some(server)) => anyhow!(
                "node {node} ended before it answered, without a word; check that {}, given by \
                 --server-binary, is a weft-server",
                server.display()
            ),
            (None, None) => anyhow!(
                "node {node} ended before it answered, without a word; try another weft-server by \
                 --server-binary"
            ),
        }
    }
}

impl Playground {
    /// Stays with the nodes until somebody asks for an end, by signal or by `kv playground stop`,
    /// and sees to it that none is left.
    pub(crate) fn wait(mut self) -> anyhow::Result<Ended> {
        let mut reported = vec![false; self.children.len()];
        while !self.report_ended(&mut reported)? {
            // Whatever has come before is still pending: no end of a child is missed.
            let asked_to_end = self.interrupts.wait().any(|signal| signal != SIGCHLD);
            if asked_to_end {
                break;
            }
        }
        let stopped = reported.iter().filter(|&&reported| !reported).count();
        end(&self.state, self.children)?;
        // If somebody has stopped this one, there may be another by now.
        if let Some(locked) = Locked::open(&self.dir)?
            && locked.read()?.as_ref() == Some(&self.state)
        {
            locked.clear()?;
        }
        Ok(Ended { stopped })
    }

    /// Says which nodes have ended since the last time, and returns whether all have.
    fn report_ended(&mut self, reported: &mut [bool]) -> anyhow::Result<bool> {
        let nodes = self.children.iter_mut().zip(&self.state.nodes);
        for ((child, node), reported) in nodes.zip(reported.iter_mut()) {
            if *reported {
                continue;
            }
            if let Some(status) = child.try_wait()? {
                *reported = true;
                let log = self.dir.join(log_name(node.id));
                note(&format!("node {} has ended ({status}); see {}", node.id, log.display()));
            }
        }
        Ok(reported.iter().all(|&reported| reported))
    }
}

fn refused_settings(node: u64, log: &str) -> String {
    format!(
        "node {node} refuses its settings; change what it names by --memory, after `--`, or in the \
         environment:\n{log}"
    )
}

/// Ends what was started, and reaps it.
fn end(state: &State, children: Vec<Child>) -> anyhow::Result<()> {
    end_all(&state.nodes, GRACE)?;
    for mut child in children {
        // One that has not been written down is ended by the hand that holds it.
        if state.nodes.iter().all(|node| node.process.pid != child.id()) {
            child.kill()?;
        }
        child.wait()?;
    }
    Ok(())
}

fn refuse_if_running(locked: &Locked) -> anyhow::Result<()> {
    let Some(state) = locked.read()? else { return Ok(()) };
    if processes(&state)?.iter().any(Option::is_some) {
        let dir = locked.dir().display();
        bail!(
            "a playground runs in {dir} already: use it (export WEFT_CLUSTER={}), stop it \
             (`kv playground stop --dir {dir}`), or start another one elsewhere by --dir",
            state.cluster()
        );
    }
    Ok(())
}

fn processes(state: &State) -> anyhow::Result<Vec<Option<Process>>> {
    Ok(state.nodes.iter().map(|node| node.process.find()).collect::<Result<_, _>>()?)
}

/// Whether the node answers, and is of the cluster. The client is made with the first that does.
fn answers(client: &mut Option<Client>, state: &State, id: u64) -> bool {
    if client.is_none() {
        let addresses = state.nodes.iter().map(|node| node.address.to_string());
        let config = ClientConfig { timeout: LOOK_TIMEOUT, ..ClientConfig::new(addresses) };
        *client = Client::connect_blocking(config).ok();
    }
    let is_there =
        client.as_ref().is_some_and(|client| client.block_on(client.ping(NodeId(id))).is_ok());
    if !is_there {
        // Its map may be of before the node had joined.
        *client = None;
    }
    is_there
}

/// Whether every object that there could be is served by some node.
fn serves(control: &Control) -> bool {
    let status = control.status();
    status.is_ok_and(|status| Health::of(&status).verdict() != Verdict::NotServing)
}

fn node_arguments(
    id: u64,
    address: SocketAddr,
    http: SocketAddr,
    control: SocketAddr,
) -> Vec<String> {
    let flags = [
        ("--node-id", id.to_string()),
        ("--listen", address.to_string()),
        ("--http", http.to_string()),
        ("--control", control.to_string()),
    ];
    flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}

/// The last lines of what a node has said, if it has said anything.
fn log_end(dir: &Path, id: u64) -> Option<String> {
    const LINES: usize = 8;
    let log = fs::read(dir.join(log_name(id))).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().collect();
    let end = &lines[lines.len().saturating_sub(LINES)..];
    (!end.is_empty()).then(|| format!("  {}", end.join("\n  ")))
}
