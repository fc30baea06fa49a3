//! A worker's vertices, and where the edges lead that begin at them.

use std::cell::RefCell;

use super::Edge;
use super::arrived::{Arrived, Numbered};
use super::dictionary::too_many;
use super::numbering::Numbering;
use super::rows::Rows;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::partition::{all_to_all, gather, route};
use crate::reduce::{Ranges, worker_of};
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// This worker's vertices and the edges that begin at them.
///
/// Vertices get *numbers* from 0 without holes, worker after worker, in place of the identifiers
/// that the input has, which may be any 64 bits. A worker's vertices are those whose identifiers
/// hash to it, those with the most edges first: what is looked up along edges is mostly theirs, and lies together.
#[derive(Debug)]
pub struct Links {
    pub(super) identifiers: Vec<u64>,
    pub(super) ranges: Ranges,
    pub(super) own: WorkerId,
    /// A row for each vertex.
    pub(super) targets: Rows,
}

impl Links {
    /// Spreads the edges that the workers have read. Edges that occur several times count once. Its records are of the types of [`Graph::types`](super::Graph::types).
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or what an exchange fails with.
    pub fn spread(worker: &Worker, edges: impl Dataset<Item = Edge>) -> Result<Links, JobError> {
        let _verb = worker.recorder().enter(Verb::SpreadGraph);
        let workers = worker.workers();
        let place = |identifier: &u64| worker_of(identifier, workers);
        let arrived = RefCell::new(Arrived::default());
        let take = |_, edge| {
            arrived.borrow_mut().add(edge);
            Ok(())
        };
        route(worker, edges, |edge| place(&edge.key), take)?;
        let Numbered { sources: mut own, ends, rows: outgoing } = arrived.into_inner().finish()?;

        // Every worker asks for the numbers of what its edges lead to; to be asked is also how a
        // worker learns of vertices at which no edge begins.
        let wanted = ends.iter().map(|identifier| (place(identifier), *identifier));
        let asked = all_to_all(worker, wanted)?;
        let asked = asked.by_worker;
        asked.iter().flatten().try_for_each(|identifier| own.number(*identifier).map(drop))?;
        let ranges = Ranges::of_counts(&gather(worker, own.identifiers().len() as u64)?);
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
        let received = all_to_all(worker, answers)?;
        // Answers come in the order of the questions.
        let mut answers: Vec<_> = received.by_worker.iter().map(|answers| answers.iter()).collect();
        let numbers = ends.iter().map(|identifier| {
            let from = place(identifier);
            let number = answers[from.0].next().filter(|number| ranges.of(from).contains(number));
            let what = "no number for one of its vertices";
            number.map(|number| *number as u32).ok_or_else(|| received.refuse(from, what))
        });
        let numbers = numbers.collect::<Result<Vec<u32>, _>>()?;
        if let Some(from) = answers.iter().position(|answers| answers.len() > 0) {
            return Err(received.refuse(WorkerId(from), "numbers that it was not asked for"));
        }
        drop(ends);

        let mut targets = Rows::with_capacity(own.identifiers().len(), outgoing.edges() as usize);
        for vertex in numbering.order() {
            outgoing.row(vertex).iter().for_each(|end| targets.push(numbers[*end as usize]));
            targets.end_row();
        }
        let identifiers = numbering.order().map(|vertex| own.identifiers()[vertex]).collect();
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
