//! What is typed: flags that every command takes, and the commands.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use weft_client::{
    Address, Client, ClientConfig, ClientError, LinkPolicy, PollPolicy, TableId, VerbsOptions,
};

use crate::command::append::Append;
use crate::command::bench::Bench;
use crate::command::bigkeys::Bigkeys;
use crate::command::cluster::Cluster;
use crate::command::completions::Completions;
use crate::command::count::Count;
use crate::command::del::Del;
use crate::command::exists::Exists;
use crate::command::expire::{Expire, Persist};
use crate::command::explain::Explain;
use crate::command::export::Export;
use crate::command::fields::{Fields, Patch};
use crate::command::get::Get;
use crate::command::getput::{Getdel, Getput};
use crate::command::hotkeys::Hotkeys;
use crate::command::import::Import;
use crate::command::incr::Incr;
use crate::command::mdel::Mdel;
use crate::command::mget::Mget;
use crate::command::mput::Mput;
use crate::command::ping::Ping;
use crate::command::playground::Playground;
use crate::command::put::Put;
use crate::command::range::Range;
use crate::command::scan::Scan;
use crate::command::stat::Stat;
use crate::command::table::Table;
use crate::command::top::Top;
use crate::command::watch::Watch;
use crate::duration;
use crate::environment;
use crate::output::{Format, Output};

/// Read and write a Weft cluster, see how it is, and start one to play with.
#[derive(Debug, Parser)]
#[command(
    name = "kv",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  kv playground --nodes 3 --detach            start a cluster on this machine, and print where it is
  export WEFT_CLUSTER=127.0.0.1:PORT          name it once (any of its nodes will do)
  kv put greeting hello                       store a value
  kv get greeting                             print it, byte for byte when piped
  kv put picture @cat.jpg                     the value from a file; `-` is stdin
  kv stat                                     keys and memory of each node
  kv cluster status                           nodes, partitions and coordinators
  kv explain WEFT-1203                        what an error code means
  kv                                          on a terminal: type commands, with history

Exit codes: 0 done, 1 failed or not found, 2 wrong usage; `kv cluster health` has 3 and 4, too."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    /// None on a terminal: then lines are read that are one each.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Global {
    /// Nodes of the cluster to begin with; one that answers is enough
    #[arg(
        long,
        global = true,
        env = "WEFT_CLUSTER",
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        default_value = "127.0.0.1:7400"
    )]
    pub(crate) cluster: Vec<Address>,

    /// How long an operation may take, such as 5s or 200ms
    #[arg(
        long,
        global = true,
        env = "WEFT_TIMEOUT",
        value_name = "DURATION",
        default_value = "5s",
        value_parser = duration::positive
    )]
    pub(crate) timeout: Duration,

    /// Table that keys are of
    #[arg(
        short,
        long,
        global = true,
        env = "WEFT_TABLE",
        value_name = "NAME",
        default_value = TableId::DEFAULT_NAME
    )]
    table: String,

    /// What connections run over: auto takes shared memory with nodes on this host, and verbs where
    /// both sides have an RDMA device
    #[arg(
        long,
        global = true,
        env = "WEFT_LINK",
        value_name = "auto|tcp|shm|verbs",
        default_value = "auto"
    )]
    pub(crate) link: LinkPolicy,

    /// RDMA device that verbs use [default: the first with an active port]
    #[arg(long, global = true, env = "WEFT_VERBS_DEVICE", value_name = "NAME")]
    verbs_device: Option<String>,

    /// Index of the address (GID) that verbs use [default: the first of RoCE version 2]
    #[arg(long, global = true, env = "WEFT_VERBS_GID_INDEX", value_name = "N")]
    verbs_gid_index: Option<u8>,

    /// How results are printed [default: table on a terminal, raw otherwise]
    #[arg(short, long, global = true, env = "WEFT_OUTPUT", value_name = "FORMAT")]
    output: Option<Format>,

    /// The same as -o json, whatever WEFT_OUTPUT says
    #[arg(long, global = true)]
    json: bool,

    /// The connection to the cluster, once there is one. Clones share it, whoever makes it: each line on a terminal has one.
    #[arg(skip)]
    client: Rc<OnceCell<Client>>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Put(Put),
    Get(Get),
    Del(Del),
    Exists(Exists),
    Incr(Incr),
    Append(Append),
    Getput(Getput),
    Getdel(Getdel),
    Fields(Fields),
    Patch(Patch),
    Expire(Expire),
    Persist(Persist),
    Mput(Mput),
    Mget(Mget),
    Mdel(Mdel),
    Scan(Scan),
    Range(Range),
    Count(Count),
    Bigkeys(Bigkeys),
    Hotkeys(Hotkeys),
    Watch(Watch),
    Export(Export),
    Import(Import),
    Table(Table),
    Stat(Stat),
    Top(Top),
    Ping(Ping),
    Bench(Bench),
    Cluster(Cluster),
    Playground(Playground),
    Explain(Explain),
    Completions(Completions),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, global: &Global, output: &mut Output) -> anyhow::Result<()> {
        match self {
            Self::Put(put) => put.run(global, output),
            Self::Get(get) => get.run(global, output),
            Self::Del(del) => del.run(global, output),
            Self::Exists(exists) => exists.run(global, output),
            Self::Incr(incr) => incr.run(global, output),
            Self::Append(append) => append.run(global, output),
            Self::Getput(getput) => getput.run(global, output),
            Self::Getdel(getdel) => getdel.run(global, output),
            Self::Fields(fields) => fields.run(global, output),
            Self::Patch(patch) => patch.run(global, output),
            Self::Expire(expire) => expire.run(global, output),
            Self::Persist(persist) => persist.run(global, output),
            Self::Mput(mput) => mput.run(global, output),
            Self::Mget(mget) => mget.run(global, output),
            Self::Mdel(mdel) => mdel.run(global, output),
            Self::Scan(scan) => scan.run(global, output),
            Self::Range(range) => range.run(global, output),
            Self::Count(count) => count.run(global, output),
            Self::Bigkeys(bigkeys) => bigkeys.run(global, output),
            Self::Hotkeys(hotkeys) => hotkeys.run(global, output),
            Self::Watch(watch) => watch.run(global, output),
            Self::Export(export) => export.run(global, output),
            Self::Import(import) => import.run(global, output),
            Self::Table(table) => table.run(global, output),
            Self::Stat(stat) => stat.run(global, output),
            Self::Top(top) => top.run(global, output),
            Self::Ping(ping) => ping.run(global, output),
            Self::Bench(bench) => bench.run(global, output),
            Self::Cluster(cluster) => cluster.run(global, output),
            Self::Playground(playground) => playground.run(output),
            Self::Explain(explain) => explain.run(output),
            Self::Completions(completions) => completions.run(),
        }
    }
}

impl Args {
    /// What was typed, and what the variables say beside it; prints help or what is wrong and exits,
    /// as clap does.
    pub(crate) fn from_process() -> Self {
        let mut command = without_empty_variables(Self::command());
        let matches = command.get_matches_mut();
        let args = Self::from_arg_matches(&matches)
            .unwrap_or_else(|error| error.format(&mut command).exit());
        if args.command.is_none() && !environment::stdin_is_terminal() {
            let said = "give a command, or start kv on a terminal to type several";
            command.error(ErrorKind::MissingSubcommand, said).exit();
        }
        args
    }
}

/// A variable that is set to nothing counts as unset: it is how a script or a container takes one
/// back.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |argument: &Arg| argument.get_env().is_some_and(environment::is_empty);
    let heed = |argument| if is_empty(&argument) { argument.env(None::<&str>) } else { argument };
    command.mut_args(heed).mut_subcommands(without_empty_variables)
}

impl Global {
    pub(crate) fn format(&self) -> Format {
        match self.output {
            _ if self.json => Format::Json,
            Some(format) => format,
            None => Format::for_stdout(),
        }
    }

    /// The name of the table.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// The same, but for another table if one is given.
    pub(crate) fn with_table(&self, table: Option<String>) -> Self {
        let table = table.unwrap_or_else(|| self.table.clone());
        Self { table, ..self.clone() }
    }

    /// A client of the table for one or a few operations: threads sleep while they wait. By the same connection every time.
    pub(crate) fn connect(&self) -> Result<Client, ClientError> {
        self.of_table(self.connect_cluster()?)
    }

    /// The same for commands that are about no table, or about all of them.
    pub(crate) fn connect_cluster(&self) -> Result<Client, ClientError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = self.connect_cluster_with(PollPolicy::Park)?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// A client of the table on a connection of its own.
    pub(crate) fn connect_with(&self, poll: PollPolicy) -> Result<Client, ClientError> {
        self.of_table(self.connect_cluster_with(poll)?)
    }

    fn of_table(&self, client: Client) -> Result<Client, ClientError> {
        if self.table == TableId::DEFAULT_NAME {
            return Ok(client);
        }
        client.block_on(client.table(&self.table))
    }

    fn connect_cluster_with(&self, poll: PollPolicy) -> Result<Client, ClientError> {
        let mut config = ClientConfig::new(self.cluster.iter().map(Address::to_string));
        config.timeout = self.timeout;
        config.poll = poll;
        config.link = self.link;
        config.verbs =
            VerbsOptions { device: self.verbs_device.clone(), gid_index: self.verbs_gid_index };
        Client::connect_blocking(config)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_contradict_each_other_nowhere() {
        Args::command().debug_assert();
    }

    /// What can be set by a flag can be set by a variable, so that a container needs no wrapper.
    #[test]
    fn every_flag_has_a_variable() {
        fn check(command: &clap::Command) {
            for flag in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
                let long = flag.get_long().expect("it was filtered for one");
                // --json is WEFT_OUTPUT=json.
                if ["help", "version", "json"].contains(&long) {
                    continue;
                }
                let variable = flag.get_env().and_then(|name| name.to_str());
                assert!(
                    variable.is_some_and(|name| name.starts_with("WEFT_")),
                    "kv {} --{long} has {variable:?}",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
