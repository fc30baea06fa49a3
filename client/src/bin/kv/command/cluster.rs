//! `kv cluster`: how a cluster is, and what operators do to it, by the control port.

mod accept_loss;
mod departure;
mod health;
mod nodes;
mod partitions;
mod status;
mod watch;
mod workers;

use anyhow::Context;
use clap::Subcommand;
use weft_client::{Address, ErrorCode};
use weft_protocol::control::v1::Member;

use self::accept_loss::AcceptLoss;
use self::departure::{Leave, Stay};
use self::partitions::Partitions;
use self::watch::Watch;
use crate::args::Global;
use crate::complaint::WrongUsage;
use crate::control::{Control, ControlError};
use crate::output::Output;

/// See how a cluster is, and change which nodes it has
#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// Control ports of nodes; one that answers is enough [default: of the nodes of --cluster, each at the port after its own]
    #[arg(
        long,
        global = true,
        env = "WEFT_CONTROL",
        value_name = "HOST:PORT,…",
        value_delimiter = ','
    )]
    control: Vec<Address>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print how the cluster is as a whole
    Status,
    /// List the nodes
    Nodes,
    Partitions(Partitions),
    /// List the workers: processes that are registered as those that work for the cluster, such as agents of shuffle
    Workers,
    /// Say whether all is well; exit code 0 if so, 1 if something is missing and everything served, 3 if something is not served, 4 if
    /// nobody answers
    Health,
    AcceptLoss(AcceptLoss),
    Leave(Leave),
    Stay(Stay),
    Watch(Watch),
}

impl Cluster {
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        let addresses: Vec<Address> = match self.control.is_empty() {
            true => global.cluster.iter().filter_map(control_of).collect(),
            false => self.control,
        };
        if addresses.is_empty() {
            let text = "no port comes after 65535, where the control port of a node that takes data there would be: \
                        say where it is by --control HOST:PORT";
            return Err(WrongUsage(text.to_owned()).into());
        }
        let control = Control::new(addresses, global.timeout);
        let control = control.context("cannot start the runtime of calls")?;
        match self.command {
            Command::Status => status::run(&control, output),
            Command::Nodes => nodes::run(&control, output),
            Command::Partitions(partitions) => partitions.run(&control, output),
            Command::Workers => workers::run(&control, output),
            Command::Health => health::run(&control, output),
            Command::AcceptLoss(accept) => accept.run(&control, output),
            Command::Leave(leave) => leave.run(&control, output),
            Command::Stay(stay) => stay.run(&control, output),
            Command::Watch(watch) => watch.run(&control, output),
        }
    }
}

/// Where the node that takes data connections there has its control port, unless it was told another one.
fn control_of(data: &Address) -> Option<Address> {
    let text = data.to_string();
    let (host, port) = text.rsplit_once(':').expect("an address has a port");
    let port = port.parse::<u16>().expect("it was parsed before").checked_add(1)?;
    Some(format!("{host}:{port}").parse().expect("it has a host and a port"))
}

/// What is told of a request to do `what` that came to nothing, as far as is known; `kv cluster LOOK` shows whether it was carried out.
fn failed(error: ControlError, what: &str, look: &str) -> anyhow::Error {
    let is_in_doubt = error.code().is_some_and(ErrorCode::may_have_been_applied);
    anyhow::Error::new(error).context(match is_in_doubt {
        true => format!(
            "no answer to the request to {what}, which may be carried out still; look at `kv cluster \
             {look}`, or ask again"
        ),
        false => format!("cannot {what}"),
    })
}

/// Nodes, as a cell of a table has them.
fn listed(nodes: impl IntoIterator<Item = u64>) -> String {
    let nodes: Vec<String> = nodes.into_iter().map(|node| node.to_string()).collect();
    if nodes.is_empty() { "-".to_owned() } else { nodes.join(" ") }
}

/// The same of members, whose lives the map tells.
fn listed_members(members: &[Member]) -> String {
    listed(members.iter().map(|member| member.node))
}
