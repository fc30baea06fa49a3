//! What can go wrong with an operation: where, whether it may have had an effect, and what to do.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weft_protocol::limits::{ADDRESS_MAX, WORKER_BUILD_MAX};
use weft_protocol::{
    CatalogError, DecodeError, ErrorCode, ErrorReply, LimitError, PartitionId, ReplyError, Slot,
};
use weft_transport::{Applied, CallError, CloseReason, ConnectError, EndpointError, NodeId};
use weft_transport::{Connection, MemoryError};

use crate::limits::SEQUENCES_MAX;
use crate::retry::Effect;

/// A node as a message names it: its id, and where it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    /// The node's id.
    pub id: NodeId,
    /// Where it was asked: `host:port`.
    pub address: Arc<str>,
}

/// `node 2 at 127.0.0.1:7401`
impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.id, self.address)
    }
}

/// Why an operation has no result.
///
/// [`applied`](Self::applied) says whether a mutation may have had its effect nevertheless, and
/// [`code`](Self::code) is a stable number that `kv explain` knows more about.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The key, the value or the request is larger than the protocol carries.
    #[error("{}; {}", .0, Advice(.0.code()))]
    Limit(LimitError),
    /// A worker's address is empty, or what it says of itself is longer than the protocol carries.
    #[error(
        "a worker's address has 1 to {ADDRESS_MAX} bytes, and its build at most {WORKER_BUILD_MAX}; give shorter ones"
    )]
    WorkerLength,
    /// The map names no owner for the key's slot.
    #[error(
        "no node owns slot {slot} by the cluster's map of epoch {epoch}; check that all nodes are up"
    )]
    SlotUnowned {
        /// The key's slot.
        slot: Slot,
        /// The epoch of the client's map.
        epoch: u64,
    },
    /// By the map, all that had the key's partition have lost it.
    #[error(
        "{partition} is lost by the cluster's map of epoch {epoch}; {}",
        Advice(ErrorCode::PartitionLost)
    )]
    PartitionLost {
        /// The key's partition.
        partition: PartitionId,
        /// The epoch of the client's map.
        epoch: u64,
    },
    /// The oldest of very many mutations of the client did not end in time for another one to begin.
    #[error(
        "the oldest of {SEQUENCES_MAX} mutations that are under way was not done within {timeout:?}; poll, or drop, each \
         that was begun"
    )]
    TooManyUnderWay {
        /// The time that the operation had.
        timeout: Duration,
    },
    /// There is no such node in the map.
    #[error("{node} is not in the cluster's map; `kv stat` lists the nodes")]
    UnknownNode {
        /// The node that was asked for.
        node: NodeId,
    },
    /// None of the addresses given for the cluster led to a map.
    #[error("no node of the cluster answered: {}; check the addresses, and that a node runs there", Attempts(.attempts))]
    ClusterNotReachable {
        /// What came of each address, in the order in which they failed.
        attempts: Arc<[Attempt]>,
    },
    /// No connection to the node could be made.
    #[error("{node} cannot be reached: {reason}; {}", .reason.advice())]
    Unreachable {
        /// The node.
        node: NodeName,
        /// Why not.
        reason: Unreachable,
    },
    /// The connection ended before the reply came.
    #[error("the connection to {node} was lost: {reason}; {}", Repeat(*.effect, *.applied))]
    Disconnected {
        /// The node.
        node: NodeName,
        /// Whether the request had left.
        applied: Applied,
        /// Whether it was to change anything.
        effect: Effect,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// The reply did not come in time.
    #[error("{node} did not answer within {timeout:?}; {}", Repeat(*.effect, *.applied))]
    DeadlineExceeded {
        /// The node.
        node: NodeName,
        /// Whether the request had left.
        applied: Applied,
        /// Whether it was to change anything.
        effect: Effect,
        /// The time that the operation had.
        timeout: Duration,
    },
    /// The node answered with an error.
    #[error("{node} refused: {}{}; {}", .code.name(), Detail(.detail), Advice(*.code))]
    Refused {
        /// The node.
        node: NodeName,
        /// What is wrong.
        code: ErrorCode,
        /// A number that goes with the code; see [`ErrorReply::argument`].
        argument: u64,
        /// What exactly; may be empty.
        detail: Box<str>,
    },
    /// One node after the other said that it does not own the key's slot.
    #[error(
        "the owner of slot {slot} was not found within {timeout:?}: {node} says that it is not; \
         if this persists, see `kv cluster partitions --lacking` and the log of that node"
    )]
    MapUnsettled {
        /// The key's slot.
        slot: Slot,
        /// The last node that was asked.
        node: NodeName,
        /// The time that the operation had.
        timeout: Duration,
    },
    /// The node answered with something that is no reply to the request.
    #[error("{node} gave a malformed reply: {reason}; use a client and nodes of one release")]
    MalformedReply {
        /// The node.
        node: NodeName,
        /// What is wrong with it.
        reason: DecodeError,
    },
    /// There is no such table, there is one already, or its name is none.
    #[error("{}; {}", .0, Advice(catalog_code(.0)))]
    Catalog(CatalogError),
    /// The coordinators have not decided on a change of the tables, or on a lease for this client, in time: there is no majority of them, as a rule.
    #[error("the coordinators have not decided within {timeout:?}, and {}: {last}", Still(*.applied))]
    Undecided {
        /// The time that the operation had.
        timeout: Duration,
        /// Whether the change was proposed to them, so that they may carry it out still.
        applied: Applied,
        /// What the last attempt ended with.
        last: Box<ClientError>,
    },
    /// No node that answers has as new a list of the tables as this client was told of.
    #[error(
        "no node has told within {timeout:?} which tables there are by now; look at `kv cluster \
         status`, and ask again"
    )]
    TablesUnsettled {
        /// The time that the operation had.
        timeout: Duration,
    },
    /// More happened to what is watched than the node keeps, so that events were dropped.
    #[error(
        "{node} had no room for an event of this watch, and dropped it and those after it; {}",
        Advice(ErrorCode::FellBehind)
    )]
    FellBehind {
        /// The node.
        node: NodeName,
    },
    /// The node does not know the watch any more: it was started anew, or was not asked for events for too long, or another node has become the primary of
    /// what is watched.
    #[error(
        "{node} has lost this watch, since it was started anew, not asked for events in time, or is not the primary any more; {}",
        Advice(ErrorCode::WatchUnknown)
    )]
    WatchLost {
        /// The node.
        node: NodeName,
    },
    /// What all nodes were to do, some have done and one has not.
    #[error("{source}; other nodes have done it already")]
    PartlyApplied {
        /// What the one said.
        source: Box<ClientError>,
    },
    /// This process has no memory for the request.
    #[error(
        "no memory for the request: {0}; have fewer requests under way, or raise the client's limit"
    )]
    Memory(Arc<MemoryError>),
    /// This process can never have the memory for the reply.
    #[error(
        "no memory for the reply of {node}, if it is as long as that; raise the client's memory limit, or read the \
         value by ranges; {}", Repeat(*.effect, Applied::Maybe)
    )]
    ReplyMemory {
        /// The node.
        node: NodeName,
        /// Whether the request was to change anything.
        effect: Effect,
    },
    /// The client's own endpoint could not start.
    #[error("{}", Chain(.0))]
    Endpoint(Arc<EndpointError>),
}

/// An address that was asked for the map in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The address: `host:port`.
    pub address: Arc<str>,
    /// What came of it.
    pub reason: Box<str>,
}

/// Why there is no connection to a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// The address is not `HOST:PORT`, or the name of the host cannot be resolved.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Connecting failed.
    #[error("{}", Connecting(.0))]
    Connect(ConnectError),
    /// Another node answers at the address.
    #[error("{found} answers at its address")]
    OtherNode {
        /// Who does.
        found: NodeId,
    },
}

/// Why an address leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is not `HOST:PORT`.
    #[error("the address is not HOST:PORT")]
    Malformed,
    /// The host's name cannot be resolved.
    #[error("the host's name cannot be resolved: {reason}")]
    Unresolved {
        /// The system's reason.
        reason: Box<str>,
    },
    /// The name service did not answer in time.
    #[error("the host's name was not resolved in time")]
    TimedOut,
}

impl ClientError {
    /// Whether a mutation that ended so may have been applied.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Undecided { applied, .. } => *applied,
            _ if self.code().may_have_been_applied() => Applied::Maybe,
            _ => Applied::No,
        }
    }

    /// The stable code: `kv explain WEFT-1203` says more about it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Limit(error) => error.code(),
            Self::WorkerLength => ErrorCode::MalformedRequest,
            Self::SlotUnowned { .. } => ErrorCode::SlotUnowned,
            Self::PartitionLost { .. } => ErrorCode::PartitionLost,
            Self::TooManyUnderWay { .. } => ErrorCode::DeadlineNotApplied,
            Self::UnknownNode { .. } => ErrorCode::NotReachable,
            Self::ClusterNotReachable { .. } => ErrorCode::ClusterNotReachable,
            Self::Unreachable { reason, .. } => reason.code(),
            Self::Disconnected { applied: Applied::No, .. } => ErrorCode::DisconnectedNotApplied,
            Self::Disconnected { .. } => ErrorCode::DisconnectedMaybeApplied,
            Self::DeadlineExceeded { applied: Applied::No, .. } => ErrorCode::DeadlineNotApplied,
            Self::DeadlineExceeded { .. } => ErrorCode::DeadlineMaybeApplied,
            Self::Refused { code, .. } => *code,
            Self::MapUnsettled { .. } => ErrorCode::MapUnsettled,
            Self::MalformedReply { .. } => ErrorCode::MalformedReply,
            Self::Catalog(error) => catalog_code(error),
            Self::Undecided { .. } => ErrorCode::CoordinatorsUnavailable,
            Self::TablesUnsettled { .. } => ErrorCode::TablesUnsettled,
            Self::PartlyApplied { .. } => ErrorCode::PartlyApplied,
            Self::FellBehind { .. } => ErrorCode::FellBehind,
            Self::WatchLost { .. } => ErrorCode::WatchUnknown,
            Self::Memory(_) => ErrorCode::ClientMemory,
            Self::ReplyMemory { .. } => ErrorCode::ReplyMemory,
            Self::Endpoint(error) => match **error {
                EndpointError::Memory(_) => ErrorCode::ClientMemory,
                _ => ErrorCode::ClientStart,
            },
        }
    }

    /// The same failure, for what had not been part of a request yet.
    pub(crate) fn not_sent(self) -> Self {
        match self {
            Self::Disconnected { node, effect, reason, .. } => {
                Self::Disconnected { node, applied: Applied::No, effect, reason }
            }
            Self::DeadlineExceeded { node, effect, timeout, .. } => {
                Self::DeadlineExceeded { node, applied: Applied::No, effect, timeout }
            }
            error => error,
        }
    }

    /// Whether it ends a request of which nobody knows whether it was applied, for want of a reply.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(
            self,
            Self::Disconnected { applied: Applied::Maybe, .. }
                | Self::DeadlineExceeded { applied: Applied::Maybe, .. }
                | Self::Refused { code: ErrorCode::Deposed, .. }
        )
    }

    /// Whether a watch that ends so has missed events.
    pub(crate) fn ends_watch(&self) -> bool {
        matches!(self, Self::FellBehind { .. } | Self::WatchLost { .. })
    }

    /// The same, where other nodes have done what this one has not.
    pub(crate) fn after_others(self) -> Self {
        match self {
            Self::PartlyApplied { .. } => self,
            _ => Self::PartlyApplied { source: Box::new(self) },
        }
    }

    /// What became of a call on `connection`, which was to have this effect.
    #[cold]
    pub(crate) fn of_call(
        connection: &Connection,
        error: CallError,
        effect: Effect,
        timeout: Duration,
    ) -> Self {
        let node = NodeName::of_peer(connection);
        match error {
            CallError::DeadlineExceeded { applied } => {
                Self::DeadlineExceeded { node, applied, effect, timeout }
            }
            CallError::Disconnected { applied, reason } => {
                Self::Disconnected { node, applied, effect, reason }
            }
            CallError::Memory(error) => Self::Memory(Arc::new(error)),
            CallError::ReplyMemory => Self::ReplyMemory { node, effect },
            // Requests are no longer than what every node has memory for. Storage nodes
            // answer every call, if they have memory for so much as an error.
            error @ (CallError::PeerMemory | CallError::Unanswered) => {
                let (applied, reason) = (error.applied(), CloseReason::Memory);
                Self::Disconnected { node, applied, effect, reason }
            }
            // Keys and values are checked before, so that a request always fits a message.
            CallError::TooLarge { len, .. } => LimitError::ValueTooLarge { len }.into(),
        }
    }

    /// What a node answered, if it was not what had been asked for.
    #[cold]
    pub(crate) fn of_reply(connection: &Connection, error: ReplyError<'_>) -> Self {
        let node = NodeName::of_peer(connection);
        match error {
            ReplyError::Refused(reply) => Self::refused(node, reply),
            ReplyError::Malformed(reason) => Self::MalformedReply { node, reason },
        }
    }

    pub(crate) fn refused(node: NodeName, reply: ErrorReply<'_>) -> Self {
        let ErrorReply { code, argument, detail } = reply;
        match code {
            ErrorCode::FellBehind => return Self::FellBehind { node },
            ErrorCode::WatchUnknown => return Self::WatchLost { node },
            _ => {}
        }
        Self::Refused { node, code, argument, detail: detail.into() }
    }
}

fn catalog_code(error: &CatalogError) -> ErrorCode {
    match error {
        CatalogError::MalformedName { .. } => ErrorCode::TableNameMalformed,
        CatalogError::Exists { .. } | CatalogError::Default => ErrorCode::TableExists,
        CatalogError::Unknown { .. } => ErrorCode::TableUnknown,
        CatalogError::Full => ErrorCode::TooManyTables,
        CatalogError::Replicas { .. } => ErrorCode::UnsupportedReplicas,
    }
}

/// Not a source: the message says all of it.
impl From<LimitError> for ClientError {
    fn from(error: LimitError) -> Self {
        Self::Limit(error)
    }
}

impl NodeName {
    pub(crate) fn of_peer(connection: &Connection) -> Self {
        let peer = connection.peer();
        Self { id: peer.node, address: peer.address.to_string().into() }
    }
}

/// Not a source: the message says all of it.
impl From<ConnectError> for Unreachable {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl Unreachable {
    /// What to do about it, as a fragment.
    fn advice(&self) -> &'static str {
        match self {
            Self::Address(AddressError::TimedOut) => "ask again, or look at the name service",
            Self::Address(_) => "correct the --advertise that it was started with",
            Self::Connect(ConnectError::ShutDown { .. }) => {
                "keep the client until its requests are answered"
            }
            Self::Connect(ConnectError::Closed { .. }) => {
                "check that the address is a node's data port, and that client and node are of \
                 matching releases"
            }
            Self::Connect(ConnectError::NotShared { .. }) => {
                "check that it runs here, or connect with --link auto"
            }
            Self::Connect(ConnectError::NoVerbs { .. }) => {
                "have it take them, or connect with --link auto"
            }
            Self::Connect(_) => "check that it runs",
            Self::OtherNode { .. } => {
                "compare the --node-id, --listen and --advertise that the two were started with"
            }
        }
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::Connect(ConnectError::ShutDown { .. }) => ErrorCode::ClientClosed,
            Self::Connect(ConnectError::Closed { .. }) | Self::OtherNode { .. } => {
                ErrorCode::HandshakeRefused
            }
            Self::Connect(_) | Self::Address(_) => ErrorCode::NotReachable,
        }
    }
}

/// A connect error without the address, which the sentence around it has already named.
struct Connecting<'a>(&'a ConnectError);

impl fmt::Display for Connecting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ConnectError::Closed {
            reason: CloseReason::BadMagic | CloseReason::Frame(_), ..
        } = self.0
        {
            return f.write_str("what answers there is no node's data port");
        }
        let text = self.0.to_string();
        f.write_str(text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason))
    }
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no address was given, or none answered in time");
        }
        for (index, Attempt { address, reason }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{address} ({reason})")?;
        }
        Ok(())
    }
}

/// What the reader may do after a request that got no reply.
struct Repeat(Effect, Applied);

impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.0, self.1) {
            (_, Applied::No) => "the request was not sent, so ask again",
            (Effect::Read, Applied::Maybe) => "a read changes nothing, so ask again",
            (Effect::Mutation, Applied::Maybe) => {
                "the request may have been applied, so read before repeating it"
            }
        })
    }
}

/// What may become of a change that the coordinators have not decided on in time.
struct Still(Applied);

impl fmt::Display for Still {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Applied::No => "were not asked to, so nothing will come of it",
            Applied::Maybe => "may do so still, so look at `kv table list` before you ask again",
        })
    }
}

struct Detail<'a>(&'a str);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.0) }
    }
}

/// The first sentence of what to do about a code, as a fragment.
struct Advice(ErrorCode);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = self.0.remedy();
        let sentence = remedy.split_once(". ").map_or(remedy, |(first, _)| first);
        let sentence = sentence.trim_end_matches('.');
        let mut characters = sentence.chars();
        match characters.next() {
            Some(first) => write!(f, "{}{}", first.to_ascii_lowercase(), characters.as_str()),
            None => Ok(()),
        }
    }
}

/// An error and each of its sources in turn.
struct Chain<'a>(&'a EndpointError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_errors_says_why_a_node_is_unreachable_once() {
        let address = ([127, 0, 0, 1], 7400).into();
        let late: Unreachable = ConnectError::DeadlineExceeded { address }.into();
        let malformed: Unreachable = AddressError::Malformed.into();
        for (error, text) in
            [(late, "no answer in time"), (malformed, "the address is not HOST:PORT")]
        {
            assert_eq!(error.to_string(), text);
            assert!(error.source().is_none());
        }
    }
}
