//! Which request of which client this is, for exactly-once effect.

use crate::error::DecodeError;

/// The identity of a mutation, the same in every attempt at it: what a server remembers to answer a
/// repeated request from its completion record instead of applying it again (RIFL, SOSP '15).
///
/// In a multi-request the id is that of item 0, and item `i` has `sequence + i`. An item of which it is not known whether it was
/// applied keeps its sequence: who asks again repeats the request, or a part of it whose sequences follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompletionId {
    /// The client, as its lease names it; never 0.
    pub client: u64,
    /// Which of the client's mutations, from 1 on.
    pub sequence: u64,
}

impl CompletionId {
    /// The identity of item `index` of the multi-request that this is the id of.
    #[must_use]
    pub const fn item(self, index: usize) -> Self {
        Self { client: self.client, sequence: self.sequence + index as u64 }
    }
}

/// What a mutation tells of itself and of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Which mutation it is.
    pub id: CompletionId,
    /// The least sequence that the client still waits for, or may ask for again; at most that of the id. What was remembered
    /// of lower ones can be forgotten, and a request with a lower one is refused ([`RequestForgotten`](crate::ErrorCode::RequestForgotten)).
    pub first_incomplete: u64,
}

impl Completion {
    /// How far behind a mutation's sequence the first incomplete one may be: what the wire carries.
    pub const SPAN_MAX: u64 = u32::MAX as u64;

    /// What item `index` of the multi-request that this is of tells.
    #[must_use]
    pub const fn item(self, index: usize) -> Self {
        Self { id: self.id.item(index), first_incomplete: self.first_incomplete }
    }

    /// The completion of a message that says so, of a request with `count` items.
    #[inline]
    pub(crate) fn checked(
        client: u64,
        sequence: u64,
        span: u32,
        count: u32,
    ) -> Result<Self, DecodeError> {
        let first_incomplete = sequence.checked_sub(u64::from(span)).filter(|first| *first > 0);
        let last = sequence.checked_add(u64::from(count));
        match (first_incomplete, last) {
            (Some(first_incomplete), Some(_)) if client != 0 => {
                Ok(Self { id: CompletionId { client, sequence }, first_incomplete })
            }
            _ => Err(DecodeError::CompletionOutOfRange { client, sequence, span }),
        }
    }

    /// How far the first incomplete sequence is behind this one.
    #[inline]
    pub(crate) fn span(&self) -> u32 {
        (self.id.sequence - self.first_incomplete) as u32
    }
}
