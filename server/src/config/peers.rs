//! The static list of nodes: `ID=HOST:PORT,…`.

use std::fmt;
use std::str::FromStr;

use weft_protocol::limits::NODES_MAX;
use weft_transport::NodeId;

use super::{AddressError, HostPort};

/// One node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerEntry {
    /// Its id.
    pub id: NodeId,
    /// The address that clients and other nodes reach it at.
    pub address: HostPort,
}

/// The nodes of the cluster in ascending order of their ids; at least one, no id and no address
/// twice. The order is what every node computes the same map from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers(Vec<PeerEntry>);

impl Peers {
    /// A cluster of one.
    pub fn single(id: NodeId, address: HostPort) -> Peers {
        Peers(vec![PeerEntry { id, address }])
    }

    /// The nodes, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &PeerEntry> {
        self.0.iter()
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The address of a node, if it is one of them.
    pub fn address_of(&self, id: NodeId) -> Option<&HostPort> {
        self.0.iter().find(|peer| peer.id == id).map(|peer| &peer.address)
    }
}

impl FromStr for Peers {
    type Err = PeersError;

    fn from_str(text: &str) -> Result<Peers, PeersError> {
        let mut peers = text.split(',').map(parse_entry).collect::<Result<Vec<_>, _>>()?;
        if peers.len() > NODES_MAX {
            return Err(PeersError::TooMany { count: peers.len() });
        }
        peers.sort_by_key(|peer| peer.id);
        for (index, peer) in peers.iter().enumerate() {
            for other in &peers[..index] {
                if other.id == peer.id {
                    return Err(PeersError::SameId { id: peer.id.0 });
                }
                if other.address == peer.address {
                    return Err(PeersError::SameAddress { address: peer.address.to_string() });
                }
            }
        }
        Ok(Peers(peers))
    }
}

fn parse_entry(entry: &str) -> Result<PeerEntry, PeersError> {
    let malformed = || PeersError::Entry { entry: entry.to_owned() };
    let (id, address) = entry.trim().split_once('=').ok_or_else(malformed)?;
    let id = id.parse().map_err(|_| malformed())?;
    let address =
        address.parse().map_err(|error| PeersError::Address { entry: entry.to_owned(), error })?;
    let address: HostPort = address;
    if !address.names_a_port() {
        return Err(PeersError::NoPort { entry: entry.to_owned() });
    }
    Ok(PeerEntry { id: NodeId(id), address })
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, peer) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}={}", peer.id.0, peer.address)?;
        }
        Ok(())
    }
}

/// What keeps a text from being a list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeersError {
    /// An entry has not the form of one.
    #[error("{entry:?} is not ID=HOST:PORT, with a number as id")]
    Entry {
        /// The entry.
        entry: String,
    },
    /// The address of an entry is none.
    #[error("{entry:?} has no good address: {error}")]
    Address {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        error: AddressError,
    },
    /// The address of an entry leaves the port open, where others have to find the node.
    #[error("{entry:?} names no port; a list of nodes needs the port of each")]
    NoPort {
        /// The entry.
        entry: String,
    },
    /// There are more than a map holds.
    #[error("{count} nodes are more than {NODES_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// Two entries have one id.
    #[error("node id {id} is there twice; give every node its own")]
    SameId {
        /// The id.
        id: u64,
    },
    /// Two entries have one address.
    #[error("address {address} is there twice; give every node its own")]
    SameAddress {
        /// The address.
        address: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_sorted_by_id_whatever_the_order_they_are_written_in() {
        let peers: Peers = "3=c:1, 1=a:1,2=b:1".parse().unwrap();
        assert_eq!(peers.to_string(), "1=a:1,2=b:1,3=c:1");
    }

    #[test]
    fn others_find_a_node_only_at_a_port_that_is_named() {
        for entry in ["1=a:0", "1=a:00"] {
            let refused = PeersError::NoPort { entry: entry.to_owned() };
            assert_eq!(entry.parse::<Peers>(), Err(refused));
        }
    }

    #[test]
    fn ids_and_addresses_are_unique() {
        let check =
            |text: &str, expected| assert_eq!(text.parse::<Peers>(), Err(expected), "{text}");
        check("1=a:1,1=b:1", PeersError::SameId { id: 1 });
        check("1=a:1,2=a:1", PeersError::SameAddress { address: "a:1".to_owned() });
        check("a:1", PeersError::Entry { entry: "a:1".to_owned() });
        check("", PeersError::Entry { entry: String::new() });
        check("x=a:1", PeersError::Entry { entry: "x=a:1".to_owned() });
        check(
            "1=a",
            PeersError::Address { entry: "1=a".to_owned(), error: AddressError::PortMissing },
        );
    }
}
