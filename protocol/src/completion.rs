//! Which request of which client this is, for exactly-once effect.

/// The identity of a mutation, the same in every attempt at it: what a server remembers to answer a
/// repeated request from its completion record instead of applying it again (RIFL, SOSP '15).
///
/// In a multi-request the id is that of item 0, and item `i` has `sequence + i`. So a client that
/// has to ask again repeats the whole request unchanged, or asks for single items by single
/// requests with their own sequences; it never renumbers.
///
/// Servers decode the id and keep no completion records yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompletionId {
    /// The client, as the coordinator's lease names it.
    pub client: u64,
    /// Which of the client's mutations, from 1 on.
    pub sequence: u64,
}
