//! Why a configuration cannot be used, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use weft_protocol::Durability;

use crate::coordinator::TimingError;
use crate::limits::ZONE_MAX;

/// Why a configuration cannot be used. Every message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The node is to be one of several and does not know which.
    #[error(
        "--join is given but not which node this is; add --node-id (or WEFT_NODE_ID), another one on every node"
    )]
    NodeIdMissing,
    /// Ids of nodes have 16 bits.
    #[error("node id {id} is too large; give the nodes ids below 65536, such as 1, 2, 3")]
    NodeIdRange {
        /// The id given.
        id: u64,
    },
    /// A coordinator that forgets what it has agreed to would break the cluster.
    #[error(
        "a coordinator among others keeps what it has agreed to on disk; add --data-dir, or let others do it: --roles storage"
    )]
    DataDirMissing,
    /// A node without a directory has no disk to keep tables on.
    #[error(
        "tables of {durability} are kept on disk, and this node has no directory; add --data-dir, or --durability memory"
    )]
    DurabilityWithoutDataDir {
        /// What was asked for.
        durability: Durability,
    },
    /// A node that cannot be a coordinator has nobody to ask.
    #[error(
        "a node of the role storage alone needs a cluster; give --join, or the role coordinator too"
    )]
    NothingToJoin,
    /// The address is every address of a host, which is none that anybody could connect to.
    #[error(
        "{address} names no host that others could connect to; give --advertise HOST:PORT (or WEFT_ADVERTISE)"
    )]
    Unspecified {
        /// The address.
        address: SocketAddr,
    },
    /// The zone's name is too long.
    #[error("the name of the zone has {len} bytes; give one of at most {ZONE_MAX}")]
    ZoneTooLong {
        /// Its length.
        len: usize,
    },
    /// Two ports are one.
    #[error(
        "--{first} {first_address} and --{second} {second_address} want the same port; give --{second} another one, or `off`"
    )]
    PortTwice {
        /// The flag of the one, without dashes.
        first: &'static str,
        /// Where that is to be.
        first_address: SocketAddr,
        /// The flag of the other.
        second: &'static str,
        /// Where that is to be.
        second_address: SocketAddr,
    },
    /// A class of tables is not divided into that many.
    #[error("{partitions} partitions are too many; give --partitions 4096 or less")]
    TooManyPartitions {
        /// Partitions given.
        partitions: u16,
    },
    /// Nodes cannot keep such a time.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// No machine has that many cores.
    #[error("{reactors} reactors are more than a node runs; give --reactors 1024 or less")]
    TooManyReactors {
        /// Reactors given.
        reactors: usize,
    },
    /// The address can be reached from other machines.
    #[error(
        "the {setting} address {address} can be reached from other machines, and nothing is \
         encrypted and nobody authenticated; use a loopback address, or --insecure if the network \
         is trusted"
    )]
    Exposed {
        /// The flag that gave it, without dashes.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// The name has no address.
    #[error(
        "cannot resolve {address:?}; check the name, or give a numeric address (--listen \
         0.0.0.0:PORT listens on all)"
    )]
    Unresolved {
        /// The host and port as given.
        address: String,
        /// What the resolver said, if it said something.
        #[source]
        source: Option<io::Error>,
    },
    /// The file cannot be read.
    #[error("cannot read {}; check --config (or WEFT_CONFIG)", path.display())]
    FileUnreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file says something that is no setting.
    #[error("{} has a mistake; docs/configuration.md lists the keys of [server]", path.display())]
    FileInvalid {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        #[source]
        source: Box<toml::de::Error>,
    },
}
