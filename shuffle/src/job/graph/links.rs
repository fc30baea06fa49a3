//! A worker's vertices, and where the edges lead that begin at them.

use super::Edge;
use super::rows::Rows;
use super::spread::Spread;
use crate::budget::Required;
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
    /// How many edges begin at each vertex.
    out_degrees: Vec<u32>,
    /// A row for each vertex but the last ones, at which none begins.
    targets: Rows,
    _required: Vec<Required>,
}

impl Links {
    /// Spreads the edges that the workers have read. Edges that occur several times count once. Its records are of the types of [`Graph::types`](super::Graph::types).
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or more than memory has room for; no room for edges on the disk; or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Links, JobError> {
        let _verb = worker.recorder().enter(Verb::SpreadGraph);
        let Spread { identifiers, ranges, out_degrees, columns, required } =
            Spread::of(worker, edges)?;
        let targets = columns.turned(&out_degrees, worker.spilling())?;
        let own = worker.id();
        Ok(Links { identifiers, ranges, own, out_degrees, targets, _required: required })
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

    /// How many edges begin at this worker's vertex `index`.
    #[inline]
    pub fn out_degree(&self, index: usize) -> u32 {
        self.out_degrees[index]
    }

    /// Calls `each` with each of this worker's vertices, in order, and the numbers of the vertices to which edges lead from it.
    ///
    /// # Errors
    /// What `each` fails with, or a file that cannot be read in which the edges are.
    #[inline]
    pub fn for_each(
        &self,
        mut each: impl FnMut(usize, &[u32]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let rows = self.targets.rows();
        self.targets.for_each(0..rows, &mut each)?;
        (rows..self.identifiers.len()).try_for_each(|index| each(index, &[]))
    }
}
