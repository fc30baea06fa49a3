//! A worker's edges, by the vertices that they lead to.

use super::order::Order;
use super::vertex_sums::VertexSums;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::job::graph::{Edge, too_many};
use crate::job::pagerank::KeyedLinks;
use crate::reduce::worker_of;
use crate::worker::{Worker, WorkerId};

/// Vertices that a worker may have: their sums are in twice as many slots, at least, whose numbers have 32 bits.
const VERTICES_MAX: usize = 1 << 31;

/// This worker's vertices, and the edges that begin at them, by the vertices to which they lead: what one vertex is given comes together then, and vertices come in the order in
/// which their worker has their sums.
#[derive(Debug)]
pub struct MessageLinks {
    /// In ascending order, as they follow from the input.
    identifiers: Vec<u64>,
    out_degrees: Vec<u32>,
    /// To the vertices of each worker.
    leading: Vec<Leading>,
    order: Order,
    vertices_of_all: u64,
}

/// Edges to the vertices of one worker.
#[derive(Debug)]
pub(super) struct Leading {
    /// Vertices to which an edge leads, once each, in the order of messages.
    pub(super) targets: Vec<u64>,
    /// Where the edges to each end.
    pub(super) ends: Vec<u64>,
    /// Where each edge begins, as a place among this worker's vertices.
    pub(super) sources: Vec<u32>,
}

impl MessageLinks {
    /// Spreads the edges that the workers have read. Edges that occur several times count once. Its records are of the types of
    /// [`Graph::types`](crate::job::graph::Graph::types).
    ///
    /// # Errors
    /// More than 2^31 vertices of this worker, or what an exchange fails with.
    pub fn spread(
        worker: &Worker,
        edges: impl Dataset<Item = Edge>,
    ) -> Result<MessageLinks, JobError> {
        let links = KeyedLinks::spread(worker, edges)?;
        let own = links.identifiers().len();
        if own > VERTICES_MAX {
            return Err(too_many(own as u64));
        }
        let mut edges: Vec<Vec<(u64, u32)>> = worker.ids().map(|_| Vec::new()).collect();
        for source in 0..own {
            for target in links.targets(source) {
                let to = worker_of(target, worker.workers());
                edges[to.0].push((*target, source as u32));
            }
        }
        let out_degrees = (0..own).map(|source| links.targets(source).len() as u32).collect();
        let vertices_of_all = links.vertices();
        let identifiers = links.into_identifiers();
        let order = Order::agree(worker)?;
        let leading = edges.into_iter().map(|edges| Leading::of(edges, &order)).collect();
        Ok(MessageLinks { identifiers, out_degrees, leading, order, vertices_of_all })
    }

    /// This worker's vertices, as the input names them, in ascending order.
    pub fn identifiers(&self) -> &[u64] {
        &self.identifiers
    }

    /// Vertices of all workers.
    pub fn vertices(&self) -> u64 {
        self.vertices_of_all
    }

    /// Edges that begin at this worker's vertices.
    pub fn edges(&self) -> u64 {
        self.leading.iter().map(|leading| leading.sources.len() as u64).sum()
    }

    /// Sums of zero for this worker's vertices.
    pub(super) fn sums(&self) -> VertexSums {
        VertexSums::of(&self.identifiers, self.order.clone())
    }

    #[inline]
    pub(super) fn out_degree(&self, index: usize) -> u32 {
        self.out_degrees[index]
    }

    /// The edges to the vertices of a worker.
    pub(super) fn leading_to(&self, to: WorkerId) -> &Leading {
        &self.leading[to.0]
    }

    pub(super) fn workers(&self) -> usize {
        self.leading.len()
    }
}

impl Leading {
    /// Of edges, each with its target and its source.
    fn of(mut edges: Vec<(u64, u32)>, order: &Order) -> Leading {
        edges.sort_unstable_by_key(|(target, source)| (order.of(*target), *target, *source));
        let (mut targets, mut ends) = (Vec::new(), Vec::new());
        for edges in edges.chunk_by(|one, other| one.0 == other.0) {
            targets.push(edges[0].0);
            ends.push(ends.last().copied().unwrap_or(0) + edges.len() as u64);
        }
        let sources = edges.into_iter().map(|(_, source)| source).collect();
        Leading { targets, ends, sources }
    }

    /// Where the edges to a target begin, which is given by its place.
    #[inline]
    pub(super) fn begin(&self, target: usize) -> usize {
        if target == 0 { 0 } else { self.ends[target - 1] as usize }
    }
}
