//! What can go wrong on the way, as enums that a caller can branch on.

mod body;

use std::io;
use std::net::SocketAddr;

use crate::frame::FrameError;
use crate::identity::{Incarnation, NodeId};
use crate::link::VerbsError;
use crate::memory::MemoryError;

pub use body::{BodyError, StopReason};

/// Whether a call that failed may have had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It never left this process whole, and never will: the peer has nothing that it could execute.
    No,
    /// It left or is still to leave, and no reply came back.
    Maybe,
}

impl std::fmt::Display for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::No => "not applied",
            Self::Maybe => "may have been applied",
        })
    }
}

/// Why a call has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The body is longer than a message may be.
    #[error("message of {len} bytes, where at most {limit} are allowed")]
    TooLarge {
        /// Bytes of the body.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// No reply came in time.
    #[error("deadline exceeded ({applied})")]
    DeadlineExceeded {
        /// Whether the request was on its way.
        applied: Applied,
    },
    /// The connection ended first.
    #[error("disconnected: {reason} ({applied})")]
    Disconnected {
        /// Whether the request had left.
        applied: Applied,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// There was no memory to write the request into.
    #[error("no memory for the request")]
    Memory(#[source] MemoryError),
    /// The peer has too little memory to take a request of this length, whenever it is sent.
    #[error("the peer has no memory for the request")]
    PeerMemory,
    /// This side has too little memory to take a reply of this length, whenever it comes. The request
    /// may have been applied.
    #[error("no memory for the reply")]
    ReplyMemory,
    /// Whoever was to reply at the peer has given that up, or had no memory for the reply. The request may have been
    /// applied.
    #[error("the peer gives no reply")]
    Unanswered,
}

impl CallError {
    /// Whether the call may have had its effect.
    pub fn applied(&self) -> Applied {
        match self {
            Self::TooLarge { .. } | Self::Memory(_) | Self::PeerMemory => Applied::No,
            Self::ReplyMemory | Self::Unanswered => Applied::Maybe,
            Self::DeadlineExceeded { applied } | Self::Disconnected { applied, .. } => *applied,
        }
    }
}

/// Why a one-way message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The body is longer than a message may be.
    #[error("message of {len} bytes, where at most {limit} are allowed")]
    TooLarge {
        /// Bytes of the body.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The connection has ended.
    #[error("disconnected: {0}")]
    Disconnected(CloseReason),
    /// There was no memory to write the message into.
    #[error("no memory for the message")]
    Memory(#[source] MemoryError),
}

/// Why nothing came of a posted buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The connection has ended first.
    #[error("disconnected: {0}")]
    Disconnected(CloseReason),
    /// The message that came is longer than the posted buffer. It waits for a receive that is posted with
    /// one that is long enough, ahead of all that came later.
    #[error(
        "message of {message} bytes, for which a buffer of {buffer} was posted: it is kept for the next \
         receive; post a longer one"
    )]
    TooLong {
        /// Bytes of the message.
        message: usize,
        /// Bytes of the buffer.
        buffer: usize,
    },
    /// The message to send is longer than any may be.
    #[error("message of {len} bytes, where at most {limit} are allowed")]
    TooLarge {
        /// Bytes to be sent.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// There was no memory to receive the message into. It is kept for the next receive.
    #[error("no memory for the message")]
    Memory(#[source] MemoryError),
    /// The endpoint was shut down while a device had the buffer to send from, and the device tells of nothing any more. The buffer does not
    /// come back, since the device may still read it: it is kept, as it is, for as long as the process lives.
    #[error("the device does not answer, and keeps the buffer that it was sending from")]
    Lost,
    /// Messages that come to this endpoint go to its handler.
    #[error(
        "messages go to this endpoint's handler: set EndpointConfig::messages to Messages::Posted"
    )]
    Handled,
}

/// Why no connection that a peer has begun could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// None has come in time.
    #[error("no peer has connected in time")]
    DeadlineExceeded,
    /// The endpoint has been shut down, and no connection is left that something can still be received from.
    #[error("no peer can connect: this endpoint is shut down")]
    ShutDown,
    /// What comes to this endpoint goes to its handler.
    #[error(
        "connections are handled by this endpoint's handler: set EndpointConfig::messages to Messages::Posted"
    )]
    Handled,
}

/// Why a connection could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The operating system refused.
    #[error("cannot connect to {address}: {}", system_words(*kind, *os_error))]
    Refused {
        /// Where to.
        address: SocketAddr,
        /// The operating system's reason.
        kind: io::ErrorKind,
        /// What the system said (`errno`), if it was the system: some of that has no kind of its own.
        os_error: Option<i32>,
    },
    /// Connections are to run over shared memory alone, and none is shared with this process there.
    #[error(
        "cannot connect to {address}: nobody there shares memory with this process, which takes \
         the same host and user, a peer that is not set to tcp and takes one more connection, and memory for it on both sides; \
         the link auto takes tcp where there is none"
    )]
    NotShared {
        /// Where to.
        address: SocketAddr,
    },
    /// Connections are to run over verbs alone, and what answers there takes none so.
    #[error(
        "cannot connect to {address}: what answers there takes no connections over verbs, which takes an RDMA \
         device and a build with the cargo feature `verbs` on both sides, and a peer that is set to auto or \
         verbs; the link auto takes tcp where there are none"
    )]
    NoVerbs {
        /// Where to.
        address: SocketAddr,
    },
    /// The connection came up and ended before the peer had said hello; or soon after, several times in a row, and
    /// the pause until the next attempt ends after the deadline.
    #[error("cannot connect to {address}: {reason}")]
    Closed {
        /// Where to.
        address: SocketAddr,
        /// Why it ended.
        reason: CloseReason,
    },
    /// It took too long.
    #[error("cannot connect to {address}: no answer in time")]
    DeadlineExceeded {
        /// Where to.
        address: SocketAddr,
    },
    /// No address of the list has been found to be this node.
    #[error("cannot connect to {node}: no address of the list leads to it")]
    UnknownNode {
        /// Which.
        node: NodeId,
    },
    /// This endpoint has been shut down.
    #[error("cannot connect to {address}: this endpoint is shut down")]
    ShutDown {
        /// Where to.
        address: SocketAddr,
    },
}

impl ConnectError {
    /// The operating system refused.
    pub(crate) fn refused(address: SocketAddr, error: &io::Error) -> Self {
        Self::Refused { address, kind: error.kind(), os_error: error.raw_os_error() }
    }
}

/// The system's own words where it said something, as a fragment; else those for the kind.
fn system_words(kind: io::ErrorKind, os_error: Option<i32>) -> String {
    let Some(os_error) = os_error else { return io::Error::from(kind).to_string() };
    let words = io::Error::from_raw_os_error(os_error).to_string();
    let words = words.strip_suffix(&format!(" (os error {os_error})")).unwrap_or(&words);
    let mut chars = words.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(words.chars().skip(1)).collect()
        }
        _ => words.to_owned(),
    }
}

/// Why an endpoint could not start or listen.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The operating system's reason.
        source: io::Error,
    },
    /// This endpoint has been shut down.
    #[error("cannot listen on {address}: this endpoint is shut down")]
    ShutDown {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The operating system refused a thread, a poller or a descriptor.
    #[error("cannot start the endpoint: {what}")]
    Start {
        /// What was refused.
        what: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Connections are to run over verbs, and cannot.
    #[error("cannot start the endpoint with verbs")]
    Verbs(#[from] VerbsError),
    /// There is no memory to receive into.
    #[error("cannot start the endpoint: no memory to receive into")]
    Memory(#[from] MemoryError),
    /// The configuration contradicts itself.
    #[error("cannot start the endpoint: {0}")]
    Config(&'static str),
}

/// Why a connection ended. Sent to the peer in a goodbye, so each reason has a stable code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed")]
    Closed,
    /// The peer ended it without a word: its process or its network is gone.
    #[error("the peer is gone")]
    PeerGone,
    /// The operating system reported an error on the link.
    #[error("link failed: {}", system_words(*kind, *os_error))]
    Link {
        /// The operating system's reason.
        kind: io::ErrorKind,
        /// What the system said (`errno`), if it was the system: some of that has no kind of its own.
        os_error: Option<i32>,
    },
    /// This endpoint was shut down.
    #[error("this endpoint is shut down")]
    ShutDown,
    /// The peer is shutting down.
    #[error("the peer is shutting down")]
    ShuttingDown,
    /// The peer does not speak this protocol.
    #[error("the peer does not speak this protocol")]
    BadMagic,
    /// The two sides share no version.
    #[error("no version in common: the peer speaks {minimum} to {maximum}")]
    Version {
        /// The oldest version the peer speaks.
        minimum: u16,
        /// The newest version the peer speaks.
        maximum: u16,
    },
    /// The bytes are no frame.
    #[error("malformed frame: {0}")]
    Frame(FrameError),
    /// A frame came that its place in the conversation does not allow.
    #[error("protocol violation: {0}")]
    Violation(&'static str),
    /// The peer sent more than it had been granted.
    #[error("window exceeded")]
    WindowExceeded,
    /// No complete hello in time.
    #[error("no hello in time")]
    HandshakeTimeout,
    /// The peer has taken nothing of what waits for it for too long.
    #[error("stalled: the peer takes nothing")]
    Stalled,
    /// The peer has begun a frame and not ended it for too long.
    #[error("unfinished: the rest of a frame does not come")]
    Unfinished,
    /// A newer incarnation of the peer has been heard of.
    #[error("stale incarnation {stale}: {node} is at {current}")]
    StaleIncarnation {
        /// Whose.
        node: NodeId,
        /// The one that was refused.
        stale: Incarnation,
        /// The newest one known.
        current: Incarnation,
    },
    /// The peer does not know the secret of this endpoint's group.
    #[error("wrong or missing secret")]
    Secret,
    /// The two nodes have a connection already.
    #[error("a connection exists already")]
    Duplicate,
    /// There are as many connections as there may be, and none is idle.
    #[error("too many connections")]
    TooManyConnections,
    /// Idle for longest, and room was needed.
    #[error("idle, and room was needed")]
    Evicted,
    /// No memory to receive into.
    #[error("no memory to receive into")]
    Memory,
    /// The peer said goodbye for a reason of its own, in its words.
    #[error("the peer ended the connection: {0}")]
    Goodbye(Goodbye),
}

impl CloseReason {
    /// Whether the peer refuses this endpoint's node, since it has heard of a newer life of it.
    pub fn is_of_earlier_life(&self) -> bool {
        matches!(self, Self::Goodbye(Goodbye { code: STALE_INCARNATION, .. }))
    }

    /// The operating system reported this on the link.
    pub(crate) fn link(error: &io::Error) -> Self {
        Self::Link { kind: error.kind(), os_error: error.raw_os_error() }
    }
}

/// Not a source: the message says all of it.
impl From<FrameError> for CloseReason {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// The number of [`CloseReason::StaleIncarnation`], where a peer gives that as its reason.
pub(crate) const STALE_INCARNATION: u16 = 9;

/// The reason that a peer gave for ending a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} (goodbye {code})")]
pub struct Goodbye {
    /// The reason's stable number; `docs/wire-format.md` lists them.
    pub code: u16,
    /// The reason in words, as the peer put it.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_refusal_says_what_the_system_did() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7400));
        for (error, words) in [
            (Errno::MFILE.into(), "too many open files"),
            (Errno::CONNREFUSED.into(), "connection refused"),
            (io::ErrorKind::ConnectionRefused.into(), "connection refused"),
        ] {
            let refused = ConnectError::refused(address, &error).to_string();
            assert_eq!(refused, format!("cannot connect to 127.0.0.1:7400: {words}"));
            assert_eq!(CloseReason::link(&error).to_string(), format!("link failed: {words}"));
        }
    }

    #[test]
    fn nothing_is_said_twice_where_an_error_is_printed_with_its_sources() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7400));
        let refused = || io::Error::from(Errno::ADDRINUSE);
        let limit = || MemoryError::Fragmented { requested_bytes: 9, largest_free_bytes: 7 };
        let link = || CloseReason::link(&Errno::NETDOWN.into());
        let (frame, applied) = (CloseReason::from(FrameError::UnknownKind(99)), Applied::Maybe);
        let errors: Vec<Box<dyn std::error::Error>> = vec![
            Box::new(frame.clone()),
            Box::new(link()),
            Box::new(CallError::Memory(limit())),
            Box::new(CallError::Disconnected { applied, reason: frame.clone() }),
            Box::new(SendError::Memory(limit())),
            Box::new(SendError::Disconnected(frame.clone())),
            Box::new(PostError::Memory(limit())),
            Box::new(PostError::Disconnected(link())),
            Box::new(BodyError::Memory(limit())),
            Box::new(BodyError::Aborted(StopReason::Memory)),
            Box::new(BodyError::Disconnected { applied, reason: link() }),
            Box::new(ConnectError::refused(address, &refused())),
            Box::new(ConnectError::Closed { address, reason: frame }),
            Box::new(EndpointError::Listen { address, source: refused() }),
            Box::new(EndpointError::Start { what: "a thread", source: refused() }),
            Box::new(EndpointError::Memory(limit())),
            Box::new(EndpointError::Verbs(VerbsError::NoDevice)),
        ];
        for error in &errors {
            let chain = std::iter::successors(Some(&**error), |error| error.source());
            let said: Vec<_> = chain.map(ToString::to_string).collect();
            for (at, source) in said.iter().enumerate().skip(1) {
                assert!(said[..at].iter().all(|above| !above.contains(&**source)), "{said:?}");
            }
        }
    }
}
