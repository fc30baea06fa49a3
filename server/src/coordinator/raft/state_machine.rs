//! What committed commands are applied to.

use std::fmt;

/// A command's name, chosen by who proposes it and kept when it is proposed again. A proposal whose fate is unknown has to be repeated, so
/// each may be committed twice: the state machine remembers the names that it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(pub u128);

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A state that follows from the commands applied to it and from nothing else: every member applies the same ones in the same order.
pub trait StateMachine {
    /// Applies the command of the log's entry `index`, and returns what its proposer is to be told. Called with growing indices. A command
    /// whose `id` was seen before changes nothing and is answered as it was.
    fn apply(&mut self, index: u64, id: ProposalId, command: &[u8]) -> Vec<u8>;

    /// The whole state, for [`restore`](Self::restore).
    fn snapshot(&self) -> Vec<u8>;

    /// Becomes the state that `bytes` were made from.
    ///
    /// # Errors
    /// The bytes are none of a snapshot. The node then takes no further part.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError>;
}

/// A snapshot cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read a snapshot of the coordinator's state: {0}")]
pub struct RestoreError(pub String);
