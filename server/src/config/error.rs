//! Why a configuration cannot be used, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a configuration cannot be used. Every message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There are several nodes and this one does not know which it is.
    #[error(
        "the peers are given but not which of them this node is; add --node-id (or WEFT_NODE_ID)"
    )]
    NodeIdMissing,
    /// The node is not among the peers.
    #[error(
        "node id {id} is not among the peers ({peers}); give one of their ids, or add the node to \
         --peers"
    )]
    NodeIdUnknown {
        /// The id given.
        id: u64,
        /// The peers given.
        peers: String,
    },
    /// The id is one that clients draw.
    #[error(
        "node id {id} is one that clients draw at random; give the nodes ids below \
         9223372036854775808, such as 1, 2, 3"
    )]
    NodeIdOfClient {
        /// The id given.
        id: u64,
    },
    /// Two names of the list stand for one address.
    #[error(
        "the peers {first} and {second} are at one address, {address}; give every node its own"
    )]
    OneAddressTwice {
        /// One of the entries, as given.
        first: String,
        /// The other.
        second: String,
        /// What both resolve to.
        address: SocketAddr,
    },
    /// The address of a peer is every address of a host, which is none that a client could connect to.
    #[error(
        "the peer {entry} is at {address}, which names no host; a list of nodes needs the address that \
         clients reach each at, and --listen says where a node listens"
    )]
    PeerUnspecified {
        /// The entry, as given.
        entry: String,
        /// What it resolves to.
        address: SocketAddr,
    },
    /// Data connections and HTTP want the same port.
    #[error(
        "--listen {listen} and --http {http} want the same port; give --http (or WEFT_HTTP) another \
         one, or `off`"
    )]
    PortTwice {
        /// Where data connections are to come in.
        listen: SocketAddr,
        /// Where HTTP is to be.
        http: SocketAddr,
    },
    /// Some node would own nothing.
    #[error(
        "{partitions} partitions cannot be shared by {nodes} nodes; give --partitions {nodes} or \
         more, the same on every node"
    )]
    TooFewPartitions {
        /// Partitions given.
        partitions: u16,
        /// Nodes given.
        nodes: usize,
    },
    /// There are not that many slots.
    #[error(
        "{partitions} partitions are more than there are slots; give --partitions 16384 or less"
    )]
    TooManyPartitions {
        /// Partitions given.
        partitions: u16,
    },
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
