//! Who a node is: its id, and which life of it this is.

use std::fmt;

/// A node's id, unique in its cluster. Storage nodes have ids below 2^16; everybody else (clients,
/// tools) draws one at random with the top bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The bit that marks an id as drawn at random by a client.
    const CLIENT: u64 = 1 << 63;

    /// An id for a client, from 64 random bits.
    pub const fn client(random: u64) -> Self {
        Self(random | Self::CLIENT)
    }

    /// Whether this is a client's id: such nodes listen nowhere and are not told apart by
    /// incarnation.
    pub const fn is_client(self) -> bool {
        self.0 & Self::CLIENT != 0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_client() {
            write!(f, "client {:x}", self.0 & !Self::CLIENT)
        } else {
            write!(f, "node {}", self.0)
        }
    }
}

/// Which life of a node this is: it grows with every restart, so that what an earlier life still
/// has in flight can be told from what the present one says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
