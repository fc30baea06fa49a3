//! Why something was not done: the codes of gRPC, and ours beside them.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use weft_protocol::ErrorCode;
use weft_protocol::control::ERROR_CODE;

use crate::coordinator::{Denial, DenialKind};

/// What a call was about, which says what it means that there is no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Node,
    Table,
    Partition,
    Worker,
}

/// What whoever called is told: `code` of gRPC, and ours.
pub(super) fn status(code: Code, ours: ErrorCode, message: impl Into<String>) -> Status {
    let mut status = Status::new(code, message);
    status.metadata_mut().insert(ERROR_CODE, MetadataValue::from(ours.number()));
    status
}

/// The coordinators cannot be reached, by somebody who has asked, or wants something changed.
pub(super) fn unavailable(is_change: bool) -> Status {
    let message = match is_change {
        true => {
            "no quorum of the coordinators was found in time, and what was asked may have been done; ask again"
        }
        false => "no quorum of the coordinators was found in time; ask again",
    };
    status(Code::Unavailable, ErrorCode::CoordinatorsUnavailable, message)
}

/// A field that cannot be.
pub(super) fn invalid(message: impl Into<String>) -> Status {
    status(Code::InvalidArgument, ErrorCode::MalformedRequest, message)
}

/// What the coordinators did not do, and why.
pub(super) fn denied(subject: Subject, denial: Denial) -> Status {
    let code = match denial.kind {
        DenialKind::NotYet => Code::Unavailable,
        DenialKind::NotFound => Code::NotFound,
        DenialKind::AlreadyExists => Code::AlreadyExists,
        DenialKind::Precondition => Code::FailedPrecondition,
        DenialKind::Invalid => Code::InvalidArgument,
        DenialKind::Conflict => Code::Aborted,
        DenialKind::Exhausted => Code::ResourceExhausted,
    };
    status(code, error_code(subject, denial.kind), denial.message)
}

/// Our code of a denial.
pub(crate) const fn error_code(subject: Subject, kind: DenialKind) -> ErrorCode {
    match (kind, subject) {
        (DenialKind::NotYet, _) => ErrorCode::NotYet,
        (DenialKind::NotFound, Subject::Node) => ErrorCode::NodeUnknown,
        (DenialKind::NotFound, Subject::Table) => ErrorCode::TableUnknown,
        (DenialKind::NotFound, Subject::Partition) => ErrorCode::PartitionUnknown,
        (DenialKind::NotFound, Subject::Worker) => ErrorCode::WorkerUnknown,
        (DenialKind::AlreadyExists, Subject::Table) => ErrorCode::TableExists,
        (DenialKind::Exhausted, Subject::Table) => ErrorCode::TooManyTables,
        (DenialKind::Exhausted, Subject::Worker) => ErrorCode::TooManyWorkers,
        (DenialKind::Precondition | DenialKind::AlreadyExists | DenialKind::Exhausted, _) => {
            ErrorCode::NotPossible
        }
        (DenialKind::Invalid, _) => ErrorCode::MalformedRequest,
        (DenialKind::Conflict, _) => ErrorCode::ChangedMeanwhile,
    }
}
