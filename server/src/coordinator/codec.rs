//! Entries of the coordinator's log, snapshots of its state, and what coordinators are asked and told, as bytes.
//!
//! All are protobuf (prost), so that coordinators of two versions can read each other's while a cluster is upgraded: fields are added under new
//! numbers, and none is given out again. A [`FORMAT`] that is not known is refused as a whole, and so is a command that is not known: a
//! coordinator that left one out would not hold what the others hold.
//!
//! Whatever is read was written by a node or a coordinator of this cluster. It is checked all the same, its length before anything is made of it: a
//! disk may have changed it, and so may a mistake of ours. Questions are asked by whoever can connect.

mod ask;
mod command;
mod fields;
mod notice;
mod outcome;
mod snapshot;
mod worker;

use prost::Message;
use thiserror::Error;

use self::ask::{AnswerMessage, AskMessage, DecisionsMessage};
use self::command::EntryMessage;
use self::notice::NoticeMessage;
use self::snapshot::SnapshotMessage;
use super::ask::{Answer, Ask, Denial};
use super::command::{Command, Outcome, Proposal};
use super::notice::Notice;
use super::state::ClusterState;
use crate::limits::{ANSWER_MAX, CLUSTER_SNAPSHOT_MAX, ENTRY_COMMANDS_MAX, ENTRY_MAX, NOTICE_MAX};

/// The newest version of entries and snapshots. What says nothing that the first could not say is written in that, so that coordinators of a build which knows no
/// other go on.
pub const FORMAT: u32 = 3;

/// The version that knows no nodes without disks, and no workers.
const FIRST_FORMAT: u32 = 1;

/// The version that knows nodes without disks, and no workers.
const DISKLESS_FORMAT: u32 = 2;

/// Bytes that are no entry and no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodecError {
    /// More bytes than there may be.
    #[error("{len} bytes are more than the {limit} that there may be")]
    TooLong {
        /// How many there are.
        len: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Bytes that are not protobuf, or not of these messages.
    #[error("bytes are no message: {reason}")]
    Malformed {
        /// What the decoder says.
        reason: String,
    },
    /// A version that this one does not know.
    #[error("format {format} is unknown, this version knows {FORMAT}: upgrade it")]
    UnknownFormat {
        /// The version.
        format: u32,
    },
    /// A command that this version does not know.
    #[error("a command is unknown: upgrade this coordinator")]
    UnknownCommand,
    /// A list that is longer than it may be.
    #[error("list {field} is too long")]
    ListTooLong {
        /// Which list.
        field: &'static str,
    },
    /// A field that is missing, or has a value that it cannot have.
    #[error("field {field} has no value that it may have")]
    Field {
        /// Which field.
        field: &'static str,
    },
}

/// Proposals as one entry of the log.
///
/// # Errors
///
/// [`CodecError::TooLong`] and [`CodecError::ListTooLong`] if they have to go into several.
pub fn encode_entry(proposals: &[Proposal]) -> Result<Vec<u8>, CodecError> {
    if proposals.len() > ENTRY_COMMANDS_MAX {
        return Err(CodecError::ListTooLong { field: "proposals" });
    }
    let formats = proposals.iter().map(|proposal| format_of_command(&proposal.command));
    let format = formats.max().unwrap_or(FIRST_FORMAT);
    let proposals = proposals.iter().map(Into::into).collect();
    let bytes = EntryMessage { format, proposals }.encode_to_vec();
    check_len(&bytes, ENTRY_MAX)?;
    Ok(bytes)
}

/// The proposals of an entry of the log.
///
/// # Errors
///
/// [`CodecError`] if `bytes` are none.
pub fn decode_entry(bytes: &[u8]) -> Result<Vec<Proposal>, CodecError> {
    check_len(bytes, ENTRY_MAX)?;
    let entry = EntryMessage::decode(bytes).map_err(malformed)?;
    check_format(entry.format)?;
    if entry.proposals.len() > ENTRY_COMMANDS_MAX {
        return Err(CodecError::ListTooLong { field: "proposals" });
    }
    entry.proposals.into_iter().map(TryInto::try_into).collect()
}

/// The whole state.
///
/// # Errors
///
/// [`CodecError::TooLong`] if it is larger than a state can be.
pub fn encode_snapshot(state: &ClusterState) -> Result<Vec<u8>, CodecError> {
    let bytes = SnapshotMessage::from(state).encode_to_vec();
    check_len(&bytes, CLUSTER_SNAPSHOT_MAX)?;
    Ok(bytes)
}

/// The state that a snapshot is of.
///
/// # Errors
///
/// [`CodecError`] if `bytes` are no snapshot, or one of a state that cannot be.
pub fn decode_snapshot(bytes: &[u8]) -> Result<ClusterState, CodecError> {
    check_len(bytes, CLUSTER_SNAPSHOT_MAX)?;
    let snapshot = SnapshotMessage::decode(bytes).map_err(malformed)?;
    check_format(snapshot.format)?;
    snapshot.try_into()
}

/// A question.
///
/// # Errors
///
/// [`CodecError`] if `bytes` are none.
pub fn decode_ask(bytes: &[u8]) -> Result<Ask, CodecError> {
    check_len(bytes, ENTRY_MAX)?;
    AskMessage::decode(bytes).map_err(malformed)?.try_into()
}

/// A question as bytes.
pub fn encode_ask(ask: &Ask) -> Vec<u8> {
    AskMessage::from(ask).encode_to_vec()
}

/// An answer.
///
/// # Errors
///
/// [`CodecError`] if `bytes` are none.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, CodecError> {
    check_len(bytes, ANSWER_MAX)?;
    AnswerMessage::decode(bytes).map_err(malformed)?.try_into()
}

/// An answer as bytes.
pub fn encode_answer(answer: &Answer) -> Vec<u8> {
    AnswerMessage::from(answer).encode_to_vec()
}

/// What came of the proposals of an entry, in their order.
pub(super) fn encode_decisions(decided: &[Result<Outcome, Denial>]) -> Vec<u8> {
    DecisionsMessage::from(decided).encode_to_vec()
}

/// What [`encode_decisions`] wrote.
pub(super) fn decode_decisions(bytes: &[u8]) -> Result<Vec<Result<Outcome, Denial>>, CodecError> {
    DecisionsMessage::decode(bytes).map_err(malformed)?.try_into()
}

/// A notice.
///
/// # Errors
///
/// [`CodecError`] if `bytes` are none.
pub fn decode_notice(bytes: &[u8]) -> Result<Notice, CodecError> {
    check_len(bytes, NOTICE_MAX)?;
    NoticeMessage::decode(bytes).map_err(malformed)?.try_into()
}

/// A notice as bytes.
pub fn encode_notice(notice: &Notice) -> Vec<u8> {
    NoticeMessage::from(notice).encode_to_vec()
}

fn check_len(bytes: &[u8], limit: usize) -> Result<(), CodecError> {
    let len = bytes.len();
    if len > limit { Err(CodecError::TooLong { len, limit }) } else { Ok(()) }
}

/// In which format a command is written: a coordinator that left out what it does not know would hold something else than the others.
fn format_of_command(command: &Command) -> u32 {
    match command {
        Command::RegisterWorker { .. }
        | Command::RenewWorker { .. }
        | Command::UnregisterWorker { .. }
        | Command::ExpireWorker { .. } => FORMAT,
        Command::Join(join) if join.description.is_diskless => DISKLESS_FORMAT,
        _ => FIRST_FORMAT,
    }
}

/// The same of a state. Whoever did not know that there were workers would give out their numbers again.
fn format_of_state(state: &ClusterState) -> u32 {
    if state.last_worker > 0 {
        return FORMAT;
    }
    let has_diskless = state.nodes().any(|node| node.description.is_diskless);
    if has_diskless { DISKLESS_FORMAT } else { FIRST_FORMAT }
}

fn check_format(format: u32) -> Result<(), CodecError> {
    let is_known = (FIRST_FORMAT..=FORMAT).contains(&format);
    if is_known { Ok(()) } else { Err(CodecError::UnknownFormat { format }) }
}

fn malformed(error: prost::DecodeError) -> CodecError {
    CodecError::Malformed { reason: error.to_string() }
}

/// The value of a field that has to be there.
fn required<T>(value: Option<T>, field: &'static str) -> Result<T, CodecError> {
    value.ok_or(CodecError::Field { field })
}

/// The value of a field that is narrower than protobuf's numbers.
fn narrow<T: TryFrom<u32>>(value: u32, field: &'static str) -> Result<T, CodecError> {
    T::try_from(value).map_err(|_| CodecError::Field { field })
}
