//! What can go wrong between a sender and a receiver of graphs.

use weft_transport::{CallError, CloseReason, MemoryError, SendError};

use crate::error::Invalid;

/// Why a graph was not sent, or a channel not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendGraphError {
    /// The connection failed, or the deadline has passed. The receiver may have the graph, as [`CallError::applied`] says.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A segment was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// There is no memory for a segment on this side.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The receiver has other types than the sender.
    #[error("the receiver refuses the channel: {0}")]
    TypesDiffer(String),
    /// The receiver found something wrong with a graph, or had no memory for it. The channel has ended.
    #[error("the receiver refuses the graph: {0}")]
    Refused(String),
    /// The receiver is gone, and nobody will take what is sent.
    #[error("the receiver has closed the channel")]
    Closed,
    /// The receiver takes no more channels.
    #[error("the receiver has as many channels as it takes, or nobody accepts them")]
    TooMany,
    /// An earlier send was dropped when a part of its graph had left: nothing can follow it.
    #[error("an earlier send was given up in the middle: open another channel")]
    Interrupted,
    /// The answer is none. The peer is something else than a listener of graphs.
    #[error("the peer does not answer as a listener of graphs does")]
    NoListener,
}

/// Why no graph was received. The channel has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The sender has closed the channel, and all that it had sent was received.
    #[error("the sender has closed the channel")]
    Closed,
    /// The connection has ended; what had come whole was received before.
    #[error("the connection to the sender has ended: {0}")]
    Disconnected(CloseReason),
    /// The sender was dropped while a graph was on its way; all that had been sent before it was received.
    #[error("the sender has given up a graph in the middle")]
    Interrupted,
    /// What came is no graph of these types.
    #[error("graph {number} is refused: {reason}")]
    Invalid {
        /// Which one: the first sent is number 0.
        number: u64,
        /// The first thing that is wrong with it.
        reason: Invalid,
    },
    /// There is no memory for a graph.
    #[error("no memory for graph {number}: {reason}")]
    Memory {
        /// Which one: the first sent is number 0.
        number: u64,
        /// What there is and what was wanted.
        reason: MemoryError,
    },
    /// The sender does not keep to the rules.
    #[error("the sender breaks the rules: {0}")]
    Protocol(&'static str),
}
