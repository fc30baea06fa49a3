//! What can be wrong with a request before it is sent, and with bytes when they are read.

use thiserror::Error;

use crate::cluster_map::MapError;
use crate::error_code::ErrorCode;
use crate::limits::{
    ADDRESS_MAX, FIELDS_MAX, KEY_MAX, MULTI_KEYS_MAX, REQUEST_VALUE_MAX, VALUE_MAX,
    WORKER_BUILD_MAX,
};
use crate::operation::Operation;
use crate::prefix::PROTOCOL_VERSION;
use crate::reply::ErrorReply;
use crate::table::TableId;

/// Something is larger than the protocol carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A key of more than [`KEY_MAX`] bytes.
    #[error("key of {len} bytes is longer than {KEY_MAX}")]
    KeyTooLong {
        /// The key's length in bytes.
        len: usize,
    },
    /// A value of more than [`VALUE_MAX`] bytes.
    #[error("value of {len} bytes is larger than {VALUE_MAX}")]
    ValueTooLarge {
        /// The value's length in bytes.
        len: usize,
    },
    /// A value of more than [`REQUEST_VALUE_MAX`] bytes in one request, or a record of as many.
    #[error(
        "value of {len} bytes is larger than the {REQUEST_VALUE_MAX} of one request, or of a record"
    )]
    RequestValueTooLarge {
        /// The value's length in bytes.
        len: usize,
    },
    /// A multi-request of more than [`MULTI_KEYS_MAX`] keys.
    #[error("request names {count} keys, more than {MULTI_KEYS_MAX}")]
    TooManyKeys {
        /// How many keys the request names.
        count: usize,
    },
    /// A record, or a request for one, of more than [`FIELDS_MAX`] fields.
    #[error("{count} fields are more than the {FIELDS_MAX} of a record")]
    TooManyFields {
        /// How many fields there are.
        count: usize,
    },
}

impl LimitError {
    /// The stable code of this error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::KeyTooLong { .. } => ErrorCode::KeyTooLong,
            Self::ValueTooLarge { .. } | Self::RequestValueTooLarge { .. } => {
                ErrorCode::ValueTooLarge
            }
            Self::TooManyKeys { .. } => ErrorCode::TooManyKeys,
            Self::TooManyFields { .. } => ErrorCode::TooManyFields,
        }
    }

    /// The limit that was passed.
    pub const fn limit(&self) -> u64 {
        match self {
            Self::KeyTooLong { .. } => KEY_MAX as u64,
            Self::ValueTooLarge { .. } => VALUE_MAX as u64,
            Self::RequestValueTooLarge { .. } => REQUEST_VALUE_MAX as u64,
            Self::TooManyKeys { .. } => MULTI_KEYS_MAX as u64,
            Self::TooManyFields { .. } => FIELDS_MAX as u64,
        }
    }
}

/// Bytes that are no message of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The message ends before what it announces.
    #[error("message ends {missing} bytes early")]
    Truncated {
        /// How many bytes were missing from the field that did not fit.
        missing: usize,
    },
    /// The message goes on after what it announces.
    #[error("message has {extra} bytes too many")]
    TrailingBytes {
        /// How many bytes were left over.
        extra: usize,
    },
    /// A field that has to be zero is not.
    #[error("field {field} has to be zero")]
    ReservedField {
        /// The field's name in docs/protocol.md.
        field: &'static str,
    },
    /// A request of another version of the protocol.
    #[error("protocol version {version} is not {PROTOCOL_VERSION}")]
    UnsupportedVersion {
        /// The version that the request states.
        version: u8,
    },
    /// An operation that this version does not know.
    #[error("operation {operation} is unknown")]
    UnknownOperation {
        /// The number that the request states.
        operation: u8,
    },
    /// A flag that this version does not know for the operation.
    #[error("{operation} takes no flags {flags:#04x}")]
    UnsupportedFlags {
        /// The operation.
        operation: Operation,
        /// The flags that it does not take.
        flags: u8,
    },
    /// A flag of a pair that this version does not know.
    #[error("pair takes no flags {flags:#06x}")]
    UnsupportedPairFlags {
        /// The flags that a pair does not take.
        flags: u16,
    },
    /// A flag of a scan's object that this version does not know.
    #[error("object takes no flags {flags:#06x}")]
    UnsupportedObjectFlags {
        /// The flags that an object does not take.
        flags: u16,
    },
    /// A flag of a table that this version does not know.
    #[error("table takes no flags {flags:#06x}")]
    UnsupportedTableFlags {
        /// The flags that a table does not take.
        flags: u16,
    },
    /// Bounds of a range that contradict themselves, or that this version does not know.
    #[error("range takes no bounds {bounds:#06x} with these keys")]
    UnsupportedBounds {
        /// The bounds.
        bounds: u16,
    },
    /// A worker whose address is empty, or one of whose texts is too long.
    #[error(
        "a worker's address has 1 to {ADDRESS_MAX} bytes, and its build at most {WORKER_BUILD_MAX}"
    )]
    WorkerLength,
    /// Workers that are not in the order of their numbers, or one that has none.
    #[error("worker {worker} is out of order")]
    WorkersUnordered {
        /// Its number.
        worker: u64,
    },
    /// A piece of an upload that begins where none does, or copies more than it has bytes.
    #[error("a value of {value_len} bytes has no such piece at {offset}")]
    PieceMisplaced {
        /// Where the piece begins.
        offset: u64,
        /// Bytes of the whole value.
        value_len: u32,
    },
    /// A completion id without a client, or whose sequences are none.
    #[error("client {client} has no request {sequence}, {span} behind its first incomplete one")]
    CompletionOutOfRange {
        /// The client.
        client: u64,
        /// The first sequence of the request.
        sequence: u64,
        /// How far the first incomplete one is said to be behind it.
        span: u32,
    },
    /// An effect of an upload that this version does not know.
    #[error("an upload has no effect {effect}")]
    UnsupportedEffect {
        /// The number that the request states.
        effect: u32,
    },
    /// A change that this version does not know, among the events of a watch.
    #[error("change {change} is unknown")]
    UnknownChange {
        /// The number that the event states.
        change: u8,
    },
    /// A table's number or name is another's, or it is out of order.
    #[error("table {id} is out of order or has another's name")]
    ContradictoryTables {
        /// The table's number.
        id: TableId,
    },
    /// Something is larger than the protocol carries.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A list is longer than the protocol carries.
    #[error("{count} {field} are more than the limit of {limit}")]
    ListTooLong {
        /// What the list holds.
        field: &'static str,
        /// How many it announces.
        count: usize,
        /// How many it may hold.
        limit: usize,
    },
    /// A part of a message between nodes is outside of it, is empty, or is longer than parts are.
    #[error("{len} bytes at {offset} are no part of a message of {total}")]
    PartRange {
        /// Bytes that the message is said to have.
        total: u64,
        /// Where in it these are.
        offset: u64,
        /// How many they are.
        len: usize,
    },
    /// A text is not UTF-8.
    #[error("{field} is not UTF-8")]
    InvalidText {
        /// The field's name in docs/protocol.md.
        field: &'static str,
    },
    /// A reply with a status that this version does not know for the operation.
    #[error("status {status} is not one of this operation's")]
    UnexpectedStatus {
        /// The status that the reply states.
        status: u16,
    },
    /// A message between nodes that this version does not know.
    #[error("message {kind} is unknown")]
    UnknownMessage {
        /// The number that the message states.
        kind: u8,
    },
    /// An epoch that versions have no room for.
    #[error("epoch {epoch} is above {}", crate::Version::EPOCH_MAX)]
    EpochRange {
        /// The epoch.
        epoch: u32,
    },
    /// An entry that does not follow the one before it, or is of a later epoch than the message that carries it.
    #[error("entry {version} is out of order")]
    EntryOutOfOrder {
        /// The entry's version.
        version: crate::Version,
    },
    /// A cluster map that contradicts itself.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl DecodeError {
    /// The stable code that a server answers when a request fails to decode so. A client that cannot
    /// decode a reply reports [`ErrorCode::MalformedReply`] instead.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UnsupportedVersion { .. } => ErrorCode::UnsupportedVersion,
            Self::UnknownOperation { .. } => ErrorCode::UnknownOperation,
            Self::UnsupportedFlags { .. }
            | Self::UnsupportedPairFlags { .. }
            | Self::UnsupportedObjectFlags { .. }
            | Self::UnsupportedTableFlags { .. }
            | Self::UnsupportedBounds { .. }
            | Self::UnsupportedEffect { .. } => ErrorCode::UnsupportedFlag,
            Self::Limit(limit) => limit.code(),
            Self::PieceMisplaced { .. }
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::ReservedField { .. }
            | Self::CompletionOutOfRange { .. }
            | Self::ListTooLong { .. }
            | Self::PartRange { .. }
            | Self::InvalidText { .. }
            | Self::UnexpectedStatus { .. }
            | Self::UnknownChange { .. }
            | Self::ContradictoryTables { .. }
            | Self::WorkerLength
            | Self::WorkersUnordered { .. }
            | Self::UnknownMessage { .. }
            | Self::EpochRange { .. }
            | Self::EntryOutOfOrder { .. }
            | Self::Map(_) => ErrorCode::MalformedRequest,
        }
    }
}

/// Why a reply is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplyError<'a> {
    /// The server answered with an error.
    #[error("{0}")]
    Refused(ErrorReply<'a>),
    /// The bytes are no reply to this operation.
    #[error("malformed reply: {0}")]
    Malformed(DecodeError),
}

/// Not a source: the message says all of it.
impl From<DecodeError> for ReplyError<'_> {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl ReplyError<'_> {
    /// The stable code of this error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(reply) => reply.code,
            Self::Malformed(_) => ErrorCode::MalformedReply,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_chain_of_errors_says_why_a_reply_is_malformed_once() {
        let error = ReplyError::from(DecodeError::TrailingBytes { extra: 3 });
        assert_eq!(error.to_string(), "malformed reply: message has 3 bytes too many");
        assert!(error.source().is_none());
    }
}
