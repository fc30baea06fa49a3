//! The cluster as the client sees it: one map, and a handle for each of its nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_protocol::{ClusterMap, Member, PartitionEntry, Slot, TableClass, TableId};
use weft_transport::{Connection, NodeId};

use crate::error::{ClientError, NodeName};
use crate::limits::MAP_SOURCES_MAX;
use crate::remote::Remote;
use crate::table::Table;

/// A map and its nodes. It never changes; a newer map makes a new `Cluster`, and so does a connection in the place of one that has ended.
#[derive(Debug)]
pub(crate) struct Cluster {
    map: Arc<ClusterMap>,
    /// In the order of the map's nodes.
    remotes: Box<[Arc<Remote>]>,
}

impl Cluster {
    /// The cluster that `map` describes. Nodes that were in `previous` keep their connections.
    pub(crate) fn new(map: Arc<ClusterMap>, previous: Option<&Cluster>) -> Self {
        let remotes = map.nodes().iter().map(|entry| {
            let known = previous.and_then(|cluster| cluster.remote(entry.id));
            match known.filter(|remote| remote.is(entry)) {
                Some(remote) => Arc::clone(remote),
                None => Arc::new(Remote::new(entry)),
            }
        });
        Self { remotes: remotes.collect(), map }
    }

    /// The same, with `connection` to the node that is called `name`, if that still is one of its nodes and none is open to it.
    pub(crate) fn with_connection(&self, name: &NodeName, connection: &Connection) -> Option<Self> {
        let index = self.remotes.iter().position(|remote| remote.name() == name)?;
        if self.remotes[index].open().is_some() {
            return None;
        }
        let mut remotes = self.remotes.clone();
        remotes[index] = Arc::new(remotes[index].renewed(connection.clone()));
        Some(Self { remotes, map: Arc::clone(&self.map) })
    }

    pub(crate) fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.map.epoch()
    }

    /// The nodes, by id.
    pub(crate) fn remotes(&self) -> &[Arc<Remote>] {
        &self.remotes
    }

    /// Some nodes to be asked one after the other for what any of them knows, from `choice` on: those first that serve something. Of one that has been silent
    /// for long all was given to others.
    pub(crate) fn in_turn(&self, choice: u64) -> impl Iterator<Item = &Arc<Remote>> {
        let partitions = self.map.partitions();
        let primaries: BTreeSet<_> = partitions.iter().filter_map(|entry| entry.primary).collect();
        let first = (choice % self.remotes.len() as u64) as usize;
        let in_turn = self.remotes[first..].iter().chain(&self.remotes[..first]);
        let serves = |remote: &&Arc<Remote>| primaries.contains(&remote.name().id);
        let (serving, others): (Vec<_>, Vec<_>) = in_turn.partition(serves);
        serving.into_iter().chain(others).take(MAP_SOURCES_MAX)
    }

    /// Which partitions `table` is in.
    #[inline]
    fn class_of(&self, table: Table) -> TableClass {
        match table.id {
            // What it is like was said when the cluster was founded.
            TableId::DEFAULT => self.map.default_class(),
            _ => table.class,
        }
    }

    /// The partitions that `table` is in, by slot.
    pub(crate) fn partitions_of(&self, table: Table) -> &[PartitionEntry] {
        self.map.partitions_of(self.class_of(table))
    }

    /// The node that serves `slot` of `table`.
    #[inline]
    pub(crate) fn primary(&self, table: Table, slot: Slot) -> Option<&Arc<Remote>> {
        self.map.primary_index(self.class_of(table), slot).map(|index| &self.remotes[index])
    }

    /// Why no node serves `slot` of `table`.
    pub(crate) fn unserved(&self, table: Table, slot: Slot) -> ClientError {
        let epoch = self.epoch();
        let partition = self.map.partition_of(self.class_of(table), slot);
        match partition.map(|partition| &self.map.partitions()[partition]) {
            Some(partition) if partition.is_lost => {
                ClientError::PartitionLost { partition: partition.id, epoch }
            }
            _ => ClientError::SlotUnowned { slot, epoch },
        }
    }

    /// Refuses what is asked of all of `table` while a partition of it is lost: what there is would pass for all there was.
    ///
    /// # Errors
    /// [`ClientError::PartitionLost`].
    pub(crate) fn check_not_lost(&self, table: Table) -> Result<(), ClientError> {
        let partitions = self.map.partitions_of(self.class_of(table));
        let lost = partitions.iter().find(|partition| partition.is_lost);
        lost.map_or(Ok(()), |lost| {
            Err(ClientError::PartitionLost { partition: lost.id, epoch: self.epoch() })
        })
    }

    /// Which node serves `slot` of `table`, in which life.
    pub(crate) fn member(&self, table: Table, slot: Slot) -> Option<Member> {
        let primary = self.map.primary_of(self.class_of(table), slot)?;
        Some(Member { node: primary.id, incarnation: primary.incarnation })
    }

    /// Whether `member` is not who serves `slot` any more: another node does, a later life of it, or nobody.
    pub(crate) fn has_deposed(&self, member: Member, table: Table, slot: Slot) -> bool {
        self.member(table, slot).is_none_or(|primary| {
            primary.node != member.node || primary.incarnation > member.incarnation
        })
    }

    /// A slot of each node that serves some of `table`.
    ///
    /// # Errors
    /// [`ClientError::SlotUnowned`] if there is a slot that no node serves.
    pub(crate) fn slots_of_nodes(&self, table: Table) -> Result<Vec<Slot>, ClientError> {
        let (mut owners, mut slots) = (Vec::new(), Vec::new());
        let mut next = 0;
        for partition in self.map.partitions_of(self.class_of(table)) {
            let Some(primary) = partition.primary else { break };
            if partition.first_slot.number() != next {
                break;
            }
            next = partition.last_slot.number() + 1;
            if !owners.contains(&primary) {
                owners.push(primary);
                slots.push(partition.first_slot);
            }
        }
        match Slot::from_number(next) {
            Some(slot) => Err(self.unserved(table, slot)),
            None => Ok(slots),
        }
    }

    /// The nodes that serve some of `table`: all of it, together.
    ///
    /// # Errors
    /// [`ClientError::PartitionLost`]; [`ClientError::SlotUnowned`] if there is a slot that no node serves.
    pub(crate) fn servers(&self, table: Table) -> Result<BTreeSet<NodeId>, ClientError> {
        self.check_not_lost(table)?;
        self.slots_of_nodes(table)?;
        Ok(self.servers_of(&[self.class_of(table)]))
    }

    /// The nodes that serve some partition of these classes.
    pub(crate) fn servers_of(&self, classes: &[TableClass]) -> BTreeSet<NodeId> {
        let partitions = classes.iter().flat_map(|class| self.map.partitions_of(*class));
        partitions.filter_map(|partition| partition.primary).collect()
    }

    /// The node with this id.
    pub(crate) fn remote(&self, id: NodeId) -> Option<&Arc<Remote>> {
        let index = self.map.nodes().binary_search_by_key(&id, |node| node.id).ok()?;
        Some(&self.remotes[index])
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::NodeEntry;
    use weft_transport::Incarnation;

    use super::*;

    fn map(epoch: u64, nodes: &[(u64, &str)]) -> Arc<ClusterMap> {
        let entry = |&(id, address): &(u64, &str)| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(1),
            address: address.to_owned(),
        };
        Arc::new(ClusterMap::even(nodes.iter().map(entry).collect(), 8, epoch).unwrap())
    }

    #[test]
    fn every_slot_leads_to_the_node_that_the_map_names() {
        let cluster = Cluster::new(map(1, &[(7, "c:1"), (1, "a:1"), (3, "b:1")]), None);
        for slot in (0..Slot::COUNT).map(|number| Slot::from_number(number).unwrap()) {
            let owner = cluster.primary(Table::DEFAULT, slot).unwrap().name().id;
            assert_eq!(owner, cluster.map().owner_of(slot).unwrap().id);
        }
    }

    #[test]
    fn who_serves_nothing_is_asked_last() {
        let known = map(1, &[(1, "a:1"), (2, "b:1"), (3, "c:1")]);
        let mut partitions = known.partitions().to_vec();
        for entry in &mut partitions {
            entry.primary = entry.primary.map(|primary| NodeId(primary.0.max(2)));
            entry.members.extend(entry.primary);
            entry.members.sort();
            entry.members.dedup();
        }
        let shrunk = ClusterMap::new(2, known.nodes().to_vec(), partitions).unwrap();
        let cluster = Cluster::new(Arc::new(shrunk), None);
        let asked = |choice| -> Vec<u64> {
            cluster.in_turn(choice).map(|remote| remote.name().id.0).collect()
        };
        assert_eq!((asked(0), asked(2), asked(7)), (vec![2, 3, 1], vec![3, 2, 1], vec![2, 3, 1]));
    }

    #[test]
    fn nodes_that_stay_are_kept_with_their_connections() {
        let before = Cluster::new(map(1, &[(1, "a:1"), (2, "b:1"), (3, "c:1")]), None);
        let after = Cluster::new(map(2, &[(1, "a:1"), (2, "moved:1"), (4, "d:1")]), Some(&before));
        let same = |id| match (before.remote(NodeId(id)), after.remote(NodeId(id))) {
            (Some(before), Some(after)) => Some(Arc::ptr_eq(before, after)),
            _ => None,
        };
        assert_eq!((same(1), same(2), same(3), same(4)), (Some(true), Some(false), None, None));
        assert_eq!(&*after.remote(NodeId(2)).unwrap().name().address, "moved:1");
    }
}
