//! What can go wrong with a call and with an import.

use weft_transport::{Applied, CallError, MemoryError};

use crate::error::{Fault, Invalid, OtherRoot, TypesDiffer};
use crate::fingerprint::Fingerprint;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The transport has brought no reply: the deadline has passed, the connection has ended, or there was no memory.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Who was called has refused.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The reply is none of this method. The call has been applied, by a peer that is not what it said it was.
    #[error("the reply cannot be read: {0}")]
    Reply(Malformed),
    /// A graph was built with another list of types than the interface's, which the peer has not been told of. Nothing was sent.
    #[error(
        "the graph was built with other types than those of the interface: build it with the client's types()"
    )]
    GraphTypes,
    /// A service was passed that cannot be counted: the peer has as many references as it may. Nothing was sent.
    #[error("the peer holds {limit} references, as many as one may")]
    TooManyReferences {
        /// How many it may hold.
        limit: usize,
    },
    /// A service that was received speaks another version, and does not serve what is known here.
    #[error("the service that was passed cannot be used: {0}")]
    Import(Box<ImportError>),
}

impl ServiceError {
    /// Whether the call may have had its effect.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Call(error) => error.applied(),
            Self::Refused(refusal) => refusal.applied(),
            Self::Reply(_) => Applied::Maybe,
            Self::GraphTypes | Self::TooManyReferences { .. } | Self::Import(_) => Applied::No,
        }
    }
}

/// Why who was called has given no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The reference is none of the caller's: it was released, the connection that it was given over has ended, or it never was one.
    #[error("no such object: the reference was released, or its connection has ended")]
    NoObject,
    /// The object has no such method.
    #[error("no such method")]
    NoMethod,
    /// The arguments are none of the method's.
    #[error("the arguments cannot be read: {what}")]
    Arguments {
        /// What is wrong with them.
        what: String,
    },
    /// Who was called has as many references of this side's as it takes of one peer.
    #[error("the peer takes no more references of this side's: it has as many as it may")]
    TooManyReferences,
    /// Who was called has no memory to keep the call in until there is a thread for it.
    #[error("the peer has no memory to keep the call in")]
    Memory,
    /// The result cannot be sent: it is too long, or a graph that was built with other types than the interface's. The call has been applied.
    #[error("the result cannot be sent: {what}")]
    Result {
        /// What is wrong with it.
        what: String,
    },
}

impl Refusal {
    /// Whether the call may have had its effect.
    pub fn applied(&self) -> Applied {
        match self {
            Self::NoObject
            | Self::NoMethod
            | Self::Arguments { .. }
            | Self::TooManyReferences
            | Self::Memory => Applied::No,
            Self::Result { .. } => Applied::Maybe,
        }
    }
}

/// Why bytes are not the items that they are said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end within an item.
    #[error("of {len} bytes, those of an item at byte {at} are missing")]
    Truncated {
        /// Where the item begins.
        at: usize,
        /// How many bytes there are.
        len: usize,
    },
    /// What fills up to the next item is not zero.
    #[error("byte {at} lies between items and is not zero")]
    Reserved {
        /// Where it lies.
        at: usize,
    },
    /// An item is no value of its type.
    #[error("what lies at byte {at} is no value: {fault}")]
    Value {
        /// Where it begins.
        at: usize,
        /// What is wrong.
        fault: Fault,
    },
    /// A text is not UTF-8.
    #[error("the text at byte {at} is not UTF-8")]
    Text {
        /// Where it begins.
        at: usize,
    },
    /// A graph is none.
    #[error("the graph at byte {at}: {invalid}")]
    Graph {
        /// Where it begins.
        at: usize,
        /// What is wrong.
        invalid: Invalid,
    },
    /// A graph has another root.
    #[error("the graph at byte {at}: {root}")]
    Root {
        /// Where it begins.
        at: usize,
        /// Which.
        root: OtherRoot,
    },
    /// Something follows the last item.
    #[error("{len} bytes, of which items take {at}")]
    Rest {
        /// Where the last item ends.
        at: usize,
        /// How many bytes there are.
        len: usize,
    },
    /// A reference is one more than this side takes of one peer.
    #[error(
        "the peer has passed or given {limit} references that are held here, as many as it may"
    )]
    TooManyReferences {
        /// How many it may.
        limit: usize,
    },
    /// It is not what the two sides have agreed on.
    #[error("the peer does not keep to what was agreed on: {what}")]
    Disagreed {
        /// What it does not keep to.
        what: &'static str,
    },
}

/// Why a service cannot be imported.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The transport has brought no reply.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Nothing is exported under the name.
    #[error("nothing is exported under the name {name:?}")]
    NoName {
        /// The name that was asked for.
        name: String,
    },
    /// The reference that was passed is there no more.
    #[error("the object is there no more: its reference was released")]
    NoObject,
    /// What is exported under the name has another interface.
    #[error("the interface is {ours_name} here ({ours}) and {theirs_name} there ({theirs})")]
    OtherInterface {
        /// What it is called here.
        ours_name: &'static str,
        /// Its fingerprint here.
        ours: Fingerprint,
        /// What it is called there.
        theirs_name: String,
        /// Its fingerprint there.
        theirs: Fingerprint,
    },
    /// The exported interface lacks a method that is known here.
    #[error(
        "{interface} has no method {method} there: the interface is {ours} here and {theirs} there"
    )]
    MissingMethod {
        /// The interface.
        interface: &'static str,
        /// The method.
        method: &'static str,
        /// The interface's fingerprint here.
        ours: Fingerprint,
        /// The interface's fingerprint there.
        theirs: Fingerprint,
    },
    /// A method takes or gives other types there.
    #[error(
        "{interface}::{method} is {ours} here and {theirs} there: it takes or gives other types"
    )]
    OtherMethod {
        /// The interface.
        interface: &'static str,
        /// The method.
        method: &'static str,
        /// The method's fingerprint here.
        ours: Fingerprint,
        /// The method's fingerprint there.
        theirs: Fingerprint,
    },
    /// A type of the graphs that go either way has another layout there.
    #[error("the types of graphs differ: {0}")]
    Types(#[from] TypesDiffer),
    /// This side holds as many references there as one may, or has told of as many lists of types as there may be, or the exporter has no memory for
    /// the list.
    #[error(
        "the peer gives no more references to this side: it holds as many as one may, or there is no memory for what it tells of types"
    )]
    TooManyReferences,
    /// There is no memory for the exporter's list of types.
    #[error("no memory for the exporter's list of types: {0}")]
    Memory(#[source] MemoryError),
    /// The reply cannot be read.
    #[error("the reply cannot be read: {0}")]
    Reply(#[from] Malformed),
}
