//! The state that all coordinators hold alike.

use std::collections::BTreeMap;

use weft_protocol::{Catalog, Durability, Member, PartitionId, TableClass, TableId, TableOptions};
use weft_transport::NodeId;

use super::class::PartitionRun;
use super::command::{ClientId, ClusterId};
use super::history::History;
use super::node::Node;
use super::partition::Partition;
use super::proposals::Proposals;
use super::rejection::Rejection;
use super::timing::Timing;
use super::worker::{Worker, WorkerId};

/// Everything that the cluster agrees about. Two that were given the same proposals in the same order are equal.
///
/// What holds after each proposal:
///
/// - a member or learner of a partition is a node of the cluster in its present life;
/// - the nodes of a partition's members and learners are all different, and the primary is one of the members;
/// - a partition has a member, or is lost;
/// - an epoch rises by one, and with it everything that changed of the partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    pub(super) cluster: Option<ClusterId>,
    pub(super) version: u64,
    pub(super) wire_version: u16,
    pub(super) partitions_per_class: u16,
    pub(super) timing: Timing,
    pub(super) is_kept: bool,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// The partitions of a class, once they were placed.
    pub(super) classes: BTreeMap<TableClass, Option<PartitionRun>>,
    /// By number.
    pub(super) partitions: Vec<Partition>,
    pub(super) catalog: Catalog,
    pub(super) catalog_changed_at: u64,
    pub(super) last_client: u64,
    /// How often each lease was renewed.
    pub(super) clients: BTreeMap<ClientId, u64>,
    pub(super) last_worker: u64,
    /// How often a worker was registered or renewed its registration.
    pub(super) last_renewal: u64,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) history: History,
    pub(super) proposals: Proposals,
}

impl ClusterState {
    /// Which cluster this is, once it was founded.
    pub const fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// How often something was changed that nodes or clients have to learn: the map's epoch.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The nodes, by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.values()
    }

    /// The node of this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Whether the node is in this life of it.
    pub fn is_current(&self, member: Member) -> bool {
        self.node(member.node).is_some_and(|node| node.incarnation == member.incarnation)
    }

    /// The classes of tables, each with its partitions once they were placed.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = (TableClass, Option<PartitionRun>)> {
        self.classes.iter().map(|(class, run)| (*class, *run))
    }

    /// Into how many partitions each class is divided.
    pub const fn partitions_per_class(&self) -> u16 {
        self.partitions_per_class
    }

    /// The time that nodes keep.
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    /// All partitions, by number.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = (PartitionId, &Partition)> {
        let numbered = self.partitions.iter().enumerate();
        numbered.map(|(index, partition)| (PartitionId(index as u16), partition))
    }

    /// The partition of this number.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(usize::from(id.0))
    }

    /// The tables.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What the table is like.
    pub fn table_options(&self, id: TableId) -> Option<TableOptions> {
        match id {
            TableId::DEFAULT => Some(self.catalog.default_options()),
            id => self.catalog.table(id).map(|table| table.options),
        }
    }

    /// The clients that have leases, each with how often its lease was renewed.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = (ClientId, u64)> {
        self.clients.iter().map(|(client, renewals)| (*client, *renewals))
    }

    /// The workers that are registered, in the order in which they registered.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = (WorkerId, &Worker)> {
        self.workers.iter().map(|(worker, known)| (*worker, known))
    }

    /// How many nodes may be given partitions: those that are down are among them.
    pub fn holder_count(&self) -> usize {
        self.holder_count_of(Durability::Memory)
    }

    /// The same of nodes for partitions of such tables.
    pub fn holder_count_of(&self, durability: Durability) -> usize {
        self.nodes.values().filter(|node| node.can_hold(durability)).count()
    }

    /// Whether there is a table of the class: else its partitions, if it has any, are those of tables that were dropped.
    pub fn is_used(&self, class: TableClass) -> bool {
        let mut tables = self.catalog.tables().iter().map(|table| table.options.class());
        self.catalog.default_options().class() == class || tables.any(|of| of == class)
    }

    /// Of how many members a partition of the class is to be, with so many [holders](Self::holder_count).
    pub fn replicas_wanted(class: TableClass, holder_count: usize) -> usize {
        usize::from(class.replicas).min(holder_count)
    }

    /// With how many members in sync a partition of the class takes writes: as many as its class asks for, if there are as many
    /// [holders](Self::holder_count). A new one begins so.
    pub(super) fn min_in_sync_possible(class: TableClass, holder_count: usize) -> u8 {
        let wanted = Self::replicas_wanted(class, holder_count).max(1);
        // At most 3.
        class.min_in_sync().min(wanted as u8)
    }

    /// `present` for a partition that has so many members: once it had as many as its class asks for, fewer do no more.
    pub(super) fn min_in_sync_raised(
        present: u8,
        class: TableClass,
        member_count: usize,
        holder_count: usize,
    ) -> u8 {
        let possible = Self::min_in_sync_possible(class, holder_count);
        if member_count >= usize::from(possible) { present.max(possible) } else { present }
    }

    /// The node, if it is in the life that is meant.
    pub(super) fn current(&self, member: Member) -> Result<&Node, Rejection> {
        let node = self.known(member.node)?;
        if node.incarnation == member.incarnation {
            return Ok(node);
        }
        Err(Rejection::Superseded { node: node.id, current: node.incarnation })
    }

    pub(super) fn known(&self, id: NodeId) -> Result<&Node, Rejection> {
        self.node(id).ok_or(Rejection::NodeUnknown { node: id })
    }

    pub(super) fn existing(&self, partition: PartitionId) -> Result<&Partition, Rejection> {
        self.partition(partition).ok_or(Rejection::PartitionUnknown { partition })
    }

    pub(super) fn founded(&self) -> Result<ClusterId, Rejection> {
        self.cluster.ok_or(Rejection::NotFounded)
    }

    /// Begins the next version, in which something is changed.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}
