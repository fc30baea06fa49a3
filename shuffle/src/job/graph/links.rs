//! A worker's vertices, and where the edges lead that begin at them.

use super::Edge;
use super::rows::Rows;
use super::spread::Spread;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::reduce::Ranges;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// This worker's vertices and the edges that begin at them, by where they begin. Vertices have numbers, as those of a [`Graph`](super::Graph).
#[derive(Debug)]
pub struct Links {
    identifiers: Vec<u64>,
    ranges: Ranges,
    own: WorkerId,
    /// A row for each vertex.
    targets: Rows,
}

impl Links {
    /// Spreads the edges that the workers have read. Edges that occur several times count once. Its records are of the types of [`Graph::types`](super::Graph::types).
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Links, JobError> {
        let _verb = worker.recorder().enter(Verb::SpreadGraph);
        let Spread { identifiers, ranges, out_degrees, columns } = Spread::of(worker, edges)?;
        let targets = columns.turned(&out_degrees);
        Ok(Links { identifiers, ranges, own: worker.id(), targets })
    }

    /// The vertices' identifiers in the input, in the order of their numbers.
    pub fn identifiers(&self) -> &[u64] {
        &self.identifiers
    }

    /// Which worker has which numbers.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The number of this worker's first vertex.
    pub fn first(&self) -> u64 {
        self.ranges.of(self.own).start
    }

    /// Vertices of all workers.
    pub fn vertices(&self) -> u64 {
        self.ranges.total()
    }

    /// Edges that begin at this worker's vertices.
    pub fn edges(&self) -> u64 {
        self.targets.edges()
    }

    /// The numbers of the vertices to which edges lead from this worker's vertex `index`.
    #[inline]
    pub fn targets(&self, index: usize) -> &[u32] {
        self.targets.row(index)
    }
}
