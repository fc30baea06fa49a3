//! Why a proposal was refused.

use thiserror::Error;
use weft_protocol::limits::{ADDRESS_MAX, WORKER_BUILD_MAX, WORKERS_MAX};
use weft_protocol::{CatalogError, PartitionId};
use weft_transport::{Incarnation, NodeId};

use super::command::{ClientId, ClusterId};
use super::worker::WorkerId;
use crate::limits::{PARTITIONS_PER_CLASS_MAX, REPLICAS_HELD_MAX, ZONE_MAX};

/// Why a proposal was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The cluster was not founded yet.
    #[error("there is no cluster yet")]
    NotFounded,
    /// The cluster was founded before, under another id.
    #[error("the cluster was founded already, as {cluster}")]
    AlreadyFounded {
        /// What it is called.
        cluster: ClusterId,
    },
    /// A class cannot be divided so.
    #[error("{count} partitions are not 1 to {PARTITIONS_PER_CLASS_MAX}")]
    PartitionCount {
        /// Into how many partitions it was to be.
        count: usize,
    },
    /// The node's disk is of another cluster.
    #[error(
        "the node's data is of cluster {presented}, and this is {cluster}: give it an empty data directory"
    )]
    OtherCluster {
        /// What it presented.
        presented: ClusterId,
        /// Which cluster this is.
        cluster: ClusterId,
    },
    /// The node does not speak what the others do.
    #[error("the node speaks version {presented}, and the cluster {required}: upgrade it")]
    WireVersion {
        /// The newest version that it speaks.
        presented: u16,
        /// What all nodes have to speak.
        required: u16,
    },
    /// The one coordinator keeps nothing on disk: the cluster would be over with its process.
    #[error(
        "the cluster's node keeps nothing that would outlive its process, so others cannot join it: start it anew with --data-dir"
    )]
    NothingKept,
    /// A storage node's id has 16 bits.
    #[error("id {node} is not below 65536")]
    NodeIdRange {
        /// The id.
        node: NodeId,
    },
    /// An address is empty or too long.
    #[error("an address of the node is empty or too long")]
    AddressLength,
    /// The zone's name is too long.
    #[error("the name of the node's zone is longer than {ZONE_MAX} bytes")]
    ZoneLength,
    /// Another node of this id, or a life of it that this one knows nothing of, is up. If that is a life that has just ended, it will be down soon.
    #[error(
        "{node} is up in incarnation {incarnation}: two nodes have one id, or try again when it is down"
    )]
    NodeIsUp {
        /// The id.
        node: NodeId,
        /// The life that is up.
        incarnation: Incarnation,
    },
    /// The life that the node would begin is not later than the one that is known: its clock is behind, or this is an old message.
    #[error(
        "{node} would begin incarnation {presented}, and is known in {known}: set its clock, or start it again"
    )]
    IncarnationPast {
        /// The id.
        node: NodeId,
        /// The life that it presented.
        presented: Incarnation,
        /// The life that is known.
        known: Incarnation,
    },
    /// There are as many nodes as a cluster may have.
    #[error("the cluster has as many nodes as it may have")]
    TooManyNodes,
    /// There is no such node.
    #[error("there is no {node}")]
    NodeUnknown {
        /// The id.
        node: NodeId,
    },
    /// The node is in another life.
    #[error("{node} is in incarnation {current}")]
    Superseded {
        /// The id.
        node: NodeId,
        /// The life that it is in.
        current: Incarnation,
    },
    /// Nobody would be left to hold anything, or to hold what is to be on disk.
    #[error(
        "{node} is the last node that can hold partitions, or those of tables on disk: start another one first, with --data-dir if there are such tables"
    )]
    LastNode {
        /// The id.
        node: NodeId,
    },
    /// The node was not asked to leave.
    #[error("{node} is not leaving")]
    NotLeaving {
        /// The id.
        node: NodeId,
    },
    /// The node holds something.
    #[error("{node} still holds {partition}")]
    StillHolds {
        /// The id.
        node: NodeId,
        /// The first partition that it has to do with.
        partition: PartitionId,
    },
    /// The node may not be given partitions: it is down, leaving or has no room for any.
    #[error("{node} cannot hold a partition now")]
    NotAHolder {
        /// The id.
        node: NodeId,
    },
    /// There is no such class, or it has its partitions already.
    #[error("the class is unknown, or has its partitions already")]
    ClassPlaced,
    /// There is no such partition.
    #[error("there is no {partition}")]
    PartitionUnknown {
        /// Its number.
        partition: PartitionId,
    },
    /// The partition is in another epoch.
    #[error("the partition is in epoch {current}")]
    EpochMismatch {
        /// The epoch that it is in.
        current: u32,
    },
    /// There are no epochs any more.
    #[error("a partition concerned has been in all epochs that there are")]
    EpochsExhausted,
    /// The partition is lost.
    #[error("the partition is lost: an operator has to accept that first")]
    Lost,
    /// The partition is not lost.
    #[error("the partition is not lost")]
    NotLost,
    /// A partition's last member would go, and with it all that it holds.
    #[error("the partition's last member has to stay")]
    LastMember,
    /// Somebody would become a member without having caught up, or a learner without having been added.
    #[error("{node} is not among the members or learners that the partition had")]
    NotAMember {
        /// The id.
        node: NodeId,
    },
    /// A node would be in a configuration twice, or in two roles.
    #[error("a node is in the configuration twice")]
    Twice,
    /// A node has to do with the partition already.
    #[error("{node} is a member or a learner already")]
    AlreadyInvolved {
        /// The id.
        node: NodeId,
    },
    /// There would be too many members and learners.
    #[error("a partition has 1 to {REPLICAS_HELD_MAX} members and learners")]
    ReplicaCount,
    /// The primary would not be one of the members.
    #[error("the primary is not one of the members")]
    PrimaryNotMember,
    /// The member is the primary.
    #[error("{node} is the primary: another has to take over first")]
    IsPrimary {
        /// The id.
        node: NodeId,
    },
    /// The node may not become primary: it is down, or may have granted leases that it knows nothing of.
    #[error("{node} cannot become primary now")]
    NotReady {
        /// The id.
        node: NodeId,
    },
    /// The change would alter what only the state decides: how many have to be in sync, or whether the partition is lost.
    #[error("the change is not one of members, primary and learners alone")]
    NotAReconfiguration,
    /// A partition cannot be given up while a member is up.
    #[error("{node} is a member, and up")]
    MemberIsUp {
        /// The id.
        node: NodeId,
    },
    /// The tables do not allow it.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There are as many clients as a cluster may have.
    #[error("the cluster has as many clients as it may have")]
    TooManyClients,
    /// More clients are named than one command may name.
    #[error("more clients than one command may name")]
    TooManyRenewals,
    /// The client has no lease.
    #[error("client {} has no lease", client.0)]
    ClientUnknown {
        /// The client.
        client: ClientId,
    },
    /// The client's lease was renewed meanwhile.
    #[error("client {} has renewed its lease", client.0)]
    ClientRenewed {
        /// The client.
        client: ClientId,
    },
    /// A worker's address is empty, or one of its texts is too long.
    #[error(
        "a worker's address has 1 to {ADDRESS_MAX} bytes, and its build at most {WORKER_BUILD_MAX}"
    )]
    WorkerLength,
    /// There are as many workers as a cluster may have.
    #[error("the cluster has as many workers as it may have: {WORKERS_MAX}")]
    TooManyWorkers,
    /// The worker is not registered.
    #[error("worker {} is not registered", worker.0)]
    WorkerUnknown {
        /// The worker.
        worker: WorkerId,
    },
    /// The worker's registration was renewed meanwhile.
    #[error("worker {} has renewed its registration", worker.0)]
    WorkerRenewed {
        /// The worker.
        worker: WorkerId,
    },
}
