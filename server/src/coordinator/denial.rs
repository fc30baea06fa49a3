//! What a rejection means to whoever asked.

use weft_protocol::CatalogError;

use super::ask::{Denial, DenialKind};
use super::rejection::Rejection;

impl Denial {
    /// A denial of this kind.
    pub fn new(kind: DenialKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<&Rejection> for Denial {
    fn from(rejection: &Rejection) -> Self {
        Self { kind: kind(rejection), message: rejection.to_string() }
    }
}

fn kind(rejection: &Rejection) -> DenialKind {
    match rejection {
        // Mostly a former life, which will soon be found down.
        Rejection::NodeIsUp { .. }
        | Rejection::NotFounded
        | Rejection::StillHolds { .. }
        | Rejection::NotAHolder { .. }
        | Rejection::NotReady { .. } => DenialKind::NotYet,
        Rejection::NodeUnknown { .. }
        | Rejection::PartitionUnknown { .. }
        | Rejection::ClientUnknown { .. }
        | Rejection::WorkerUnknown { .. } => DenialKind::NotFound,
        Rejection::AlreadyFounded { .. } => DenialKind::AlreadyExists,
        Rejection::OtherCluster { .. }
        | Rejection::WireVersion { .. }
        | Rejection::NothingKept
        | Rejection::LastNode { .. }
        | Rejection::NotLeaving { .. }
        | Rejection::ClassPlaced
        | Rejection::Lost
        | Rejection::NotLost
        | Rejection::LastMember
        | Rejection::NotAMember { .. }
        | Rejection::PrimaryNotMember
        | Rejection::IsPrimary { .. }
        | Rejection::MemberIsUp { .. } => DenialKind::Precondition,
        Rejection::PartitionCount { .. }
        | Rejection::NodeIdRange { .. }
        | Rejection::AddressLength
        | Rejection::ZoneLength
        | Rejection::Twice
        | Rejection::AlreadyInvolved { .. }
        | Rejection::ReplicaCount
        | Rejection::NotAReconfiguration
        | Rejection::TooManyRenewals
        | Rejection::WorkerLength => DenialKind::Invalid,
        Rejection::IncarnationPast { .. }
        | Rejection::Superseded { .. }
        | Rejection::EpochMismatch { .. }
        | Rejection::ClientRenewed { .. }
        | Rejection::WorkerRenewed { .. } => DenialKind::Conflict,
        Rejection::TooManyNodes
        | Rejection::EpochsExhausted
        | Rejection::TooManyClients
        | Rejection::TooManyWorkers => DenialKind::Exhausted,
        Rejection::Catalog(error) => match error {
            CatalogError::Exists { .. } => DenialKind::AlreadyExists,
            CatalogError::Unknown { .. } => DenialKind::NotFound,
            CatalogError::Full => DenialKind::Exhausted,
            CatalogError::MalformedName { .. }
            | CatalogError::Default
            | CatalogError::Replicas { .. } => DenialKind::Invalid,
        },
    }
}
