//! A directed graph, spread over the workers by vertex.

mod balance;
mod mirrors;
mod targets;

use std::collections::HashMap;

use weft_object::{Pair, Types, Wire};

use self::mirrors::Mirrors;
use self::targets::Targets;
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
/// hash to it, in the order of their identifiers.
///
/// A worker holds the edges that begin at its vertices. Only if that made some worker hold more than
/// its share of all edges and a twentieth, rounded up to whole edges, what is beyond it is held by
/// others, from the vertices with the most edges. Their holders have *mirrors* of these vertices:
/// [sources](Self::sources) are both, the own vertices first.
#[derive(Debug)]
pub struct Graph {
    identifiers: Vec<u64>,
    ranges: Ranges,
    own: WorkerId,
    /// How many edges begin at each own vertex, whoever holds them.
    out_degrees: Vec<u32>,
    /// A row for each own vertex, then one for each mirror.
    targets: Targets,
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
        let own = &identifiers;
        let numbers: HashMap<u64, u32, foldhash::fast::RandomState> = records(questions)
            .map(|Pair { key: identifier, value: asker }| {
                let index = own.binary_search(&identifier).expect("who is asked for is counted");
                Numbered { asker, identifier, number: first + index as u64 }
            })
            .partition_by(|numbered| WorkerId(numbered.asker as usize % workers))
            .to_vec(worker)?
            .into_iter()
            .map(|numbered| (numbered.identifier, numbered.number as u32))
            .collect();

        let mut out_degrees = Vec::with_capacity(identifiers.len());
        let mut targets = Targets::with_capacity(identifiers.len(), edges.len());
        let mut edges = edges.into_iter().peekable();
        for identifier in &identifiers {
            let before = targets.edges();
            while let Some(edge) = edges.next_if(|edge| edge.key == *identifier) {
                let number = numbers.get(&edge.value).ok_or_else(|| {
                    JobError::Job(format!("nobody has the vertex {}", edge.value))
                })?;
                targets.push(*number);
            }
            targets.end_row();
            // No two edges are the same, so they are no more than there are vertices.
            out_degrees.push((targets.edges() - before) as u32);
        }
        let mirrors = Mirrors::balance(worker, first as u32, &mut targets)?;
        Ok(Self { identifiers, ranges, own: worker.id(), out_degrees, targets, mirrors })
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
        self.targets.edges()
    }

    /// How many sources this worker holds edges of: its vertices, and behind them its mirrors.
    pub fn sources(&self) -> usize {
        self.targets.rows()
    }

    /// The numbers of the vertices that the edges lead to which this worker holds of a source.
    #[inline]
    pub fn targets(&self, source: usize) -> &[u32] {
        self.targets.row(source)
    }

    /// How many edges begin at this worker's vertex `index`, whoever holds them.
    #[inline]
    pub fn out_degree(&self, index: usize) -> u32 {
        self.out_degrees[index]
    }

    /// The values of this worker's mirrors, in order, where `value` gives those of each worker's own
    /// vertices. An exchange, unless no worker has a mirror.
    ///
    /// # Errors
    /// What an exchange fails with.
    pub fn mirrored(
        &self,
        worker: &Worker,
        value: impl Fn(usize) -> f64,
    ) -> Result<Vec<f64>, JobError> {
        self.mirrors.values(worker, value)
    }
}
