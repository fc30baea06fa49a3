//! What clients and nodes are told of the state.

use weft_protocol::{
    Catalog, ClusterMap, MapError, Member, NodeEntry, PartitionEntry, PartitionId, TableClass,
};
use weft_transport::NodeId;

use super::class::PartitionRun;
use super::command::ClientId;
use super::history::Gone;
use super::node::Node;
use super::partition::Partition;
use super::state::ClusterState;

/// What is different in a state from what it was in an earlier version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The version of the state.
    pub version: u64,
    /// Whether this is all that there is, and what is not in it does not exist: the earlier version was too long ago to know what went since.
    pub is_whole: bool,
    /// The nodes that are new or other than they were, by id.
    pub nodes: Vec<&'a Node>,
    /// The nodes that were forgotten.
    pub forgotten: Vec<NodeId>,
    /// The partitions that are new or other than they were, by number.
    pub partitions: Vec<(PartitionId, &'a Partition)>,
    /// The tables, if there were others.
    pub catalog: Option<&'a Catalog>,
    /// The partitions of each class, if the tables are told, or a class is among the partitions.
    pub classes: Vec<(TableClass, PartitionRun)>,
    /// The clients whose leases have run out.
    pub expired: Vec<ClientId>,
    /// If this is whole, the clients that have leases: those of lower numbers than the last ever given out which are not among them have none any more.
    pub clients: Vec<ClientId>,
    /// The last number given out to a client.
    pub last_client: ClientId,
}

/// The map of clients as of a version.
///
/// # Errors
/// [`MapError`]: these are no nodes and partitions of one state, or there is no node yet.
pub(crate) fn cluster_map_of<'s>(
    version: u64,
    nodes: impl Iterator<Item = &'s Node>,
    partitions: impl Iterator<Item = (PartitionId, &'s Partition)>,
) -> Result<ClusterMap, MapError> {
    let nodes = nodes.map(|node| NodeEntry {
        id: node.id,
        incarnation: node.incarnation,
        address: node.description.data_address.clone(),
    });
    let entries = partitions.map(|(id, partition)| {
        let Partition { class, first_slot, last_slot, ref configuration, .. } = *partition;
        let node_of = |member: &Member| member.node;
        PartitionEntry {
            id,
            class,
            first_slot,
            last_slot,
            epoch: configuration.epoch,
            primary: configuration.primary.as_ref().map(node_of),
            members: configuration.members.iter().map(node_of).collect(),
            is_lost: configuration.is_lost,
        }
    });
    ClusterMap::new(version, nodes.collect(), entries.collect())
}

impl ClusterState {
    /// The map of clients: the nodes, and who holds which partitions. There is none before there is a node.
    pub fn cluster_map(&self) -> Option<ClusterMap> {
        match cluster_map_of(self.version, self.nodes.values(), self.partitions()) {
            Ok(map) => Some(map),
            Err(MapError::NodeCount { .. } | MapError::NoEpoch) => None,
            Err(error) => panic!("a state makes a map that is consistent: {error}"),
        }
    }

    /// What is different from what it was in `version`; everything, for 0. `None` if this state has not come so far.
    pub fn changes_since(&self, version: u64) -> Option<Changes<'_>> {
        if version > self.version {
            return None;
        }
        let gone = if version == 0 { None } else { self.history.since(version) };
        let is_whole = gone.is_none();
        let since = if is_whole { 0 } else { version };
        let (mut forgotten, mut expired) = (Vec::new(), Vec::new());
        for gone in gone.into_iter().flatten() {
            match gone {
                // A node may have come again.
                Gone::Node(node) if self.nodes.contains_key(&node) => {}
                Gone::Node(node) => forgotten.push(node),
                Gone::Client(client) => expired.push(client),
            }
        }
        let nodes = self.nodes.values().filter(|node| node.changed_at > since).collect();
        let is_changed = |(_, partition): &(_, &Partition)| partition.changed_at > since;
        let partitions: Vec<_> = self.partitions().filter(is_changed).collect();
        let catalog = (self.catalog_changed_at > since).then_some(&self.catalog);
        let is_told = |class: TableClass| {
            catalog.is_some() || partitions.iter().any(|(_, partition)| partition.class == class)
        };
        let placed = self.classes.iter().filter_map(|(class, run)| Some((*class, (*run)?)));
        let classes = placed.filter(|(class, _)| is_told(*class)).collect();
        let clients = if is_whole { self.clients.keys().copied().collect() } else { Vec::new() };
        let last_client = ClientId(self.last_client);
        let version = self.version;
        Some(Changes {
            version,
            is_whole,
            nodes,
            forgotten,
            partitions,
            catalog,
            classes,
            expired,
            clients,
            last_client,
        })
    }
}
