//! What can be proposed, and what comes of it.

use weft_protocol::{
    Configuration, Member, PartitionId, TableAlteration, TableClass, TableId, TableOptions,
};
use weft_transport::{Incarnation, NodeId};

use super::node::NodeDescription;
pub use super::raft::{ClusterId, ProposalId};
use super::rejection::Rejection;
use super::timing::Timing;
use super::worker::{WorkerDescription, WorkerId};

/// A client with a lease, whose mutations have an effect exactly once. From 1 on, and never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ProposalId {
    /// Of a proposal that need not be remembered, since it says what it goes by: repeated, it is refused. All that a
    /// [`Planner`](super::Planner) asks for is of that kind.
    pub const NONE: Self = Self(0);
}

/// A command and which proposal it is. What was accepted once under an id other than [`ProposalId::NONE`] is not done again, but answered alike, as
/// long as it is remembered: for [`PROPOSALS_MAX`](crate::limits::PROPOSALS_MAX) others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Which one.
    pub id: ProposalId,
    /// What is to be done.
    pub command: Command,
}

/// All that changes what the cluster agrees about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Begins the cluster. Once.
    Found(Found),
    /// A node begins a life in the cluster. It must have this life's number on its disk before it asks.
    Join(Join),
    /// A node is to be relieved of what it holds; it is forgotten when it holds nothing any more.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// A node that was to leave stays.
    Stay {
        /// The node.
        node: NodeId,
    },
    /// A node that left holds nothing any more.
    Forget {
        /// The node, in the life that is meant.
        member: Member,
    },
    /// A node is not heard.
    MarkDown {
        /// The node, in the life that is meant.
        member: Member,
    },
    /// A node is heard again.
    MarkUp {
        /// The node, in the life that is meant.
        member: Member,
    },
    /// A lease has passed since a node joined: what its earlier lives granted has run out.
    Settle {
        /// The node, in the life that is meant.
        member: Member,
    },
    /// Makes the partitions of a class.
    Place {
        /// The class, which has none.
        class: TableClass,
        /// The members of each partition, of which the first becomes primary.
        partitions: Vec<Vec<Member>>,
    },
    /// Another primary among the members, fewer members, or fewer learners.
    Reconfigure {
        /// The partition.
        partition: PartitionId,
        /// The epoch that it is in.
        expected_epoch: u32,
        /// The next configuration, of the epoch after that.
        next: Configuration,
    },
    /// A node is to be given what there is of a partition.
    AddLearner {
        /// The partition.
        partition: PartitionId,
        /// The epoch that it is in.
        expected_epoch: u32,
        /// The node.
        learner: Member,
    },
    /// A learner has all that there is, and its acknowledgement is waited for: it becomes a member.
    PromoteLearner {
        /// The partition.
        partition: PartitionId,
        /// The epoch in which that is so.
        expected_epoch: u32,
        /// The learner.
        learner: Member,
    },
    /// A member other than the primary, or a learner, is none any more.
    RemoveMember {
        /// The partition.
        partition: PartitionId,
        /// The epoch that it is in.
        expected_epoch: u32,
        /// Who goes.
        member: Member,
    },
    /// An operator gives up the members of a partition, all of which are down.
    DeclareLost {
        /// The partition.
        partition: PartitionId,
        /// The epoch that it is in.
        expected_epoch: u32,
    },
    /// An operator accepts that a partition was lost: it begins anew, empty.
    AcceptLoss {
        /// The partition.
        partition: PartitionId,
        /// The epoch that it is in.
        expected_epoch: u32,
        /// Its members, of which the first becomes primary.
        members: Vec<Member>,
    },
    /// One more table.
    CreateTable {
        /// Its name.
        name: String,
        /// What it is like.
        options: TableOptions,
    },
    /// One table less.
    DropTable {
        /// Its name.
        name: String,
    },
    /// A table is to be other than it was.
    AlterTable {
        /// Its name.
        name: String,
        /// In what.
        change: TableAlteration,
    },
    /// A client is given a lease.
    OpenClient,
    /// Clients keep their leases. Those that have none any more are named in the answer.
    RenewClients {
        /// The clients.
        clients: Vec<ClientId>,
    },
    /// A client's lease has run out, or it gives it back.
    ExpireClient {
        /// The client.
        client: ClientId,
        /// How often it had been renewed when that was found: another renewal saves it.
        renewals: u64,
    },
    /// A process is there that works for the cluster and is no node of it.
    RegisterWorker {
        /// The worker that it was until its registration ran out.
        former: Option<WorkerId>,
        /// What it says of itself.
        description: WorkerDescription,
    },
    /// It still is.
    RenewWorker {
        /// The worker.
        worker: WorkerId,
    },
    /// It leaves.
    UnregisterWorker {
        /// The worker.
        worker: WorkerId,
    },
    /// It was not heard of for too long.
    ExpireWorker {
        /// The worker.
        worker: WorkerId,
        /// Its [renewal](super::Worker::renewal) when that was found: another one saves it.
        renewal: u64,
    },
}

/// How a cluster begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// What it is called from then on.
    pub cluster: ClusterId,
    /// What the table is like that is always there, which decides its class.
    pub default_table: TableOptions,
    /// Into how many partitions each class is divided, from 1 to [`PARTITIONS_PER_CLASS_MAX`](crate::limits::PARTITIONS_PER_CLASS_MAX).
    pub partitions_per_class: u16,
    /// The version of the messages between nodes that all its nodes have to speak.
    pub wire_version: u16,
    /// How soon its nodes notice that one is gone.
    pub timing: Timing,
    /// Whether whoever founds it keeps the coordinator's log on disk. Nobody else joins where that is not so: all would be over with one process.
    pub is_kept: bool,
}

/// What a node presents to begin a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The cluster that its disk says it is of, if it says so.
    pub cluster: Option<ClusterId>,
    /// Its id, below 2^16.
    pub node: NodeId,
    /// The life that it begins: later than all that it ever had. It chooses it, since it needs one before it can talk to anybody: the unix time in
    /// milliseconds, or the number after the one on its disk if that is higher.
    pub incarnation: Incarnation,
    /// The life that its disk was of before.
    pub last_incarnation: Option<Incarnation>,
    /// The partitions of which it has, from that life, all that it ever acknowledged. They count only where the class has its data on disk.
    pub complete: Vec<PartitionId>,
    /// The newest version of the messages between nodes that it speaks.
    pub wire_version: u16,
    /// What it says of itself.
    pub description: NodeDescription,
}

/// What came of a proposal.
pub type Applied = Result<Outcome, Rejection>;

/// What an accepted command led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// What was asked for.
    Done,
    /// The node has begun a life.
    Joined {
        /// The cluster that it is of.
        cluster: ClusterId,
        /// The life, as it was presented.
        incarnation: Incarnation,
        /// The time that its nodes keep.
        timing: Timing,
    },
    /// The partition is in another epoch.
    Reconfigured {
        /// The epoch.
        epoch: u32,
    },
    /// There is one more table.
    TableCreated {
        /// Its number.
        id: TableId,
    },
    /// There is one more client.
    ClientOpened {
        /// Its id.
        client: ClientId,
    },
    /// The leases were renewed, but for those of clients that had none any more.
    Renewed {
        /// The clients whose leases have run out.
        expired: Vec<ClientId>,
    },
    /// There is one more worker.
    WorkerRegistered {
        /// Its id.
        worker: WorkerId,
    },
}
