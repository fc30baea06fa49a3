//! Into which partitions a table is divided, and who serves each.

use weft_protocol::{ClusterMap, PartitionEntry, Slot};
use weft_transport::NodeId;

use super::Client;

/// A run of slots of a table that one node serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePartition {
    /// The first slot.
    pub first_slot: Slot,
    /// The last slot, which belongs to it too.
    pub last_slot: Slot,
    /// The node that serves it, and its address, `host:port`; nobody while none can.
    pub primary: Option<(NodeId, String)>,
}

impl Client {
    /// The partitions of the table by the [map](Self::map) that the client goes by, in the order of their slots. Together they are all slots: what the map leaves out is a
    /// partition that nobody serves. Which node serves one may change at any time; the borders do not.
    pub fn partitions(&self) -> Vec<TablePartition> {
        let cluster = self.core.keeper.current_owned();
        cover(cluster.map(), cluster.partitions_of(self.table))
    }
}

fn cover(map: &ClusterMap, partitions: &[PartitionEntry]) -> Vec<TablePartition> {
    let slot = |number| Slot::from_number(number).expect("it is before a slot or the last one");
    let left_out = |first, last| TablePartition {
        first_slot: slot(first),
        last_slot: slot(last),
        primary: None,
    };
    let (mut covered, mut next) = (Vec::with_capacity(partitions.len()), 0);
    for partition in partitions {
        let PartitionEntry { first_slot, last_slot, .. } = *partition;
        if first_slot.number() > next {
            covered.push(left_out(next, first_slot.number() - 1));
        }
        let node = partition.primary.and_then(|primary| map.node(primary));
        let primary = node.map(|node| (node.id, node.address.clone()));
        covered.push(TablePartition { first_slot, last_slot, primary });
        next = last_slot.number() + 1;
    }
    if next < Slot::COUNT {
        covered.push(left_out(next, Slot::COUNT - 1));
    }
    covered
}

#[cfg(test)]
mod tests {
    use weft_protocol::NodeEntry;
    use weft_transport::Incarnation;

    use super::*;

    #[test]
    fn what_a_map_leaves_out_is_a_partition_that_nobody_serves() {
        let node = |id: u64| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(1),
            address: format!("host-{id}:1"),
        };
        let even = ClusterMap::even(vec![node(1), node(2)], 8, 1).unwrap();
        for left_out in [&[][..], &[0], &[3, 4], &[7], &[0, 2, 7], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            let kept = |index: &usize| !left_out.contains(index);
            let partitions: Vec<_> =
                (0..8).filter(kept).map(|index| even.partitions()[index].clone()).collect();
            let covered = cover(&even, &partitions);
            let mut next = 0;
            for partition in &covered {
                assert_eq!(partition.first_slot.number(), next);
                next = partition.last_slot.number() + 1;
            }
            assert_eq!(next, Slot::COUNT);
            let served: Vec<_> =
                covered.iter().filter_map(|partition| partition.primary.clone()).collect();
            assert_eq!(served.len(), 8 - left_out.len());
            assert!(served.iter().all(|(id, address)| *address == format!("host-{}:1", id.0)));
        }
    }
}
