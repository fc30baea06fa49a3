//! What a node is told, as a [`Config`] that holds only values that work together.
//!
//! Text becomes [`Settings`] (each value typed, every one optional) from the command line and the
//! environment, and once more from the file; the first source that has a value gives it, and
//! [`Config::resolve`] adds what nobody set and checks what no single value can show. Nothing below
//! `main` reads the environment. `docs/configuration.md` lists every setting.

mod address;
mod cluster;
mod distinct;
mod error;
mod host;
mod log;
mod settings;
mod size;

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::{Path, PathBuf};

use weft_protocol::{Durability, TableOptions};
use weft_transport::{LinkPolicy, NodeId, PollPolicy, VerbsOptions};

use crate::coordinator::Timing;
use crate::limits::{PARTITIONS_PER_CLASS_MAX, REACTORS_MAX, ZONE_MAX};

pub use self::address::{AddressError, HostPort, HttpAddress};
pub use self::cluster::{Roles, RolesError, Seeds, SeedsError};
pub use self::error::ConfigError;
pub use self::host::Host;
pub use self::log::{LogFilter, LogFilterError, LogFormat, LogFormatError};
pub use self::settings::{Args, Settings};
pub use self::size::{MemoryLimit, MemorySize, SizeError};

/// Where a node listens that was told nothing.
const LISTEN_DEFAULT: &str = "127.0.0.1:7400";
/// Where `/health`, `/ready` and `/metrics` are by default.
const HTTP_DEFAULT: &str = "127.0.0.1:7402";
/// The id of a node that is alone.
const NODE_ID_DEFAULT: u64 = 1;
/// Enough that a handful of nodes own even shares and that two cores rarely want the same lock, few
/// enough that the segment that each of them is filling does not matter.
const PARTITIONS_DEFAULT: NonZeroU16 = NonZeroU16::new(64).expect("64 is not zero");
/// On a small node that would matter: one that is alone, and need not agree with others, has a partition for so many bytes
/// of its memory.
const PARTITION_BYTES: u64 = 16 << 20;

/// Half, so that the page cache, other processes and what the account does not see (stacks, code, the
/// kernel's socket buffers) have room and nobody is killed for the lack of it.
const MEMORY_DEFAULT: MemoryLimit = MemoryLimit::Percent(50.0);

/// Where the control API is by default.
const CONTROL_DEFAULT: &str = "127.0.0.1:7401";

/// Everything a node needs to know to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which node this is; `None` if its data directory has to say that.
    pub node: Option<NodeId>,
    /// Where nodes of the cluster may be found; `None` if this node founds one of its own.
    pub join: Option<Seeds>,
    /// Where this node listens for data connections; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where others reach it, if that is elsewhere.
    pub advertise: Option<SocketAddr>,
    /// Where it keeps what is to outlive it, if anywhere.
    pub data_dir: Option<PathBuf>,
    /// What it is there for.
    pub roles: Roles,
    /// What fails together with it; may be empty.
    pub zone: String,
    /// Where it serves the control API, if it does.
    pub control: Option<SocketAddr>,
    /// What the table is like that is always there, if this node founds the cluster.
    pub default_table: TableOptions,
    /// The time that nodes keep, if this node founds the cluster.
    pub timing: Timing,
    /// Where it serves health and metrics, if it does.
    pub http: Option<SocketAddr>,
    /// The hard limit on everything that the node stores and buffers.
    pub memory: MemorySize,
    /// Partitions of each class of tables, if this node founds the cluster.
    pub partitions: NonZeroU16,
    /// Threads that receive, execute and reply.
    pub reactors: NonZeroUsize,
    /// How these threads wait when there is nothing to do.
    pub poll: PollPolicy,
    /// What connections run over.
    pub link: LinkPolicy,
    /// Which RDMA device verbs use.
    pub verbs: VerbsOptions,
    /// How logs are written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log: LogFilter,
}

impl Config {
    /// The configuration that the command line, the environment and the file it may name amount to.
    ///
    /// # Errors
    /// What is wrong and what to do about it; the exit code for it is 2.
    pub fn load(args: Args) -> Result<Config, ConfigError> {
        let settings = match &args.config {
            Some(path) => args.settings.or(read_file(path)?),
            None => args.settings,
        };
        Config::resolve(settings, Host::of_this_process())
    }

    /// Fills in what `settings` leave open, from defaults and from what the host has, and checks
    /// the whole.
    ///
    /// # Errors
    /// What is wrong and what to do about it.
    pub fn resolve(settings: Settings, host: Host) -> Result<Config, ConfigError> {
        let roles = settings.roles.unwrap_or(Roles::ALL);
        let node = identity(&settings, roles)?;
        let listen = settings.listen.unwrap_or_else(|| constant(LISTEN_DEFAULT)).resolve()?;
        let http = settings.http.unwrap_or(HttpAddress::At(constant(HTTP_DEFAULT))).resolve()?;
        let control = settings.control.unwrap_or(HttpAddress::At(constant(CONTROL_DEFAULT)));
        let control = control.resolve()?;
        refuse_twice(("listen", Some(listen)), ("http", http))?;
        refuse_twice(("listen", Some(listen)), ("control", control))?;
        refuse_twice(("http", http), ("control", control))?;
        if !settings.insecure.unwrap_or(false) {
            refuse_exposed("listen", Some(listen))?;
            refuse_exposed("http", http)?;
            refuse_exposed("control", control)?;
        }
        let advertise = settings.advertise.map(|address| address.resolve()).transpose()?;
        let reached_at = advertise.unwrap_or(listen);
        let is_nowhere = reached_at.ip().to_canonical().is_unspecified();
        if is_nowhere && (settings.join.is_some() || advertise.is_some()) {
            return Err(ConfigError::Unspecified { address: reached_at });
        }
        let zone = settings.zone.unwrap_or_default();
        if zone.len() > ZONE_MAX {
            return Err(ConfigError::ZoneTooLong { len: zone.len() });
        }
        let memory = settings.memory.unwrap_or(MEMORY_DEFAULT).size(host.memory_bytes);
        let is_alone = settings.join.is_none();
        let partitions = settings.partitions.unwrap_or_else(|| partitions_for(memory, is_alone));
        if partitions.get() > PARTITIONS_PER_CLASS_MAX {
            return Err(ConfigError::TooManyPartitions { partitions: partitions.get() });
        }
        let table = TableOptions::default();
        let default_table = TableOptions {
            replicas: settings.replicas.unwrap_or(table.replicas),
            durability: settings.durability.unwrap_or(table.durability),
            ..table
        };
        let heartbeat = settings.heartbeat.map_or(Timing::default().heartbeat(), Into::into);
        let lease = settings.lease.map_or(Timing::lease_for(heartbeat), Into::into);
        let timing = Timing::new(heartbeat, lease)?;
        let reactors = settings.reactors.unwrap_or(host.cores);
        if reactors.get() > REACTORS_MAX && settings.reactors.is_some() {
            return Err(ConfigError::TooManyReactors { reactors: reactors.get() });
        }
        Ok(Config {
            node,
            join: settings.join,
            listen,
            advertise,
            data_dir: settings.data_dir,
            roles,
            zone,
            control,
            default_table,
            timing,
            http,
            memory,
            partitions,
            reactors,
            poll: settings.poll.unwrap_or_default(),
            link: settings.link.unwrap_or_default(),
            verbs: VerbsOptions {
                device: settings.verbs_device,
                gid_index: settings.verbs_gid_index,
            },
            log_format: settings.log_format.unwrap_or(LogFormat::Text),
            log: settings.log.unwrap_or_default(),
        })
    }
}

/// How many partitions a class has in the cluster of a node that was not told, and has so much `memory`.
fn partitions_for(memory: MemorySize, is_alone: bool) -> NonZeroU16 {
    let few = u16::try_from(memory.bytes() / PARTITION_BYTES).ok().and_then(NonZeroU16::new);
    few.filter(|_| is_alone).map_or(PARTITIONS_DEFAULT, |few| few.min(PARTITIONS_DEFAULT))
}

/// Which node this is, if it was told, or is alone. Its data directory may know better.
fn identity(settings: &Settings, roles: Roles) -> Result<Option<NodeId>, ConfigError> {
    if let Some(id) = settings.node_id.filter(|id| *id >= 1 << 16) {
        return Err(ConfigError::NodeIdRange { id });
    }
    let is_told = settings.node_id.is_some() || settings.data_dir.is_some();
    match &settings.join {
        Some(_) if !is_told => return Err(ConfigError::NodeIdMissing),
        Some(_) if roles.coordinator && settings.data_dir.is_none() => {
            return Err(ConfigError::DataDirMissing);
        }
        None if !roles.coordinator => return Err(ConfigError::NothingToJoin),
        Some(_) | None => {}
    }
    if let Some(durability) = settings.durability.filter(|asked| *asked != Durability::Memory)
        && roles.storage
        && settings.data_dir.is_none()
    {
        return Err(ConfigError::DurabilityWithoutDataDir { durability });
    }
    let alone = (!is_told).then_some(NODE_ID_DEFAULT);
    Ok(settings.node_id.or(alone).map(NodeId))
}

/// Refuses two ports that are one.
fn refuse_twice(
    (first, one): (&'static str, Option<SocketAddr>),
    (second, other): (&'static str, Option<SocketAddr>),
) -> Result<(), ConfigError> {
    match (one, other) {
        (Some(first_address), Some(second_address))
            if distinct::collide(first_address, second_address) =>
        {
            Err(ConfigError::PortTwice { first, first_address, second, second_address })
        }
        _ => Ok(()),
    }
}

/// There is no encryption and no authentication yet, so whoever reaches the port owns the data.
fn refuse_exposed(setting: &'static str, address: Option<SocketAddr>) -> Result<(), ConfigError> {
    match address {
        Some(address) if !address.ip().is_loopback() => {
            Err(ConfigError::Exposed { setting, address })
        }
        _ => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "settings are read once, before the node starts")]
fn read_file(path: &Path) -> Result<Settings, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::FileUnreadable { path: path.to_owned(), source })?;
    settings::parse_file(&text).map_err(|source| ConfigError::FileInvalid {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

fn constant(address: &str) -> HostPort {
    address.parse().expect("defaults are well-formed")
}
