//! A directed graph, spread over the workers by vertex.

mod arrived;
mod balance;
mod bitmap;
mod columns;
mod cuts;
mod dictionary;
mod incoming;
mod index;
mod links;
mod mirrors;
mod numbering;
mod parts;
mod pieces;
mod rows;
mod spread;

use weft_object::{Pair, Types, Wire};

pub(crate) use self::dictionary::too_many;
use self::incoming::Incoming;
pub use self::links::Links;
use self::mirrors::Mirrors;
use self::spread::Spread;
use crate::budget::Required;
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
    _required: Vec<Required>,
}

/// Bytes that a vertex takes in a round: what it had, gives, is given and has then, and once more what it gives where that is read.
const ROUND_BYTES: u64 = 5 * size_of::<u64>() as u64;

impl Graph {
    /// The types of records that [`spread`](Self::spread) exchanges.
    pub fn types(types: Types) -> Types {
        Mirrors::types(Spread::types(types))
    }

    /// Spreads the edges that the workers have read. Edges that occur several times count once. Those that memory has no room for are in a file, and are read again in each round.
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or more than memory has room for; no room for edges on the disk; or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Self, JobError> {
        let _verb = worker.recorder().enter(Verb::SpreadGraph);
        let Spread { identifiers, ranges, out_degrees, mut columns, mut required } =
            Spread::of(worker, edges)?;
        let mirrors = Mirrors::balance(worker, &ranges, &out_degrees, &mut columns)?;
        let mut incoming = Incoming::agree(worker, &ranges, columns)?;
        let round_bytes = identifiers.len() as u64 * ROUND_BYTES;
        required.push(worker.spilling().budget.require(round_bytes)?);
        incoming.make_room()?;
        Ok(Self { identifiers, ranges, out_degrees, incoming, mirrors, _required: required })
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
    /// What an exchange fails with, or a file that cannot be read in which edges are.
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
