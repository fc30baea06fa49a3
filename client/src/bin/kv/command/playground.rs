//! `kv playground`: a cluster of real server processes on this machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use serde_json::json;
use weft_protocol::limits::NODES_MAX;

use crate::complaint::note;
use crate::duration;
use crate::number;
use crate::output::{Format, Output};
use crate::playground::{Ended, Plan, Playground as Running, Stopped, default_dir};

/// Start a cluster of server processes on this machine, to try things with
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Playground {
    #[command(flatten)]
    start: Start,
    #[command(subcommand)]
    command: Option<Subcommand>,
}

#[derive(Debug, clap::Args)]
struct Start {
    /// How many nodes
    #[arg(long, env = "WEFT_PLAYGROUND_NODES", value_name = "N", default_value = "3",
          value_parser = number::within(1..=NODES_MAX as u16))]
    nodes: u16,

    /// Copies of each object, on as many nodes [default: 3, or as many as there are nodes]
    #[arg(long, env = "WEFT_PLAYGROUND_REPLICAS", value_name = "N", value_parser = number::within(1..=3_u16))]
    replicas: Option<u16>,

    /// Return once every node answers and all is served, and leave them running
    #[arg(long, env = "WEFT_PLAYGROUND_DETACH", value_parser = BoolishValueParser::new())]
    detach: bool,

    /// Where logs and the list of processes go [default: in $XDG_RUNTIME_DIR or the directory for
    /// temporary files]
    #[arg(long, env = "WEFT_PLAYGROUND_DIR", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// The server to run [default: weft-server beside kv, or on PATH]
    #[arg(long, env = "WEFT_SERVER_BINARY", value_name = "FILE")]
    server_binary: Option<PathBuf>,

    /// How long the nodes may take to serve, such as 30s
    #[arg(long, env = "WEFT_PLAYGROUND_PATIENCE", value_name = "DURATION", default_value = "30s",
          value_parser = duration::positive)]
    patience: Duration,

    /// Memory limit of each node, such as 1GiB [default: half of the memory, shared evenly]
    #[arg(long, env = "WEFT_PLAYGROUND_MEMORY", value_name = "SIZE")]
    memory: Option<String>,

    /// More arguments for every server, after `--`
    #[arg(last = true, value_name = "SERVER ARGUMENTS")]
    server_arguments: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    Stop(Stop),
}

/// Stop the nodes of a playground; no error if they are gone already
#[derive(Debug, clap::Args)]
struct Stop {
    /// The directory that the playground was started with
    #[arg(long, env = "WEFT_PLAYGROUND_DIR", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How long a node may take to stop by itself before it is killed, such as 10s
    #[arg(long, env = "WEFT_PLAYGROUND_GRACE", value_name = "DURATION", default_value = "10s",
          value_parser = duration::any)]
    grace: Duration,
}

impl Playground {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<()> {
        match self.command {
            None => self.start.run(output),
            Some(Subcommand::Stop(stop)) => stop.run(output),
        }
    }
}

impl Start {
    fn run(self, output: &mut Output) -> anyhow::Result<()> {
        let dir = self.dir.unwrap_or_else(default_dir);
        let mut arguments = self.server_arguments;
        if let Some(memory) = self.memory {
            arguments.extend(["--memory".to_owned(), memory]);
        }
        if let Some(replicas) = self.replicas {
            if replicas > self.nodes {
                note(&format!(
                    "{} copies of each object, and not {replicas}: no two are on one node",
                    self.nodes
                ));
            }
            arguments.extend(["--replicas".to_owned(), replicas.to_string()]);
        }
        let plan = Plan {
            nodes: self.nodes,
            dir,
            server_binary: self.server_binary,
            server_arguments: arguments,
            attached: !self.detach,
            patience: self.patience,
        };
        let running = plan.start()?;
        print(&running, self.detach, output)?;
        output.finish()?;
        if self.detach {
            return Ok(());
        }
        let Ended { stopped } = running.wait()?;
        if output.format == Format::Table {
            output.line(format!("stopped {stopped} of {} nodes", self.nodes))?;
        }
        Ok(())
    }
}

fn print(running: &Running, detached: bool, output: &mut Output) -> anyhow::Result<()> {
    let state = running.state();
    match output.format {
        Format::Raw => output.line(state.cluster())?,
        Format::Json => {
            let nodes = state.nodes.iter().map(|node| {
                json!({
                    "id": node.id,
                    "address": node.address,
                    "http": node.http,
                    "control": node.control,
                    "pid": node.process.pid,
                })
            });
            output.json(&json!({
                "cluster": state.cluster(),
                "nodes": nodes.collect::<Vec<_>>(),
                "dir": running.dir(),
            }))?;
        }
        Format::Table => {
            let rows = state.nodes.iter().map(|node| {
                let pid = node.process.pid.to_string();
                [
                    node.id.to_string(),
                    node.address.to_string(),
                    format!("http://{}", node.http),
                    node.control.to_string(),
                    pid,
                ]
            });
            output.table(&["node", "address", "health, metrics", "control", "pid"], rows, 4)?;
            let (cluster, dir) = (state.cluster(), running.dir().display());
            output.line("")?;
            output.line(format!("use it   export WEFT_CLUSTER={cluster}"))?;
            output.line("         kv put greeting hello && kv get greeting")?;
            output.line(format!("logs     {dir}/node-*.log"))?;
            if !detached {
                output.line("stop it  ctrl-C")?;
            } else if running.dir() == default_dir() {
                output.line("stop it  kv playground stop")?;
            } else {
                output.line(format!("stop it  kv playground stop --dir {dir}"))?;
            }
        }
    }
    Ok(())
}

impl Stop {
    fn run(self, output: &mut Output) -> anyhow::Result<()> {
        let dir = self.dir.unwrap_or_else(default_dir);
        let Stopped { by_itself, killed, gone } = Running::stop(&dir, self.grace)?;
        if by_itself + killed + gone == 0 {
            // Not among the results: a script sees it too, and nothing had to be stopped.
            note(&format!("nothing runs in {}", dir.display()));
        }
        match output.format {
            Format::Json => output.json(&json!({
                "stopped": by_itself,
                "killed": killed,
                "already_gone": gone,
                "dir": dir,
            }))?,
            Format::Raw => {}
            Format::Table if by_itself + killed + gone == 0 => {}
            Format::Table => output.line(format!(
                "stopped {by_itself} nodes, killed {killed}, {gone} were gone already"
            ))?,
        }
        Ok(())
    }
}
