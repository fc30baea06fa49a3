//! A directed graph, spread over the workers by vertex.

mod balance;
mod incoming;
mod mirrors;
mod numbering;
mod rows;

use std::collections::HashMap;

use weft_object::{Pair, Types, Wire};

use self::incoming::Incoming;
use self::mirrors::Mirrors;
use self::numbering::Numbering;
use self::rows::Rows;
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::reduce::{Ranges, worker_of};
use crate::worker::{Worker, WorkerId};

/// An edge as it is read: the key points to the value.
pub type Edge = Pair<u64, u64>;

/// This worker's vertices and the edges that it holds.
///
/// Vertices get *numbers* from 0 without holes, worker after worker, in place of the identifiers
/// that the input has, which may be any 64 bits. A worker's vertices are those whose identifiers
/// hash to it, those with the most edges first: what is looked up along edges is mostly theirs, and lies together.
///
/// A worker holds the edges that begin at its vertices. Only if that made some worker hold more than
/// its share of all edges and a twentieth, rounded up to whole edges, what is beyond it is held by
/// others, from the vertices with the most edges. Their holders have *mirrors* of these vertices.
#[derive(Debug)]
pub struct Graph {
    identifiers: Vec<u64>,
    ranges: Ranges,
    own: WorkerId,
    /// How many edges begin at each own vertex, whoever holds them.
    out_degrees: Vec<u32>,
    /// Edges that begin at own vertices, and behind them at mirrors.
    incoming: Incoming,
    mirrors: Mirrors,
}

/// What the worker that has a vertex says to one that asked for its number.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Numbered {
    asker: u64,
    identifier: u64,
    number: u64,
}

impl Graph {
    /// The types of records that [`spread`](Self::spread) exchanges.
    pub fn types(types: Types) -> Types {
        Mirrors::types(types.with::<Edge>().with::<Numbered>().with::<u64>())
    }

    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    ///
    /// # Errors
    /// More than 2^32 vertices, or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Self, JobError> {
        let workers = worker.workers();
        let place = |identifier: &u64| worker_of(identifier, workers);
        let mut edges = edges.partition_by(|edge| place(&edge.key)).to_vec(worker)?;
        edges.sort_unstable_by_key(|edge| (edge.key, edge.value));
        edges.dedup();

        // Every worker asks for the numbers of what its edges lead to; to be asked is also how a
        // worker learns of vertices at which no edge begins.
        let mut wanted: Vec<u64> = edges.iter().map(|edge| edge.value).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let asker = worker.id().0 as u64;
        let questions = records(wanted)
            .map(|identifier| Pair { key: identifier, value: asker })
            .partition_by(|question| place(&question.key))
            .to_vec(worker)?;
        let begins = edges.iter().map(|edge| edge.key);
        let mut identifiers: Vec<u64> =
            begins.chain(questions.iter().map(|question| question.key)).collect();
        identifiers.sort_unstable();
        identifiers.dedup();
        let ranges = Ranges::of_counts(&worker.gather(identifiers.len() as u64)?);
        if ranges.total() > u64::from(u32::MAX) {
            let found = ranges.total();
            return Err(JobError::Job(format!("{found} vertices, where 2^32 - 1 are the limit")));
        }

        let first = ranges.of(worker.id()).start;
        let own = Numbering::by_degree(identifiers, &edges);
        let numbers: HashMap<u64, u32, foldhash::fast::RandomState> = records(questions)
            .map(|Pair { key: identifier, value: asker }| {
                let index = own.index_of(identifier).expect("who is asked for is counted");
                Numbered { asker, identifier, number: first + index as u64 }
            })
            .partition_by(|numbered| WorkerId(numbered.asker as usize % workers))
            .to_vec(worker)?
            .into_iter()
            .map(|numbered| (numbered.identifier, numbered.number as u32))
            .collect();

        let mut targets = Rows::with_capacity(own.len(), edges.len());
        for index in 0..own.len() {
            for edge in &edges[own.edges(index)] {
                let number = numbers.get(&edge.value).ok_or_else(|| {
                    JobError::Job(format!("nobody has the vertex {}", edge.value))
                })?;
                targets.push(*number);
            }
            targets.end_row();
        }
        drop(edges);
        let mirrors = Mirrors::balance(worker, first as u32, &mut targets)?;
        let incoming = Incoming::turn(worker, &ranges, &targets)?;
        let (identifiers, out_degrees) = own.into_parts();
        Ok(Self { identifiers, ranges, own: worker.id(), out_degrees, incoming, mirrors })
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
    /// this worker's vertices gives along each of its edges. `combine` must not care about the order. `V` and `Pair<u64, V>` have to be of the job's types.
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
