//! What nodes and coordinators tell each other, as bytes.

use weft_protocol::limits::NODES_MAX;
use weft_transport::NodeId;

use super::command::partition;
use super::fields::{ClassMessage, MemberMessage, Wide, member};
use super::snapshot::{CatalogMessage, NodeMessage, PartitionMessage, run};
use super::{CodecError, narrow, required};
use crate::coordinator::command::{ClientId, ClusterId};
use crate::coordinator::notice::{Heartbeat, Notice, Update};
use crate::handler::{Report, Told};
use crate::limits::{CLIENTS_MAX, HISTORY_MAX, REPORTS_MAX};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NoticeMessage {
    #[prost(oneof = "NoticeOf", tags = "1, 2, 3")]
    notice: Option<NoticeOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum NoticeOf {
    #[prost(bytes = "vec", tag = "1")]
    Raft(Vec<u8>),
    #[prost(message, tag = "2")]
    Heartbeat(HeartbeatMessage),
    #[prost(message, tag = "3")]
    Update(UpdateMessage),
}

#[derive(Clone, PartialEq, prost::Message)]
struct HeartbeatMessage {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(message, optional, tag = "2")]
    member: Option<MemberMessage>,
    #[prost(uint64, tag = "3")]
    known_version: u64,
    #[prost(message, repeated, tag = "4")]
    told: Vec<ToldMessage>,
    #[prost(bool, tag = "5")]
    has_failed: bool,
    #[prost(uint32, repeated, tag = "6")]
    unserved: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ToldMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(message, optional, tag = "2")]
    member: Option<MemberMessage>,
    #[prost(enumeration = "ReportNumber", tag = "3")]
    report: i32,
    #[prost(uint32, tag = "4")]
    epoch: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum ReportNumber {
    Unreachable = 0,
    CaughtUp = 1,
    GivenUp = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UpdateMessage {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(uint64, tag = "2")]
    since: u64,
    #[prost(uint64, tag = "3")]
    version: u64,
    #[prost(message, repeated, tag = "4")]
    nodes: Vec<NodeMessage>,
    #[prost(uint64, repeated, tag = "5")]
    forgotten: Vec<u64>,
    #[prost(message, repeated, tag = "6")]
    partitions: Vec<NumberedMessage>,
    #[prost(message, optional, tag = "7")]
    catalog: Option<CatalogMessage>,
    #[prost(message, repeated, tag = "8")]
    classes: Vec<RunMessage>,
    #[prost(uint64, repeated, tag = "9")]
    expired: Vec<u64>,
    #[prost(uint64, repeated, tag = "10")]
    clients: Vec<u64>,
    #[prost(uint64, tag = "11")]
    last_client: u64,
}

/// A partition, which is not among all others here.
#[derive(Clone, PartialEq, prost::Message)]
struct NumberedMessage {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(message, optional, tag = "2")]
    class: Option<ClassMessage>,
    #[prost(message, optional, tag = "3")]
    partition: Option<PartitionMessage>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct RunMessage {
    #[prost(message, optional, tag = "1")]
    class: Option<ClassMessage>,
    #[prost(uint32, tag = "2")]
    first: u32,
    #[prost(uint32, tag = "3")]
    count: u32,
}

impl From<&Notice> for NoticeMessage {
    fn from(notice: &Notice) -> Self {
        let notice = match notice {
            Notice::Raft(bytes) => NoticeOf::Raft(bytes.clone()),
            Notice::Heartbeat(heartbeat) => NoticeOf::Heartbeat(heartbeat.into()),
            Notice::Update(update) => NoticeOf::Update((&**update).into()),
        };
        Self { notice: Some(notice) }
    }
}

impl TryFrom<NoticeMessage> for Notice {
    type Error = CodecError;

    fn try_from(message: NoticeMessage) -> Result<Self, CodecError> {
        Ok(match required(message.notice, "notice")? {
            NoticeOf::Raft(bytes) => Self::Raft(bytes),
            NoticeOf::Heartbeat(heartbeat) => Self::Heartbeat(heartbeat.try_into()?),
            NoticeOf::Update(update) => Self::Update(Box::new(update.try_into()?)),
        })
    }
}

impl From<&Heartbeat> for HeartbeatMessage {
    fn from(heartbeat: &Heartbeat) -> Self {
        Self {
            cluster: Some(heartbeat.cluster.0.into()),
            member: Some(heartbeat.member.into()),
            known_version: heartbeat.known_version,
            told: heartbeat.told.iter().map(Into::into).collect(),
            has_failed: heartbeat.has_failed,
            unserved: heartbeat.unserved.iter().map(|id| u32::from(id.0)).collect(),
        }
    }
}

impl TryFrom<HeartbeatMessage> for Heartbeat {
    type Error = CodecError;

    fn try_from(message: HeartbeatMessage) -> Result<Self, CodecError> {
        let HeartbeatMessage { cluster, member: from, known_version, told, .. } = message;
        check_count("told", told.len(), REPORTS_MAX)?;
        check_count("unserved", message.unserved.len(), usize::from(u16::MAX) + 1)?;
        Ok(Self {
            cluster: ClusterId(required(cluster, "cluster")?.into()),
            member: member(from, "member")?,
            known_version,
            told: told.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            has_failed: message.has_failed,
            unserved: message.unserved.into_iter().map(partition).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&Told> for ToldMessage {
    fn from(told: &Told) -> Self {
        let mut message = Self {
            partition: u32::from(told.partition.0),
            member: Some(told.member.into()),
            report: 0,
            epoch: told.epoch,
        };
        message.set_report(match told.report {
            Report::Unreachable => ReportNumber::Unreachable,
            Report::CaughtUp => ReportNumber::CaughtUp,
            Report::GivenUp => ReportNumber::GivenUp,
        });
        message
    }
}

impl TryFrom<ToldMessage> for Told {
    type Error = CodecError;

    fn try_from(message: ToldMessage) -> Result<Self, CodecError> {
        let report = match ReportNumber::try_from(message.report) {
            Ok(ReportNumber::Unreachable) => Report::Unreachable,
            Ok(ReportNumber::CaughtUp) => Report::CaughtUp,
            Ok(ReportNumber::GivenUp) => Report::GivenUp,
            Err(_) => return Err(CodecError::Field { field: "report" }),
        };
        let (partition, epoch) = (partition(message.partition)?, message.epoch);
        Ok(Self { partition, member: member(message.member, "member")?, report, epoch })
    }
}

impl From<&Update> for UpdateMessage {
    fn from(update: &Update) -> Self {
        let numbers = |clients: &[ClientId]| clients.iter().map(|client| client.0).collect();
        let catalog = update.catalog.as_ref();
        Self {
            cluster: Some(update.cluster.0.into()),
            since: update.since,
            version: update.version,
            nodes: update.nodes.iter().map(Into::into).collect(),
            forgotten: update.forgotten.iter().map(|node| node.0).collect(),
            partitions: update
                .partitions
                .iter()
                .map(|(id, partition)| NumberedMessage {
                    id: u32::from(id.0),
                    class: Some(partition.class.into()),
                    partition: Some(partition.into()),
                })
                .collect(),
            // In which version it changed is the state's to know.
            catalog: catalog.map(|catalog| CatalogMessage::of(catalog, 0)),
            classes: update
                .classes
                .iter()
                .map(|(class, run)| RunMessage {
                    class: Some((*class).into()),
                    first: u32::from(run.first.0),
                    count: u32::from(run.count),
                })
                .collect(),
            expired: numbers(&update.expired),
            clients: numbers(&update.clients),
            last_client: update.last_client.0,
        }
    }
}

impl TryFrom<UpdateMessage> for Update {
    type Error = CodecError;

    fn try_from(message: UpdateMessage) -> Result<Self, CodecError> {
        for (field, count, limit) in [
            ("nodes", message.nodes.len(), NODES_MAX),
            ("forgotten", message.forgotten.len(), HISTORY_MAX),
            ("partitions", message.partitions.len(), 1 << 16),
            ("classes", message.classes.len(), 1 << 8),
            ("expired", message.expired.len(), HISTORY_MAX),
            ("clients", message.clients.len(), CLIENTS_MAX),
        ] {
            check_count(field, count, limit)?;
        }
        if message.since >= message.version {
            return Err(CodecError::Field { field: "version" });
        }
        let numbered = |message: NumberedMessage| {
            let class = required(message.class, "class")?.try_into()?;
            let held = required(message.partition, "partition")?.of_class(class)?;
            Ok((partition(message.id)?, held))
        };
        let placed = |RunMessage { class, first, count }: RunMessage| {
            Ok((required(class, "class")?.try_into()?, run(first, narrow(count, "count")?)?))
        };
        let clients = |numbers: Vec<u64>| numbers.into_iter().map(ClientId).collect();
        Ok(Self {
            cluster: ClusterId(required(message.cluster, "cluster")?.into()),
            since: message.since,
            version: message.version,
            nodes: message.nodes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            forgotten: message.forgotten.into_iter().map(NodeId).collect(),
            partitions: collected(message.partitions, numbered)?,
            catalog: message.catalog.map(TryInto::try_into).transpose()?,
            classes: collected(message.classes, placed)?,
            expired: clients(message.expired),
            clients: clients(message.clients),
            last_client: ClientId(message.last_client),
        })
    }
}

fn collected<M, T>(
    messages: Vec<M>,
    read: impl Fn(M) -> Result<T, CodecError>,
) -> Result<Vec<T>, CodecError> {
    messages.into_iter().map(read).collect()
}

fn check_count(field: &'static str, count: usize, limit: usize) -> Result<(), CodecError> {
    if count > limit { Err(CodecError::ListTooLong { field }) } else { Ok(()) }
}
