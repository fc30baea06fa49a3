//! A graph that is complete.

use std::marker::PhantomData;

use weft_transport::{Memory, MemoryError, Purpose, Shared};

use crate::assembly::{Assembly, Limits};
use crate::compact;
use crate::error::Invalid;
use crate::segment::Segment;
use crate::types::Types;
use crate::view::View;

/// A graph with a root of type `R` of which nothing changes any more: segments, to be sent one after the other.
#[derive(Debug)]
pub struct Frozen<R> {
    segments: Vec<Segment>,
    types: Types,
    dead_bytes: u64,
    root: PhantomData<fn() -> R>,
}

impl<R> Clone for Frozen<R> {
    fn clone(&self) -> Self {
        Self::new(self.segments.clone(), self.types.clone(), self.dead_bytes)
    }
}

impl<R> Frozen<R> {
    pub(crate) fn new(segments: Vec<Segment>, types: Types, dead_bytes: u64) -> Self {
        Self { segments, types, dead_bytes, root: PhantomData }
    }

    /// The segments, in the order in which they are sent. The last has the root.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The types that it may be made of, as they are told to its receiver.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Bytes that are sent: heads and pages.
    pub fn len_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len() as u64).sum()
    }

    /// Bytes of them that were said to be [abandoned](crate::Graph::abandon).
    pub fn dead_bytes(&self) -> u64 {
        self.dead_bytes
    }

    /// The graph as its receiver sees it, where it lies here. It is checked as any other: a link that was taken from another
    /// graph is found now, unless it leads to an object of its type here, too.
    ///
    /// # Errors
    /// An object leads where it may not.
    pub fn view(&self) -> Result<View<Shared>, Invalid> {
        let mut assembly = Assembly::new(&self.types, Limits::NONE);
        for segment in &self.segments {
            assembly.add_split(segment.head(), segment.pages().clone())?;
        }
        assembly.finish()
    }

    /// The same graph without what nothing leads to, in new memory. The one operation that goes through the objects, along their
    /// links, without recursion: a bit for each four bytes beside the graph, and 16 bytes for each object that was found and not gone through yet.
    ///
    /// # Errors
    /// There is no memory for it, or an object leads where it may not.
    pub fn compact(&self, memory: &Memory, purpose: Purpose) -> Result<Frozen<R>, CompactError> {
        let view = self.view()?;
        let segments = compact::compact(&view, memory, purpose)?;
        Ok(Self::new(segments, self.types.clone(), 0))
    }
}

/// Why a graph was not compacted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    /// It was built with a link of another graph.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no memory for the new one.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
