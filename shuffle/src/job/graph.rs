//! A directed graph, spread over the workers by vertex.

mod arrived;
mod balance;
mod bitmap;
mod columns;
mod dictionary;
mod incoming;
mod index;
mod links;
mod mirrors;
mod numbering;
mod parts;
mod rows;
mod spread;

use weft_object::{Pair, Types, Wire};

pub(crate) use self::dictionary::too_many;
use self::incoming::Incoming;
pub use self::links::Links;
use self::mirrors::Mirrors;
use self::spread::Spread;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::reduce::Ranges;
use crate::stages::Verb;
use crate::worker::Worker;

/// An edge as it is read: the key points to the value.
pub type Edge = Pair<u64, u64>;

/// This worker's vertices and the edges that it holds.
///
/// A worker holds the edges that begin at its vertices. Only if that made some worker hold more than
/// its share of all edges and a twentieth, rounded up to whole edges, what is beyond it is held by
/// others, from the vertices with the most edges. Their holders have *mirrors* of these vertices.
#[derive(Debug)]
pub struct Graph {
    identifiers: Vec<u64>,
    ranges: Ranges,
    /// How many edges begin at each own vertex, whoever holds them.
    out_degrees: Vec<u32>,
    /// Edges that begin at own vertices, and behind them at mirrors.
    incoming: Incoming,
    mirrors: Mirrors,
}

impl Graph {
    /// The types of records that [`spread`](Self::spread) exchanges.
    pub fn types(types: Types) -> Types {
        Mirrors::types(Spread::types(types))
    }

    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Self, JobError> {
        let _verb = worker.recorder().enter(Verb::SpreadGraph);
        let Spread { identifiers, ranges, out_degrees, mut columns } = Spread::of(worker, edges)?;
        let mirrors = Mirrors::balance(worker, &ranges, &out_degrees, &mut columns)?;
        let incoming = Incoming::agree(worker, &ranges, columns)?;
        Ok(Self { identifiers, ranges, out_degrees, incoming, mirrors })
    }

    /// The vertices' identifiers in the input, in the order of their numbers.
    pub fn identifiers(&self) -> &[u64] {
        &self.identifiers
    }

    /// Vertices of all workers.
    pub fn vertices(&self) -> u64 {
        self.ranges.total()
    }

    /// Edges that this worker holds.
    pub fn edges(&self) -> u64 {
        self.incoming.edges()
    }

    /// How many edges begin at this worker's vertex `index`, whoever holds them.
    #[inline]
    pub fn out_degree(&self, index: usize) -> u32 {
        self.out_degrees[index]
    }

    /// An exchange: for each of this worker's vertices, what the vertices give from which edges lead to it, combined, and `nothing`, where `given` has what each of
    /// this worker's vertices gives along each of its edges. `combine` must not care about the order. `V` has to be one of the job's types.
    /// It is what GraphX has as `aggregateMessages`.
    ///
    /// # Errors
    /// What an exchange fails with.
    ///
    /// # Panics
    /// Unless there is a value for each of this worker's vertices.
    pub fn combine_incoming<V: Wire>(
        &self,
        worker: &Worker,
        mut given: Vec<V>,
        nothing: V,
        combine: impl Fn(V, V) -> V + Copy + Send + 'static,
    ) -> Result<Vec<V>, JobError> {
        let vertices = self.identifiers.len();
        assert_eq!(given.len(), vertices, "a value for each vertex");
        given.extend(self.mirrors.values(worker, &given)?);
        self.incoming.combine(worker, &given, vec![nothing; vertices], combine)
    }
}
