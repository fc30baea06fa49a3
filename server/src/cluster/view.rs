//! What a node knows of what the cluster has agreed about: a copy of the coordinators' state, without what only they need.

use std::collections::BTreeMap;

use weft_protocol::{Catalog, ClusterMap, MapError, Member, PartitionId};
use weft_transport::NodeId;

use crate::coordinator::{ClientId, Node, Partition, Update, cluster_map_of};
use crate::partitions::Placement;

/// Everything that was committed up to a version, as far as a node is concerned.
#[derive(Debug, Default)]
pub(crate) struct View {
    version: u64,
    nodes: BTreeMap<NodeId, Node>,
    partitions: BTreeMap<PartitionId, Partition>,
}

/// What an update has brought.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) map: ClusterMap,
    /// The partitions that have changed, whoever holds them.
    pub(crate) placements: Vec<Placement>,
    /// The tables, if they have.
    pub(crate) catalog: Option<Catalog>,
    /// Whether all clients that there are are told.
    pub(crate) is_whole: bool,
    /// Those that have leases, if so.
    pub(crate) clients: Vec<u64>,
    /// Those that have none any more.
    pub(crate) expired: Vec<u64>,
    /// The last number given out to one.
    pub(crate) last_client: u64,
    /// Whether one of the nodes that have changed is down: the coordinators may wait for word that this is known.
    pub(crate) is_one_down: bool,
}

impl View {
    /// Up to which version everything is known.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The node of this id.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Whether this life of a node is one of the cluster's. What one that is not is told ends when those who told it are gone.
    pub(crate) fn has(&self, member: Member) -> bool {
        self.node(member.node).is_some_and(|node| node.incarnation == member.incarnation)
    }

    /// The nodes, by id.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The partitions whose primary is this life of a node.
    pub(crate) fn presided_by(&self, member: Member) -> Vec<PartitionId> {
        let primary = |partition: &Partition| partition.configuration.primary;
        let presided = self.partitions.iter().filter(|(_, one)| primary(one) == Some(member));
        presided.map(|(id, _)| *id).collect()
    }

    /// Takes in what was committed since. `None` if that is nothing new, or something before it is missing.
    ///
    /// # Errors
    /// What the coordinator says contradicts itself: nothing was taken in.
    pub(crate) fn take_in(&mut self, update: Update) -> Result<Option<Learned>, MapError> {
        let misses_some = !update.is_whole() && update.since > self.version;
        // Before the first node has joined there is no map.
        if update.version <= self.version
            || misses_some
            || update.nodes.is_empty() && self.nodes.is_empty()
        {
            return Ok(None);
        }
        let is_whole = update.is_whole();
        let (mut nodes, mut partitions) = (BTreeMap::new(), BTreeMap::new());
        if !is_whole {
            (nodes, partitions) = (self.nodes.clone(), self.partitions.clone());
        }
        let is_one_down = update.nodes.iter().any(|node| !node.is_up);
        update.forgotten.iter().for_each(|node| drop(nodes.remove(node)));
        nodes.extend(update.nodes.into_iter().map(|node| (node.id, node)));
        let placements =
            update.partitions.iter().map(|(id, partition)| Placement::of(*id, partition));
        let placements = placements.collect();
        partitions.extend(update.partitions);
        let places = partitions.iter().map(|(id, partition)| (*id, partition));
        let map = cluster_map_of(update.version, nodes.values(), places)?;
        *self = View { version: update.version, nodes, partitions };
        let numbers = |clients: Vec<ClientId>| clients.into_iter().map(|client| client.0).collect();
        Ok(Some(Learned {
            map,
            placements,
            catalog: update.catalog,
            is_whole,
            clients: numbers(update.clients),
            expired: numbers(update.expired),
            last_client: update.last_client.0,
            is_one_down,
        }))
    }
}
