//! A directed graph, spread over the workers by vertex.

mod arrived;
mod balance;
mod dictionary;
mod incoming;
mod mirrors;
mod numbering;
mod rows;

use std::cell::RefCell;

use weft_object::{Pair, Types, Wire};

use self::arrived::Arrived;
use self::dictionary::too_many;
use self::incoming::Incoming;
use self::mirrors::Mirrors;
use self::numbering::Numbering;
use self::rows::Rows;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::partition::{all_to_all, route};
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

impl Graph {
    /// The types of records that [`spread`](Self::spread) exchanges.
    pub fn types(types: Types) -> Types {
        Mirrors::types(types.with::<Edge>().with::<u64>())
    }

    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    ///
    /// # Errors
    /// More than 2^32 vertices, or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Self, JobError> {
        let workers = worker.workers();
        let place = |identifier: &u64| worker_of(identifier, workers);
        let arrived = RefCell::new(Arrived::default());
        route(worker, edges, |edge| place(&edge.key), |_, edge| arrived.borrow_mut().add(edge))?;
        let (mut own, ends, edges) = arrived.into_inner().finish()?;
        let outgoing = Rows::of_entries(own.identifiers().len(), edges);

        // Every worker asks for the numbers of what its edges lead to; to be asked is also how a
        // worker learns of vertices at which no edge begins.
        let wanted = ends.identifiers().iter().map(|identifier| (place(identifier), *identifier));
        let asked = all_to_all(worker, wanted)?;
        asked.iter().flatten().try_for_each(|identifier| own.number(*identifier).map(drop))?;
        let ranges = Ranges::of_counts(&worker.gather(own.identifiers().len() as u64)?);
        if ranges.total() > u64::from(u32::MAX) {
            return Err(too_many(ranges.total()));
        }
        let degree = |vertex| outgoing.row(vertex).len();
        let numbering = Numbering::by_degree(own.identifiers(), degree);
        let first = ranges.of(worker.id()).start;
        let number = |identifier: &u64| {
            let vertex = own.get(*identifier).expect("who is asked for is counted");
            first + u64::from(numbering.place(vertex))
        };
        let answers = asked.iter().enumerate().flat_map(|(asker, asked)| {
            asked.iter().map(move |identifier| (WorkerId(asker), number(identifier)))
        });
        let answers = all_to_all(worker, answers)?;
        // Answers come in the order of the questions.
        let mut answers: Vec<_> = answers.iter().map(|answers| answers.iter()).collect();
        let numbers = ends.identifiers().iter().map(|identifier| {
            let from = place(identifier);
            let number = answers[from.0].next().filter(|number| ranges.of(from).contains(number));
            number.map(|number| *number as u32).ok_or_else(|| {
                JobError::Job(format!("{from} does not know its vertex {identifier}"))
            })
        });
        let numbers = numbers.collect::<Result<Vec<u32>, _>>()?;
        drop(ends);

        let mut targets = Rows::with_capacity(own.identifiers().len(), outgoing.edges() as usize);
        for vertex in numbering.order() {
            outgoing.row(vertex).iter().for_each(|end| targets.push(numbers[*end as usize]));
            targets.end_row();
        }
        // No two edges are the same, so at a vertex begin no more than there are vertices.
        let out_degrees = numbering.order().map(|vertex| degree(vertex) as u32).collect();
        let identifiers = numbering.order().map(|vertex| own.identifiers()[vertex]).collect();
        drop((outgoing, own));
        let mirrors = Mirrors::balance(worker, first as u32, &mut targets)?;
        let incoming = Incoming::turn(worker, &ranges, &targets)?;
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
