//! What nodes and coordinators tell each other without being asked.

use weft_protocol::{Catalog, Member, PartitionId, TableClass};
use weft_transport::NodeId;

use super::changes::Changes;
use super::class::PartitionRun;
use super::command::{ClientId, ClusterId};
use super::node::Node;
use super::partition::Partition;
use crate::handler::Told;

/// A notice, in which cluster whatever it is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// From one coordinator to another: for [`RaftNode::step`](super::raft::RaftNode::step), which looks at the cluster itself.
    Raft(Vec<u8>),
    /// From a node to every coordinator, every [heartbeat](super::Timing::heartbeat).
    Heartbeat(Heartbeat),
    /// From the leader to a node that knows less than is committed, and from any coordinator to the node that it runs on.
    Update(Box<Update>),
}

/// A node is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The cluster that it is of.
    pub cluster: ClusterId,
    /// The node, in its present life.
    pub member: Member,
    /// Up to which version it knows the state.
    pub known_version: u64,
    /// What is to be acted on.
    pub told: Vec<Told>,
    /// A log of its objects takes nothing any more, until it is started again.
    pub has_failed: bool,
    /// The partitions of which it is the primary, as far as it knows, and that it does not serve, or not yet.
    pub unserved: Vec<PartitionId>,
}

/// What was committed since a version: [`Changes`] that were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The cluster.
    pub cluster: ClusterId,
    /// What the receiver had to know for this to be of use; 0 if this is whole.
    pub since: u64,
    /// The version that it knows then.
    pub version: u64,
    /// The nodes that are new or other than they were.
    pub nodes: Vec<Node>,
    /// The nodes that are gone.
    pub forgotten: Vec<NodeId>,
    /// The partitions that are new or other than they were.
    pub partitions: Vec<(PartitionId, Partition)>,
    /// The tables, if there were others.
    pub catalog: Option<Catalog>,
    /// The partitions of classes.
    pub classes: Vec<(TableClass, PartitionRun)>,
    /// The clients whose leases have run out.
    pub expired: Vec<ClientId>,
    /// If this is whole, the clients that have leases.
    pub clients: Vec<ClientId>,
    /// The last number given out to a client.
    pub last_client: ClientId,
}

impl Update {
    /// What has changed, for who knows the state as it was in `since`.
    pub fn of(cluster: ClusterId, since: u64, changes: &Changes<'_>) -> Self {
        let Changes { version, is_whole, .. } = *changes;
        let partition = |(id, partition): &(PartitionId, &Partition)| (*id, (*partition).clone());
        Self {
            cluster,
            since: if is_whole { 0 } else { since },
            version,
            nodes: changes.nodes.iter().copied().cloned().collect(),
            forgotten: changes.forgotten.clone(),
            partitions: changes.partitions.iter().map(partition).collect(),
            catalog: changes.catalog.cloned(),
            classes: changes.classes.clone(),
            expired: changes.expired.clone(),
            clients: changes.clients.clone(),
            last_client: changes.last_client,
        }
    }

    /// Whether it is all that there is, and what is not in it does not exist.
    pub const fn is_whole(&self) -> bool {
        self.since == 0
    }
}
