//! How a node's one memory limit is divided.
//!
//! The store and the network have a region each, and the limit is the sum of theirs. With one
//! region for both, a store that is full would leave no room to receive the delete that empties it,
//! and a thousand readers that read nothing would keep the store from taking a write. Besides,
//! what peers may write to and what they may read are to be registered with a device apart.

use weft_transport::{Account, Memory, MemoryConfig, MemoryError, Purpose};

/// The part of the limit that the network gets, unless that is too little or more than it needs.
const NETWORK_SHARE: u64 = 8;
/// Receive buffers of a few reactors, and a message of the largest size on some connections.
const NETWORK_MIN: u64 = 16 << 20;
/// Full windows of a hundred connections whose peers read nothing.
const NETWORK_MAX: u64 = 512 << 20;

/// The memory of a node.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    /// For log and index.
    pub store: Memory,
    /// For what is received and sent, and for the state of connections.
    pub network: Memory,
}

impl NodeMemory {
    /// Divides `limit_bytes`; touches none of it.
    ///
    /// # Errors
    /// [`MemoryError::Reserve`] if the system refuses the address space.
    pub fn divide(limit_bytes: u64) -> Result<NodeMemory, MemoryError> {
        let network =
            (limit_bytes / NETWORK_SHARE).clamp(NETWORK_MIN, NETWORK_MAX).min(limit_bytes / 2);
        Ok(NodeMemory {
            store: Memory::new(MemoryConfig { limit_bytes: limit_bytes - network })?,
            network: Memory::new(MemoryConfig { limit_bytes: network })?,
        })
    }

    /// The limit on everything.
    pub fn limit_bytes(&self) -> u64 {
        self.sum(|account| account.limit_bytes)
    }

    /// What is handed out and charged, together.
    pub fn allocated_bytes(&self) -> u64 {
        self.sum(|account| account.allocated_bytes)
    }

    /// What the process really takes for it.
    pub fn resident_bytes(&self) -> u64 {
        self.sum(|account| account.resident_bytes)
    }

    /// What is handed out and charged for `purpose`.
    pub fn allocated_for(&self, purpose: Purpose) -> u64 {
        self.sum(|account| account.allocated_for(purpose))
    }

    fn sum(&self, bytes: impl Fn(&Account) -> u64) -> u64 {
        bytes(&self.store.account()) + bytes(&self.network.account())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_limit() {
        let check = |limit: u64, network: u64| {
            let memory = NodeMemory::divide(limit).unwrap();
            assert_eq!(memory.limit_bytes(), limit);
            assert_eq!(memory.network.account().limit_bytes, network);
        };
        check(64 << 20, 16 << 20);
        check(1 << 30, 128 << 20);
        check(64 << 30, 512 << 20);
    }
}
