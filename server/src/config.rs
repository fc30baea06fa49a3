//! What a node is told, as a [`Config`] that holds only values that work together.
//!
//! Text becomes [`Settings`] (each value typed, every one optional) from the command line and the
//! environment, and once more from the file; the first source that has a value gives it, and
//! [`Config::resolve`] adds what nobody set and checks what no single value can show. Nothing below
//! `main` reads the environment. `docs/configuration.md` lists every setting.

mod address;
mod distinct;
mod error;
mod host;
mod log;
mod peers;
mod settings;
mod size;

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::Path;

use weft_protocol::{ClusterMap, NodeEntry, Slot};
use weft_transport::{Incarnation, LinkPolicy, NodeId, PollPolicy, VerbsOptions};

use crate::limits::REACTORS_MAX;

pub use self::address::{AddressError, HostPort, HttpAddress};
pub use self::error::ConfigError;
pub use self::host::Host;
pub use self::log::{LogFilter, LogFilterError, LogFormat, LogFormatError};
pub use self::peers::{PeerEntry, Peers, PeersError};
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

/// The epoch of a map that is worked out from the list of peers: no other ever replaces it.
const STATIC_MAP_EPOCH: u64 = 1;

/// Everything a node needs to know to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which of `peers` this node is.
    pub node: NodeId,
    /// Every node of the cluster with the address that clients reach it at, this one included.
    pub peers: Peers,
    /// Where this node listens for data connections; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where it serves health and metrics, if it does.
    pub http: Option<SocketAddr>,
    /// The hard limit on everything that the node stores and buffers.
    pub memory: MemorySize,
    /// Partitions of the whole cluster; the same on every node.
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
        let (node, peers) = identity(&settings)?;
        if let Some(peer) = peers.iter().find(|peer| peer.id.is_client()) {
            return Err(ConfigError::NodeIdOfClient { id: peer.id.0 });
        }
        if settings.peers.is_some() {
            distinct::check_peers(&peers)?;
        }
        let listen = match &settings.listen {
            Some(listen) => listen.resolve()?,
            None => peers.address_of(node).expect("identity() found it there").resolve()?,
        };
        let http = match settings.http.unwrap_or(HttpAddress::At(constant(HTTP_DEFAULT))) {
            HttpAddress::Off => None,
            HttpAddress::At(address) => Some(address.resolve()?),
        };
        if let Some(http) = http
            && distinct::collide(listen, http)
        {
            return Err(ConfigError::PortTwice { listen, http });
        }
        if !settings.insecure.unwrap_or(false) {
            refuse_exposed("listen", Some(listen))?;
            refuse_exposed("http", http)?;
        }
        let memory = settings.memory.unwrap_or(MEMORY_DEFAULT).size(host.memory_bytes);
        let is_alone = peers.len() == 1;
        let partitions = settings.partitions.unwrap_or_else(|| partitions_for(memory, is_alone));
        if partitions.get() > Slot::COUNT {
            return Err(ConfigError::TooManyPartitions { partitions: partitions.get() });
        }
        if peers.len() > usize::from(partitions.get()) {
            return Err(ConfigError::TooFewPartitions {
                partitions: partitions.get(),
                nodes: peers.len(),
            });
        }
        let reactors = settings.reactors.unwrap_or(host.cores);
        if reactors.get() > REACTORS_MAX && settings.reactors.is_some() {
            return Err(ConfigError::TooManyReactors { reactors: reactors.get() });
        }
        Ok(Config {
            node,
            peers,
            listen,
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

    /// Who owns what: every node an even share. The same on every node, so it leaves out what a
    /// node knows of itself only, its incarnation (0 is "not known"). `listens_at` is where this node is if it is alone and was told to
    /// take a free port.
    pub fn map(&self, listens_at: SocketAddr) -> ClusterMap {
        let is_elsewhere = self.peers.len() == 1 && self.listen.port() == 0;
        let address_of = |peer: &PeerEntry| match is_elsewhere {
            true => listens_at.to_string(),
            false => peer.address.to_string(),
        };
        let nodes = self.peers.iter().map(|peer| NodeEntry {
            id: peer.id,
            incarnation: Incarnation(0),
            address: address_of(peer),
        });
        ClusterMap::even(nodes.collect(), self.partitions.get(), STATIC_MAP_EPOCH)
            .expect("peers and partitions were checked against the limits of a map")
    }
}

/// How many partitions the cluster of a node has that was not told, and has so much `memory`.
fn partitions_for(memory: MemorySize, is_alone: bool) -> NonZeroU16 {
    let few = u16::try_from(memory.bytes() / PARTITION_BYTES).ok().and_then(NonZeroU16::new);
    few.filter(|_| is_alone).map_or(PARTITIONS_DEFAULT, |few| few.min(PARTITIONS_DEFAULT))
}

/// Who this node is and who the others are. A node without peers is alone, at the address it
/// listens on.
fn identity(settings: &Settings) -> Result<(NodeId, Peers), ConfigError> {
    match (&settings.peers, settings.node_id) {
        (Some(_), None) => Err(ConfigError::NodeIdMissing),
        (Some(peers), Some(id)) => match peers.address_of(NodeId(id)) {
            Some(_) => Ok((NodeId(id), peers.clone())),
            None => Err(ConfigError::NodeIdUnknown { id, peers: peers.to_string() }),
        },
        (None, id) => {
            let node = NodeId(id.unwrap_or(NODE_ID_DEFAULT));
            let address = settings.listen.clone().unwrap_or_else(|| constant(LISTEN_DEFAULT));
            Ok((node, Peers::single(node, address)))
        }
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
