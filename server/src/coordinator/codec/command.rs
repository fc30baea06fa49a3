//! Commands as bytes.

use weft_protocol::{Configuration, Member, PartitionId};
use weft_transport::{Incarnation, NodeId};

use super::fields::{
    AlterationMessage, ClassMessage, ConfigurationMessage, DescriptionMessage, MemberMessage,
    OptionsMessage, TimingMessage, Wide, member,
};
use super::worker::{ExpireWorkerMessage, RegisterWorkerMessage};
use super::{CodecError, narrow, required};
use crate::coordinator::command::{
    ClientId, ClusterId, Command, Found, Join, Proposal, ProposalId,
};
use crate::coordinator::worker::WorkerId;
use crate::limits::{PARTITIONS_PER_CLASS_MAX, RENEWALS_MAX, REPLICAS_HELD_MAX};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EntryMessage {
    #[prost(uint32, tag = "1")]
    pub(super) format: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) proposals: Vec<ProposalMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProposalMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<Wide>,
    #[prost(
        oneof = "CommandOf",
        tags = "16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40"
    )]
    command: Option<CommandOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum CommandOf {
    #[prost(message, tag = "16")]
    Found(FoundMessage),
    #[prost(message, tag = "17")]
    Join(JoinMessage),
    #[prost(uint64, tag = "18")]
    Leave(u64),
    #[prost(uint64, tag = "19")]
    Stay(u64),
    #[prost(message, tag = "20")]
    Forget(MemberMessage),
    #[prost(message, tag = "21")]
    MarkDown(MemberMessage),
    #[prost(message, tag = "22")]
    MarkUp(MemberMessage),
    #[prost(message, tag = "23")]
    Settle(MemberMessage),
    #[prost(message, tag = "24")]
    Place(PlaceMessage),
    #[prost(message, tag = "25")]
    Reconfigure(ReconfigureMessage),
    #[prost(message, tag = "26")]
    AddLearner(ReplicaMessage),
    #[prost(message, tag = "27")]
    PromoteLearner(ReplicaMessage),
    #[prost(message, tag = "28")]
    RemoveMember(ReplicaMessage),
    #[prost(message, tag = "29")]
    DeclareLost(ReplicaMessage),
    #[prost(message, tag = "30")]
    AcceptLoss(AcceptLossMessage),
    #[prost(message, tag = "31")]
    CreateTable(CreateTableMessage),
    #[prost(string, tag = "32")]
    DropTable(String),
    #[prost(message, tag = "33")]
    AlterTable(AlterTableMessage),
    #[prost(message, tag = "34")]
    OpenClient(OpenClientMessage),
    #[prost(message, tag = "35")]
    RenewClients(RenewClientsMessage),
    #[prost(message, tag = "36")]
    ExpireClient(ExpireClientMessage),
    #[prost(message, tag = "37")]
    RegisterWorker(RegisterWorkerMessage),
    #[prost(uint64, tag = "38")]
    RenewWorker(u64),
    #[prost(uint64, tag = "39")]
    UnregisterWorker(u64),
    #[prost(message, tag = "40")]
    ExpireWorker(ExpireWorkerMessage),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct FoundMessage {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(message, optional, tag = "2")]
    default_table: Option<OptionsMessage>,
    #[prost(uint32, tag = "3")]
    partitions_per_class: u32,
    #[prost(uint32, tag = "4")]
    wire_version: u32,
    #[prost(message, optional, tag = "5")]
    timing: Option<TimingMessage>,
    #[prost(bool, tag = "6")]
    is_kept: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct JoinMessage {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(uint64, tag = "2")]
    node: u64,
    #[prost(uint64, optional, tag = "3")]
    last_incarnation: Option<u64>,
    #[prost(uint32, repeated, tag = "4")]
    complete: Vec<u32>,
    #[prost(uint32, tag = "5")]
    wire_version: u32,
    #[prost(message, optional, tag = "6")]
    description: Option<DescriptionMessage>,
    #[prost(uint64, tag = "7")]
    incarnation: u64,
}

/// The nodes once, and of each partition how many members it has and where in the nodes they are: a large class would repeat each node thousands of
/// times.
#[derive(Clone, PartialEq, prost::Message)]
struct PlaceMessage {
    #[prost(message, optional, tag = "1")]
    class: Option<ClassMessage>,
    #[prost(message, repeated, tag = "2")]
    nodes: Vec<MemberMessage>,
    #[prost(uint32, repeated, tag = "3")]
    counts: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    positions: Vec<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ReconfigureMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(uint32, tag = "2")]
    expected_epoch: u32,
    #[prost(message, optional, tag = "3")]
    next: Option<ConfigurationMessage>,
}

/// A partition in an epoch, and what it is about.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ReplicaMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(uint32, tag = "2")]
    expected_epoch: u32,
    #[prost(message, optional, tag = "3")]
    member: Option<MemberMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AcceptLossMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(uint32, tag = "2")]
    expected_epoch: u32,
    #[prost(message, repeated, tag = "3")]
    members: Vec<MemberMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CreateTableMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    options: Option<OptionsMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AlterTableMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    change: Option<AlterationMessage>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct OpenClientMessage {}

#[derive(Clone, PartialEq, prost::Message)]
struct RenewClientsMessage {
    #[prost(uint64, repeated, tag = "1")]
    clients: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ExpireClientMessage {
    #[prost(uint64, tag = "1")]
    client: u64,
    #[prost(uint64, tag = "2")]
    renewals: u64,
}

impl From<&Proposal> for ProposalMessage {
    fn from(proposal: &Proposal) -> Self {
        let id = (proposal.id != ProposalId::NONE).then(|| proposal.id.0.into());
        Self { id, command: Some((&proposal.command).into()) }
    }
}

impl TryFrom<ProposalMessage> for Proposal {
    type Error = CodecError;

    fn try_from(message: ProposalMessage) -> Result<Self, CodecError> {
        let id = message.id.map_or(ProposalId::NONE, |id| ProposalId(id.into()));
        let command = message.command.ok_or(CodecError::UnknownCommand)?;
        Ok(Self { id, command: command.try_into()? })
    }
}

impl From<&Command> for CommandOf {
    fn from(command: &Command) -> Self {
        match command {
            Command::Found(found) => Self::Found(FoundMessage {
                cluster: Some(found.cluster.0.into()),
                default_table: Some(found.default_table.into()),
                partitions_per_class: u32::from(found.partitions_per_class),
                wire_version: u32::from(found.wire_version),
                timing: Some(found.timing.into()),
                is_kept: found.is_kept,
            }),
            Command::Join(join) => Self::Join(JoinMessage {
                cluster: join.cluster.map(|cluster| cluster.0.into()),
                node: join.node.0,
                incarnation: join.incarnation.0,
                last_incarnation: join.last_incarnation.map(|last| last.0),
                complete: join.complete.iter().map(|id| u32::from(id.0)).collect(),
                wire_version: u32::from(join.wire_version),
                description: Some((&join.description).into()),
            }),
            Command::Leave { node } => Self::Leave(node.0),
            Command::Stay { node } => Self::Stay(node.0),
            Command::Forget { member } => Self::Forget((*member).into()),
            Command::MarkDown { member } => Self::MarkDown((*member).into()),
            Command::MarkUp { member } => Self::MarkUp((*member).into()),
            Command::Settle { member } => Self::Settle((*member).into()),
            Command::Place { class, partitions } => {
                Self::Place(place_message((*class).into(), partitions))
            }
            Command::Reconfigure { partition, expected_epoch, next } => {
                Self::Reconfigure(ReconfigureMessage {
                    partition: u32::from(partition.0),
                    expected_epoch: *expected_epoch,
                    next: Some(next.into()),
                })
            }
            Command::AddLearner { partition, expected_epoch, learner } => {
                Self::AddLearner(replica(*partition, *expected_epoch, Some(*learner)))
            }
            Command::PromoteLearner { partition, expected_epoch, learner } => {
                Self::PromoteLearner(replica(*partition, *expected_epoch, Some(*learner)))
            }
            Command::RemoveMember { partition, expected_epoch, member } => {
                Self::RemoveMember(replica(*partition, *expected_epoch, Some(*member)))
            }
            Command::DeclareLost { partition, expected_epoch } => {
                Self::DeclareLost(replica(*partition, *expected_epoch, None))
            }
            Command::AcceptLoss { partition, expected_epoch, members } => {
                Self::AcceptLoss(AcceptLossMessage {
                    partition: u32::from(partition.0),
                    expected_epoch: *expected_epoch,
                    members: members.iter().copied().map(Into::into).collect(),
                })
            }
            Command::CreateTable { name, options } => Self::CreateTable(CreateTableMessage {
                name: name.clone(),
                options: Some((*options).into()),
            }),
            Command::DropTable { name } => Self::DropTable(name.clone()),
            Command::AlterTable { name, change } => Self::AlterTable(AlterTableMessage {
                name: name.clone(),
                change: Some((*change).into()),
            }),
            Command::OpenClient => Self::OpenClient(OpenClientMessage {}),
            Command::RenewClients { clients } => Self::RenewClients(RenewClientsMessage {
                clients: clients.iter().map(|client| client.0).collect(),
            }),
            Command::ExpireClient { client, renewals } => {
                Self::ExpireClient(ExpireClientMessage { client: client.0, renewals: *renewals })
            }
            Command::RegisterWorker { former, description } => {
                Self::RegisterWorker(RegisterWorkerMessage {
                    description: Some(description.into()),
                    former: former.map(|worker| worker.0),
                })
            }
            Command::RenewWorker { worker } => Self::RenewWorker(worker.0),
            Command::UnregisterWorker { worker } => Self::UnregisterWorker(worker.0),
            Command::ExpireWorker { worker, renewal } => {
                Self::ExpireWorker(ExpireWorkerMessage { worker: worker.0, renewal: *renewal })
            }
        }
    }
}

impl TryFrom<CommandOf> for Command {
    type Error = CodecError;

    fn try_from(command: CommandOf) -> Result<Self, CodecError> {
        Ok(match command {
            CommandOf::Found(found) => Self::Found(Found {
                cluster: ClusterId(required(found.cluster, "cluster")?.into()),
                default_table: required(found.default_table, "default_table")?.try_into()?,
                partitions_per_class: narrow(found.partitions_per_class, "partitions_per_class")?,
                wire_version: narrow(found.wire_version, "wire_version")?,
                timing: required(found.timing, "timing")?.try_into()?,
                is_kept: found.is_kept,
            }),
            CommandOf::Join(join) => Self::Join(join.try_into()?),
            CommandOf::Leave(node) => Self::Leave { node: NodeId(node) },
            CommandOf::Stay(node) => Self::Stay { node: NodeId(node) },
            CommandOf::Forget(member) => Self::Forget { member: member.into() },
            CommandOf::MarkDown(member) => Self::MarkDown { member: member.into() },
            CommandOf::MarkUp(member) => Self::MarkUp { member: member.into() },
            CommandOf::Settle(member) => Self::Settle { member: member.into() },
            CommandOf::Place(place) => place.try_into()?,
            CommandOf::Reconfigure(message) => Self::Reconfigure {
                partition: partition(message.partition)?,
                expected_epoch: message.expected_epoch,
                next: Configuration::try_from(required(message.next, "next")?)?,
            },
            CommandOf::AddLearner(message) => {
                let (partition, expected_epoch, learner) = message.parts()?;
                Self::AddLearner { partition, expected_epoch, learner }
            }
            CommandOf::PromoteLearner(message) => {
                let (partition, expected_epoch, learner) = message.parts()?;
                Self::PromoteLearner { partition, expected_epoch, learner }
            }
            CommandOf::RemoveMember(message) => {
                let (partition, expected_epoch, member) = message.parts()?;
                Self::RemoveMember { partition, expected_epoch, member }
            }
            CommandOf::DeclareLost(message) => Self::DeclareLost {
                partition: partition(message.partition)?,
                expected_epoch: message.expected_epoch,
            },
            CommandOf::AcceptLoss(message) => {
                if message.members.len() > REPLICAS_HELD_MAX {
                    return Err(CodecError::ListTooLong { field: "members" });
                }
                Self::AcceptLoss {
                    partition: partition(message.partition)?,
                    expected_epoch: message.expected_epoch,
                    members: message.members.into_iter().map(Into::into).collect(),
                }
            }
            CommandOf::CreateTable(message) => Self::CreateTable {
                name: message.name,
                options: required(message.options, "options")?.try_into()?,
            },
            CommandOf::DropTable(name) => Self::DropTable { name },
            CommandOf::AlterTable(message) => Self::AlterTable {
                name: message.name,
                change: required(message.change, "change")?.try_into()?,
            },
            CommandOf::OpenClient(OpenClientMessage {}) => Self::OpenClient,
            CommandOf::RenewClients(message) => {
                if message.clients.len() > RENEWALS_MAX {
                    return Err(CodecError::ListTooLong { field: "clients" });
                }
                Self::RenewClients { clients: message.clients.into_iter().map(ClientId).collect() }
            }
            CommandOf::ExpireClient(message) => {
                Self::ExpireClient { client: ClientId(message.client), renewals: message.renewals }
            }
            CommandOf::RegisterWorker(message) => Self::RegisterWorker {
                former: message.former.map(WorkerId),
                description: required(message.description, "description")?.try_into()?,
            },
            CommandOf::RenewWorker(worker) => Self::RenewWorker { worker: WorkerId(worker) },
            CommandOf::UnregisterWorker(worker) => {
                Self::UnregisterWorker { worker: WorkerId(worker) }
            }
            CommandOf::ExpireWorker(message) => {
                Self::ExpireWorker { worker: WorkerId(message.worker), renewal: message.renewal }
            }
        })
    }
}

impl TryFrom<JoinMessage> for Join {
    type Error = CodecError;

    fn try_from(join: JoinMessage) -> Result<Self, CodecError> {
        if join.complete.len() > 1 << 16 {
            return Err(CodecError::ListTooLong { field: "complete" });
        }
        Ok(Self {
            cluster: join.cluster.map(|cluster| ClusterId(cluster.into())),
            node: NodeId(join.node),
            incarnation: Incarnation(join.incarnation),
            last_incarnation: join.last_incarnation.map(Incarnation),
            complete: join.complete.into_iter().map(partition).collect::<Result<_, _>>()?,
            wire_version: narrow(join.wire_version, "wire_version")?,
            description: required(join.description, "description")?.into(),
        })
    }
}

fn place_message(class: ClassMessage, partitions: &[Vec<Member>]) -> PlaceMessage {
    let mut nodes: Vec<Member> = partitions.iter().flatten().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let position = |member: &Member| nodes.partition_point(|other| other < member) as u32;
    PlaceMessage {
        class: Some(class),
        counts: partitions.iter().map(|members| members.len() as u32).collect(),
        positions: partitions.iter().flatten().map(position).collect(),
        nodes: nodes.into_iter().map(Into::into).collect(),
    }
}

impl TryFrom<PlaceMessage> for Command {
    type Error = CodecError;

    fn try_from(message: PlaceMessage) -> Result<Self, CodecError> {
        let PlaceMessage { class, nodes, counts, positions } = message;
        if counts.len() > usize::from(PARTITIONS_PER_CLASS_MAX) {
            return Err(CodecError::ListTooLong { field: "counts" });
        }
        let refused = CodecError::Field { field: "positions" };
        let mut rest = positions.as_slice();
        let mut partitions = Vec::with_capacity(counts.len());
        for count in counts {
            let split = rest.split_at_checked(count as usize).ok_or_else(|| refused.clone())?;
            rest = split.1;
            if split.0.len() > REPLICAS_HELD_MAX {
                return Err(CodecError::ListTooLong { field: "members" });
            }
            let member = |position: &u32| {
                let node = nodes.get(*position as usize).ok_or_else(|| refused.clone())?;
                Ok(Member::from(*node))
            };
            partitions.push(split.0.iter().map(member).collect::<Result<_, CodecError>>()?);
        }
        if !rest.is_empty() {
            return Err(refused);
        }
        Ok(Self::Place { class: required(class, "class")?.try_into()?, partitions })
    }
}

fn replica(partition: PartitionId, expected_epoch: u32, member: Option<Member>) -> ReplicaMessage {
    ReplicaMessage {
        partition: u32::from(partition.0),
        expected_epoch,
        member: member.map(Into::into),
    }
}

impl ReplicaMessage {
    fn parts(self) -> Result<(PartitionId, u32, Member), CodecError> {
        let member = member(self.member, "member")?;
        Ok((partition(self.partition)?, self.expected_epoch, member))
    }
}

pub(super) fn partition(number: u32) -> Result<PartitionId, CodecError> {
    narrow(number, "partition").map(PartitionId)
}
