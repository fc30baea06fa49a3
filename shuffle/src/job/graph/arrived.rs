//! What has come of the edges that begin at a worker's vertices.

use super::Edge;
use super::dictionary::Dictionary;
use crate::error::JobError;

/// Edges whose identifiers are looked up in a row. A look-up waits for memory, and the processor begins the next ones meanwhile if nothing else stands between
/// them, such as the parsing of a line.
const BATCH: usize = 1024;

/// Edges, as numbers of their ends.
#[derive(Default)]
pub(super) struct Arrived {
    sources: Dictionary,
    targets: Dictionary,
    /// Numbers of the one and of the other.
    edges: Vec<[u32; 2]>,
    batch: Vec<Edge>,
}

impl Arrived {
    /// Takes one more.
    ///
    /// # Errors
    /// There are more vertices than numbers.
    #[inline]
    pub(super) fn add(&mut self, edge: Edge) -> Result<(), JobError> {
        self.batch.push(edge);
        if self.batch.len() < BATCH { Ok(()) } else { self.number() }
    }

    /// The numbers of sources and of targets, and an entry of both for each edge.
    ///
    /// # Errors
    /// There are more vertices than numbers.
    pub(super) fn finish(mut self) -> Result<(Dictionary, Dictionary, Vec<[u32; 2]>), JobError> {
        self.number()?;
        Ok((self.sources, self.targets, self.edges))
    }

    fn number(&mut self) -> Result<(), JobError> {
        let first = self.edges.len();
        for edge in &self.batch {
            self.edges.push([self.sources.number(edge.key)?, 0]);
        }
        for (edge, [_, target]) in self.batch.drain(..).zip(&mut self.edges[first..]) {
            *target = self.targets.number(edge.value)?;
        }
        Ok(())
    }
}
