//! Questions to coordinators, and answers, as bytes.

use weft_protocol::control::v1::{ListTablesResponse, ListWorkersResponse, StatusResponse};
use weft_protocol::limits::ADDRESS_MAX;
use weft_transport::NodeId;

use super::command::ProposalMessage;
use super::fields::Wide;
use super::outcome::OutcomeMessage;
use super::{CodecError, required, worker};
use crate::coordinator::ask::{Answer, Ask, Denial, DenialKind, Introduction, Leader};
use crate::coordinator::command::{ClusterId, Outcome, ProposalId};
use crate::coordinator::raft::RaftId;

/// The longest reason of a denial, in bytes: ours have two hundred.
const REASON_MAX: usize = 4 << 10;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AskMessage {
    #[prost(oneof = "AskOf", tags = "1, 2, 3, 4, 5, 6")]
    ask: Option<AskOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AskOf {
    #[prost(message, tag = "1")]
    Introduce(Nothing),
    #[prost(message, tag = "2")]
    Propose(ProposalMessage),
    #[prost(message, tag = "3")]
    Admit(AdmitMessage),
    #[prost(message, tag = "4")]
    Status(Nothing),
    #[prost(message, tag = "5")]
    Tables(Nothing),
    #[prost(message, tag = "6")]
    Workers(Nothing),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Nothing {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct AdmitMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<Wide>,
    #[prost(uint64, tag = "2")]
    node: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnswerMessage {
    #[prost(oneof = "AnswerOf", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    answer: Option<AnswerOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnswerOf {
    #[prost(message, tag = "1")]
    Introduced(IntroductionMessage),
    #[prost(message, tag = "2")]
    Decided(OutcomeMessage),
    #[prost(message, tag = "3")]
    Denied(DenialMessage),
    #[prost(message, tag = "4")]
    Admitted(AdmittedMessage),
    #[prost(message, tag = "5")]
    Status(StatusResponse),
    #[prost(message, tag = "6")]
    Tables(ListTablesResponse),
    #[prost(message, tag = "7")]
    NotLeader(NotLeaderMessage),
    #[prost(message, tag = "8")]
    Unavailable(Nothing),
    #[prost(message, tag = "9")]
    Workers(ListWorkersResponse),
}

/// What came of several proposals, in their order.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecisionsMessage {
    #[prost(message, repeated, tag = "1")]
    decided: Vec<AnswerMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct IntroductionMessage {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(fixed64, tag = "2")]
    nonce: u64,
    #[prost(message, optional, tag = "3")]
    cluster: Option<Wide>,
    #[prost(bool, tag = "4")]
    may_coordinate: bool,
    #[prost(message, optional, tag = "5")]
    leader: Option<LeaderMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaderMessage {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(string, tag = "2")]
    data_address: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DenialMessage {
    #[prost(enumeration = "KindNumber", tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    message: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct AdmittedMessage {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(uint64, tag = "2")]
    raft: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NotLeaderMessage {
    #[prost(message, optional, tag = "1")]
    leader: Option<LeaderMessage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum KindNumber {
    NotYet = 0,
    NotFound = 1,
    AlreadyExists = 2,
    Precondition = 3,
    Invalid = 4,
    Conflict = 5,
    Exhausted = 6,
}

impl From<&Ask> for AskMessage {
    fn from(ask: &Ask) -> Self {
        let ask = match ask {
            Ask::Introduce => AskOf::Introduce(Nothing {}),
            Ask::Propose(proposal) => AskOf::Propose(proposal.into()),
            Ask::Admit { id, node } => {
                AskOf::Admit(AdmitMessage { id: Some(id.0.into()), node: node.0 })
            }
            Ask::Status => AskOf::Status(Nothing {}),
            Ask::Tables => AskOf::Tables(Nothing {}),
            Ask::Workers => AskOf::Workers(Nothing {}),
        };
        Self { ask: Some(ask) }
    }
}

impl TryFrom<AskMessage> for Ask {
    type Error = CodecError;

    fn try_from(message: AskMessage) -> Result<Self, CodecError> {
        Ok(match required(message.ask, "ask")? {
            AskOf::Introduce(Nothing {}) => Self::Introduce,
            AskOf::Propose(proposal) => Self::Propose(proposal.try_into()?),
            AskOf::Admit(AdmitMessage { id, node }) => {
                Self::Admit { id: ProposalId(required(id, "id")?.into()), node: NodeId(node) }
            }
            AskOf::Status(Nothing {}) => Self::Status,
            AskOf::Tables(Nothing {}) => Self::Tables,
            AskOf::Workers(Nothing {}) => Self::Workers,
        })
    }
}

impl From<&Answer> for AnswerMessage {
    fn from(answer: &Answer) -> Self {
        let answer = match answer {
            Answer::Introduced(introduction) => AnswerOf::Introduced(introduction.into()),
            Answer::Decided(Ok(outcome)) => AnswerOf::Decided(outcome.into()),
            Answer::Decided(Err(denial)) => AnswerOf::Denied(denial.into()),
            Answer::Admitted { cluster, raft } => AnswerOf::Admitted(AdmittedMessage {
                cluster: Some(cluster.0.into()),
                raft: raft.0,
            }),
            Answer::Status(status) => AnswerOf::Status((**status).clone()),
            Answer::Tables(tables) => AnswerOf::Tables((**tables).clone()),
            Answer::Workers(workers) => AnswerOf::Workers((**workers).clone()),
            Answer::NotLeader { leader } => {
                AnswerOf::NotLeader(NotLeaderMessage { leader: leader.as_ref().map(Into::into) })
            }
            Answer::Unavailable => AnswerOf::Unavailable(Nothing {}),
        };
        Self { answer: Some(answer) }
    }
}

impl TryFrom<AnswerMessage> for Answer {
    type Error = CodecError;

    fn try_from(message: AnswerMessage) -> Result<Self, CodecError> {
        Ok(match required(message.answer, "answer")? {
            AnswerOf::Introduced(introduction) => Self::Introduced(introduction.try_into()?),
            AnswerOf::Decided(outcome) => Self::Decided(Ok(outcome.try_into()?)),
            AnswerOf::Denied(denial) => Self::Decided(Err(denial.try_into()?)),
            AnswerOf::Admitted(AdmittedMessage { cluster, raft }) => Self::Admitted {
                cluster: ClusterId(required(cluster, "cluster")?.into()),
                raft: RaftId(required(Some(raft).filter(|raft| *raft != 0), "raft")?),
            },
            AnswerOf::Status(status) => Self::Status(Box::new(status)),
            AnswerOf::Tables(tables) => Self::Tables(Box::new(tables)),
            AnswerOf::Workers(workers) => Self::Workers(Box::new(worker::checked(workers)?)),
            AnswerOf::NotLeader(NotLeaderMessage { leader }) => {
                Self::NotLeader { leader: leader.map(TryInto::try_into).transpose()? }
            }
            AnswerOf::Unavailable(Nothing {}) => Self::Unavailable,
        })
    }
}

impl From<&[Result<Outcome, Denial>]> for DecisionsMessage {
    fn from(decided: &[Result<Outcome, Denial>]) -> Self {
        let message = |decided: &Result<Outcome, Denial>| {
            let answer = match decided {
                Ok(outcome) => AnswerOf::Decided(outcome.into()),
                Err(denial) => AnswerOf::Denied(denial.into()),
            };
            AnswerMessage { answer: Some(answer) }
        };
        Self { decided: decided.iter().map(message).collect() }
    }
}

impl TryFrom<DecisionsMessage> for Vec<Result<Outcome, Denial>> {
    type Error = CodecError;

    fn try_from(message: DecisionsMessage) -> Result<Self, CodecError> {
        let decision = |message: AnswerMessage| match Answer::try_from(message)? {
            Answer::Decided(decided) => Ok(decided),
            _ => Err(CodecError::Field { field: "decided" }),
        };
        message.decided.into_iter().map(decision).collect()
    }
}

impl From<&Introduction> for IntroductionMessage {
    fn from(introduction: &Introduction) -> Self {
        let Introduction { node, nonce, cluster, may_coordinate, leader } = introduction;
        Self {
            node: node.0,
            nonce: *nonce,
            cluster: cluster.map(|cluster| cluster.0.into()),
            may_coordinate: *may_coordinate,
            leader: leader.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<IntroductionMessage> for Introduction {
    type Error = CodecError;

    fn try_from(message: IntroductionMessage) -> Result<Self, CodecError> {
        let IntroductionMessage { node, nonce, cluster, may_coordinate, leader } = message;
        Ok(Self {
            node: NodeId(node),
            nonce,
            cluster: cluster.map(|cluster| ClusterId(cluster.into())),
            may_coordinate,
            leader: leader.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<&Leader> for LeaderMessage {
    fn from(leader: &Leader) -> Self {
        Self { node: leader.node.0, data_address: leader.data_address.clone() }
    }
}

impl TryFrom<LeaderMessage> for Leader {
    type Error = CodecError;

    fn try_from(message: LeaderMessage) -> Result<Self, CodecError> {
        let LeaderMessage { node, data_address } = message;
        if data_address.len() > ADDRESS_MAX {
            return Err(CodecError::Field { field: "data_address" });
        }
        Ok(Self { node: NodeId(node), data_address })
    }
}

impl From<&Denial> for DenialMessage {
    fn from(denial: &Denial) -> Self {
        let mut message = Self { kind: 0, message: denial.message.clone() };
        message.set_kind(match denial.kind {
            DenialKind::NotYet => KindNumber::NotYet,
            DenialKind::NotFound => KindNumber::NotFound,
            DenialKind::AlreadyExists => KindNumber::AlreadyExists,
            DenialKind::Precondition => KindNumber::Precondition,
            DenialKind::Invalid => KindNumber::Invalid,
            DenialKind::Conflict => KindNumber::Conflict,
            DenialKind::Exhausted => KindNumber::Exhausted,
        });
        message
    }
}

impl TryFrom<DenialMessage> for Denial {
    type Error = CodecError;

    fn try_from(denial: DenialMessage) -> Result<Self, CodecError> {
        let kind = match KindNumber::try_from(denial.kind) {
            Ok(KindNumber::NotYet) => DenialKind::NotYet,
            Ok(KindNumber::NotFound) => DenialKind::NotFound,
            Ok(KindNumber::AlreadyExists) => DenialKind::AlreadyExists,
            Ok(KindNumber::Precondition) => DenialKind::Precondition,
            Ok(KindNumber::Invalid) => DenialKind::Invalid,
            Ok(KindNumber::Conflict) => DenialKind::Conflict,
            Ok(KindNumber::Exhausted) => DenialKind::Exhausted,
            Err(_) => return Err(CodecError::Field { field: "kind" }),
        };
        if denial.message.len() > REASON_MAX {
            return Err(CodecError::Field { field: "message" });
        }
        Ok(Self { kind, message: denial.message })
    }
}
