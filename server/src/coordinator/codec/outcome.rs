//! What came of a proposal, as bytes: snapshots keep it.

use weft_protocol::TableId;
use weft_transport::Incarnation;

use super::fields::{TimingMessage, Wide};
use super::{CodecError, narrow, required};
use crate::coordinator::command::{ClientId, ClusterId, Outcome};
use crate::coordinator::worker::WorkerId;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OutcomeMessage {
    #[prost(oneof = "OutcomeOf", tags = "1, 2, 3, 4, 5, 6, 7")]
    outcome: Option<OutcomeOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OutcomeOf {
    #[prost(message, tag = "1")]
    Done(Done),
    #[prost(message, tag = "2")]
    Joined(Joined),
    #[prost(uint32, tag = "3")]
    Reconfigured(u32),
    #[prost(uint32, tag = "4")]
    TableCreated(u32),
    #[prost(uint64, tag = "5")]
    ClientOpened(u64),
    #[prost(message, tag = "6")]
    Renewed(Renewed),
    #[prost(uint64, tag = "7")]
    WorkerRegistered(u64),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Done {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Joined {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Wide>,
    #[prost(uint64, tag = "2")]
    incarnation: u64,
    #[prost(message, optional, tag = "3")]
    timing: Option<TimingMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Renewed {
    #[prost(uint64, repeated, tag = "1")]
    expired: Vec<u64>,
}

impl From<&Outcome> for OutcomeMessage {
    fn from(outcome: &Outcome) -> Self {
        let outcome = match outcome {
            Outcome::Done => OutcomeOf::Done(Done {}),
            Outcome::Joined { cluster, incarnation, timing } => OutcomeOf::Joined(Joined {
                cluster: Some(cluster.0.into()),
                incarnation: incarnation.0,
                timing: Some((*timing).into()),
            }),
            Outcome::Reconfigured { epoch } => OutcomeOf::Reconfigured(*epoch),
            Outcome::TableCreated { id } => OutcomeOf::TableCreated(u32::from(id.0)),
            Outcome::ClientOpened { client } => OutcomeOf::ClientOpened(client.0),
            Outcome::Renewed { expired } => {
                let expired = expired.iter().map(|client| client.0).collect();
                OutcomeOf::Renewed(Renewed { expired })
            }
            Outcome::WorkerRegistered { worker } => OutcomeOf::WorkerRegistered(worker.0),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<OutcomeMessage> for Outcome {
    type Error = CodecError;

    fn try_from(message: OutcomeMessage) -> Result<Self, CodecError> {
        Ok(match required(message.outcome, "outcome")? {
            OutcomeOf::Done(Done {}) => Self::Done,
            OutcomeOf::Joined(Joined { cluster, incarnation, timing }) => Self::Joined {
                cluster: ClusterId(required(cluster, "cluster")?.into()),
                incarnation: Incarnation(incarnation),
                timing: required(timing, "timing")?.try_into()?,
            },
            OutcomeOf::Reconfigured(epoch) => Self::Reconfigured { epoch },
            OutcomeOf::TableCreated(id) => {
                Self::TableCreated { id: TableId(narrow(id, "table id")?) }
            }
            OutcomeOf::ClientOpened(client) => Self::ClientOpened { client: ClientId(client) },
            OutcomeOf::Renewed(Renewed { expired }) => {
                Self::Renewed { expired: expired.into_iter().map(ClientId).collect() }
            }
            OutcomeOf::WorkerRegistered(worker) => {
                Self::WorkerRegistered { worker: WorkerId(worker) }
            }
        })
    }
}
