//! The control port's API: how operators and programs see a cluster and change it, over gRPC.
//!
//! `protocol/proto/weft/control/v1/control.proto` says what each message and call means.

pub mod health;

/// Version 1.
#[expect(missing_docs, reason = "what the file does not comment on, its names say")]
#[expect(clippy::allow_attributes, clippy::allow_attributes_without_reason, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("weft.control.v1");
}

/// In a refusal's metadata: the number of the [`ErrorCode`](crate::ErrorCode).
pub const ERROR_CODE: &str = "weft-error-code";
