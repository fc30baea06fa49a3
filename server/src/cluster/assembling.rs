//! Messages of other nodes that come in parts, since they are as long as the largest value.
//!
//! A node's network memory would not do for a message of 64 MiB where it has 256 MiB altogether. So what is put together is counted against the memory of the
//! store, in which most of it is to lie.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weft_protocol::Member;
use weft_protocol::replication::Part;
use weft_transport::{Charge, Memory, NodeId, Purpose};

/// What has come so far, of one message a node.
#[derive(Debug)]
pub(super) struct Assemblies {
    memory: Memory,
    begun: Mutex<BTreeMap<NodeId, Assembly>>,
}

#[derive(Debug)]
struct Assembly {
    /// Which life of the node it is of.
    from: Member,
    bytes: Vec<u8>,
    total: usize,
    _charge: Charge,
}

impl Assemblies {
    /// Nothing has come; what does is counted against `memory`.
    pub(super) fn new(memory: &Memory) -> Assemblies {
        Assemblies { memory: memory.clone(), begun: Mutex::default() }
    }

    /// Takes the next part. Returns the message when it is whole. One for which there is no memory is left out, as the network might have done: it is sent again.
    pub(super) fn take(&self, from: Member, part: &Part<'_>) -> Option<Vec<u8>> {
        let mut begun = self.begun.lock();
        if part.offset == 0 {
            // Whatever there was of another message will not be completed.
            begun.remove(&from.node);
            match self.memory.charge(part.total as u64, Purpose::Receive) {
                Ok(charge) => {
                    let bytes = Vec::with_capacity(part.total);
                    let assembly = Assembly { from, bytes, total: part.total, _charge: charge };
                    begun.insert(from.node, assembly);
                }
                Err(error) => {
                    tracing::warn!(node = from.node.0, %error, "no memory for a message of another node");
                }
            }
        }
        let assembly = begun.get_mut(&from.node)?;
        let goes_on = (assembly.from, assembly.total, assembly.bytes.len());
        if goes_on != (from, part.total, part.offset) {
            begun.remove(&from.node);
            return None;
        }
        assembly.bytes.extend_from_slice(part.bytes);
        let is_whole = assembly.bytes.len() == assembly.total;
        is_whole.then(|| begun.remove(&from.node).map(|assembly| assembly.bytes)).flatten()
    }

    /// There is no connection to a node any more: what it has begun ends.
    pub(super) fn lost(&self, node: NodeId) {
        self.begun.lock().remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Incarnation, MemoryConfig};

    use super::*;

    fn of(node: u64, incarnation: u64) -> Member {
        Member { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }

    fn part(total: usize, offset: usize, bytes: &[u8]) -> Part<'_> {
        Part { total, offset, bytes }
    }

    #[test]
    fn parts_of_several_nodes_are_put_together() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let assemblies = Assemblies::new(&memory);
        assert_eq!(assemblies.take(of(1, 1), &part(6, 0, b"wa")), None);
        assert_eq!(assemblies.take(of(2, 1), &part(4, 0, b"wef")), None);
        assert_eq!(memory.account().allocated_for(Purpose::Receive), 10);
        assert_eq!(assemblies.take(of(1, 1), &part(6, 2, b"r")), None);
        assert_eq!(assemblies.take(of(2, 1), &part(4, 3, b"t")), Some(b"weft".to_vec()));
        assert_eq!(assemblies.take(of(1, 1), &part(6, 3, b"ped")), Some(b"warped".to_vec()));
        assert_eq!(memory.account().allocated_for(Purpose::Receive), 0);
    }

    #[test]
    fn what_does_not_go_on_where_it_ended_is_left_out() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let assemblies = Assemblies::new(&memory);
        for wrong in [part(4, 3, b"t"), part(4, 1, b"eft"), part(5, 2, b"ft")] {
            assert_eq!(assemblies.take(of(1, 1), &part(4, 0, b"we")), None);
            assert_eq!(assemblies.take(of(1, 1), &wrong), None);
            assert_eq!(assemblies.take(of(1, 1), &part(4, 2, b"ft")), None);
        }
        // Of another life of the node.
        assert_eq!(assemblies.take(of(1, 1), &part(4, 0, b"we")), None);
        assert_eq!(assemblies.take(of(1, 2), &part(4, 2, b"ft")), None);
        // Begun anew.
        assert_eq!(assemblies.take(of(1, 2), &part(4, 0, b"lo")), None);
        assert_eq!(assemblies.take(of(1, 2), &part(4, 0, b"we")), None);
        assert_eq!(assemblies.take(of(1, 2), &part(4, 2, b"ft")), Some(b"weft".to_vec()));
        assert_eq!(assemblies.take(of(1, 2), &part(4, 0, b"we")), None);
        assemblies.lost(NodeId(1));
        assert_eq!(memory.account().allocated_for(Purpose::Receive), 0);
    }

    #[test]
    fn one_for_which_there_is_no_memory_comes_again() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let assemblies = Assemblies::new(&memory);
        let taken = memory.charge(1 << 20, Purpose::Log).unwrap();
        assert_eq!(assemblies.take(of(1, 1), &part(4, 0, b"we")), None);
        assert_eq!(assemblies.take(of(1, 1), &part(4, 2, b"ft")), None);
        drop(taken);
        assert_eq!(assemblies.take(of(1, 1), &part(4, 0, b"we")), None);
        assert_eq!(assemblies.take(of(1, 1), &part(4, 2, b"ft")), Some(b"weft".to_vec()));
    }
}
