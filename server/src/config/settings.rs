//! The settings as they are written down: flags, variables and keys of the file, by the same names.

use std::fmt;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use serde::{Deserialize, Deserializer};
use weft_transport::{LinkPolicy, PollPolicy};

use weft_protocol::{Durability, TableOptions};

use super::{HostPort, HttpAddress, LogFilter, LogFormat, MemoryLimit, Roles, Seeds};

/// Weft's storage node: keeps objects in registered memory and serves them.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "weft-server", version, about, max_term_width = 100)]
pub struct Args {
    /// TOML file with settings in its table `server`; flags and variables go before them
    #[arg(long, env = "WEFT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What can also be set in the file.
    #[command(flatten)]
    pub settings: Settings,
}

impl Args {
    /// What this process was told on its command line and by variables; prints help or what is wrong
    /// and exits, as clap does.
    pub fn from_process() -> Args {
        let mut command = without_empty_variables(Args::command());
        let matches = command.get_matches_mut();
        Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// A variable that is set to nothing counts as unset: it is how a script or a container takes one
/// back.
#[expect(clippy::disallowed_methods, reason = "settings are read once, before the node starts")]
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |argument: &Arg| {
        argument.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    command.mut_args(
        |argument| {
            if is_empty(&argument) { argument.env(None::<&str>) } else { argument }
        },
    )
}

/// Every setting, as far as one source has it.
#[derive(Debug, Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// Which node of the cluster this is [default: what --data-dir says, or 1 without --join]
    #[arg(long, env = "WEFT_NODE_ID", value_name = "N", value_parser = node_id)]
    pub node_id: Option<u64>,

    /// Where nodes of the cluster may be found; with all that are to found it, the same on each [default: this node founds a cluster of its own]
    #[arg(long, env = "WEFT_JOIN", value_name = "HOST:PORT,…")]
    #[serde(deserialize_with = "from_list")]
    pub join: Option<Seeds>,

    /// Address for data connections [default: 127.0.0.1:7400]
    #[arg(long, env = "WEFT_LISTEN", value_name = "HOST:PORT")]
    #[serde(deserialize_with = "from_text")]
    pub listen: Option<HostPort>,

    /// Address that nodes and clients reach this node at [default: that of --listen]
    #[arg(long, env = "WEFT_ADVERTISE", value_name = "HOST:PORT")]
    #[serde(deserialize_with = "from_text")]
    pub advertise: Option<HostPort>,

    /// Where the node keeps what is to outlive it; a coordinator among others needs one [default: nowhere]
    #[arg(long, env = "WEFT_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// What the node is there for [default: storage,coordinator]
    #[arg(long, env = "WEFT_ROLES", value_name = "storage,coordinator")]
    #[serde(deserialize_with = "from_list")]
    pub roles: Option<Roles>,

    /// What fails together with this node, such as a rack: copies are kept in different zones [default: none]
    #[arg(long, env = "WEFT_ZONE", value_name = "NAME")]
    pub zone: Option<String>,

    /// Address of the control API, or `off` [default: 127.0.0.1:7401]
    #[arg(long, env = "WEFT_CONTROL", value_name = "HOST:PORT|off")]
    #[serde(deserialize_with = "from_text")]
    pub control: Option<HttpAddress>,

    /// Copies of each object of the table that is always there; for the node that founds the cluster [default: 3, or as many as there are nodes]
    #[arg(long, env = "WEFT_REPLICAS", value_name = "N", value_parser = replicas)]
    pub replicas: Option<u8>,

    /// What a loss of power leaves of that table; for the node that founds the cluster [default: memory]
    #[arg(long, env = "WEFT_DURABILITY", value_name = "memory|disk|fsync")]
    #[serde(deserialize_with = "from_text")]
    pub durability: Option<Durability>,

    /// How often nodes say that they are there; for the node that founds the cluster [default: 50ms]
    #[arg(long, env = "WEFT_HEARTBEAT", value_name = "DURATION")]
    #[serde(deserialize_with = "from_text")]
    pub heartbeat: Option<humantime::Duration>,

    /// After how long a node that is not heard is down, and what it led goes to others; for the node that founds the cluster [default: 10 heartbeats]
    #[arg(long, env = "WEFT_LEASE", value_name = "DURATION")]
    #[serde(deserialize_with = "from_text")]
    pub lease: Option<humantime::Duration>,

    /// Address of /health, /ready and /metrics, or `off` [default: 127.0.0.1:7402]
    #[arg(long, env = "WEFT_HTTP", value_name = "HOST:PORT|off")]
    #[serde(deserialize_with = "from_text")]
    pub http: Option<HttpAddress>,

    /// Hard limit on all that is stored and buffered, such as 1GiB, or 25% of the memory of host or
    /// cgroup [default: 50%]
    #[arg(long, env = "WEFT_MEMORY", value_name = "SIZE|PERCENT%")]
    #[serde(deserialize_with = "from_text")]
    pub memory: Option<MemoryLimit>,

    /// Partitions of each class of tables; for the node that founds the cluster [default: 64; fewer if it is alone and has less than 1GiB]
    #[arg(long, env = "WEFT_PARTITIONS", value_name = "N", value_parser = partitions)]
    pub partitions: Option<NonZeroU16>,

    /// Threads that serve [default: the cores this process may use]
    #[arg(long, env = "WEFT_REACTORS", value_name = "N", value_parser = reactors)]
    pub reactors: Option<NonZeroUsize>,

    /// How an idle thread waits: `busy` spins, `park` sleeps, `adaptive` spins for a while first
    /// [default: adaptive]
    #[arg(long, env = "WEFT_POLL", value_name = "busy|adaptive|park")]
    #[serde(deserialize_with = "from_text")]
    pub poll: Option<PollPolicy>,

    /// What connections run over: `auto` takes shared memory with processes on the same host and
    /// verbs where there are RDMA devices, `tcp` neither [default: auto]
    #[arg(long, env = "WEFT_LINK", value_name = "auto|tcp|shm|verbs")]
    #[serde(deserialize_with = "from_text")]
    pub link: Option<LinkPolicy>,

    /// RDMA device that verbs use [default: the first with an active port]
    #[arg(long, env = "WEFT_VERBS_DEVICE", value_name = "NAME")]
    pub verbs_device: Option<String>,

    /// Index of the address (GID) that verbs use [default: the first of RoCE version 2 or
    /// InfiniBand]
    #[arg(long, env = "WEFT_VERBS_GID_INDEX", value_name = "N")]
    pub verbs_gid_index: Option<u8>,

    /// Format of the logs on stderr [default: text]
    #[arg(long, env = "WEFT_LOG_FORMAT", value_name = "text|json")]
    #[serde(deserialize_with = "from_text")]
    pub log_format: Option<LogFormat>,

    /// What is logged: a level, or target=level,… [default: info]
    #[arg(long, env = "WEFT_LOG", value_name = "FILTER")]
    #[serde(deserialize_with = "from_text")]
    pub log: Option<LogFilter>,

    /// Listen on other than loopback addresses, though nothing is encrypted and nobody is asked who
    /// they are
    #[arg(long, env = "WEFT_INSECURE", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = boolean)]
    pub insecure: Option<bool>,
}

impl Settings {
    /// These settings, and those of `fallback` where these have none.
    #[must_use]
    pub fn or(self, fallback: Settings) -> Settings {
        Settings {
            node_id: self.node_id.or(fallback.node_id),
            join: self.join.or(fallback.join),
            listen: self.listen.or(fallback.listen),
            advertise: self.advertise.or(fallback.advertise),
            data_dir: self.data_dir.or(fallback.data_dir),
            roles: self.roles.or(fallback.roles),
            zone: self.zone.or(fallback.zone),
            control: self.control.or(fallback.control),
            replicas: self.replicas.or(fallback.replicas),
            durability: self.durability.or(fallback.durability),
            heartbeat: self.heartbeat.or(fallback.heartbeat),
            lease: self.lease.or(fallback.lease),
            http: self.http.or(fallback.http),
            memory: self.memory.or(fallback.memory),
            partitions: self.partitions.or(fallback.partitions),
            reactors: self.reactors.or(fallback.reactors),
            poll: self.poll.or(fallback.poll),
            link: self.link.or(fallback.link),
            verbs_device: self.verbs_device.or(fallback.verbs_device),
            verbs_gid_index: self.verbs_gid_index.or(fallback.verbs_gid_index),
            log_format: self.log_format.or(fallback.log_format),
            log: self.log.or(fallback.log),
            insecure: self.insecure.or(fallback.insecure),
        }
    }
}

/// The file, of which this program reads one table. Other programs have theirs beside it.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    server: Settings,
}

pub(super) fn parse_file(text: &str) -> Result<Settings, toml::de::Error> {
    Ok(toml::from_str::<File>(text)?.server)
}

fn node_id(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "give a whole number below 65536, such as 1")
}

fn replicas(text: &str) -> Result<u8, &'static str> {
    let replicas = text.parse().ok().filter(|n| (1..=TableOptions::REPLICAS_MAX).contains(n));
    replicas.ok_or("give a number from 1 to 3")
}

fn partitions(text: &str) -> Result<NonZeroU16, &'static str> {
    text.parse().map_err(|_| "give a whole number from 1 to 4096")
}

fn reactors(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "give a whole number from 1 to 1024")
}

fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "t" | "y" => Ok(true),
        "false" | "no" | "off" | "0" | "f" | "n" => Ok(false),
        _ => Err("give true or false"),
    }
}

/// In the file, several of something are a list.
fn from_list<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: fmt::Display,
{
    let items = Vec::<String>::deserialize(deserializer)?;
    items.join(",").parse().map(Some).map_err(serde::de::Error::custom)
}

/// The file says the same as the command line, so the same parsers read it.
fn from_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: fmt::Display,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
