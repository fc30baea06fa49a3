//! How edges come to their workers, and vertices to their numbers.

use std::cell::RefCell;

use weft_object::Types;

use super::Edge;
use super::arrived::{Arrived, Numbered};
use super::columns::{ByNumber, COLUMN_BYTES, Columns};
use super::dictionary::too_many;
use super::index::Index;
use crate::budget::Required;
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::exchange::{NarrowEdge, exchange_edges};
use crate::partition::{all_to_all, gather};
use crate::reduce::{Ranges, worker_of};
use crate::worker::{Worker, WorkerId};

/// What it takes to read edges: some of the input at a time.
const READING_BYTES: u64 = 2 << 20;

/// Bytes that a vertex takes that others ask for: as it came, while those are looked for that are not known yet, and in their index.
const ASKED_BYTES: u64 = 24;

/// Bytes of a number that is asked for: as it comes, and with those of others in the order of the vertices.
const ANSWER_BYTES: u64 = 8;

/// Bytes of an identifier and of how many edges begin there.
const VERTEX_BYTES: u64 = 12;

/// This worker's vertices and the edges that begin at them.
///
/// Vertices get *numbers* from 0 without holes, worker after worker, in place of the identifiers
/// that the input has, which may be any 64 bits. A worker's vertices are those whose identifiers
/// hash to it, those with the most edges first: what is looked up along edges is mostly theirs, and lies together.
pub(super) struct Spread {
    /// Of the vertices, in the order of their numbers.
    pub(super) identifiers: Vec<u64>,
    pub(super) ranges: Ranges,
    /// How many edges begin at each.
    pub(super) out_degrees: Vec<u32>,
    pub(super) columns: Columns,
    /// For all of that but the edges.
    pub(super) required: Vec<Required>,
}

impl Spread {
    /// The types of records that are exchanged.
    pub(super) fn types(types: Types) -> Types {
        Arrived::types(types.with::<NarrowEdge>().with::<Edge>().with::<u64>().with::<u32>())
    }

    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, or more than memory has room for; no room for edges on the disk; or what an exchange fails with.
    pub(super) fn of(
        worker: &Worker,
        edges: impl Dataset<Item = Edge>,
    ) -> Result<Spread, JobError> {
        let workers = worker.workers();
        let place = |identifier: &u64| worker_of(identifier, workers);
        let (spilling, budget) = (worker.spilling(), &worker.spilling().budget);
        let reading = budget.require(READING_BYTES)?;
        let arrived = RefCell::new(Arrived::new(spilling)?);
        exchange_edges(
            worker,
            edges,
            |edge| place(&edge.key),
            |edge| arrived.borrow_mut().add(edge),
        )?;
        drop(reading);
        let Numbered { sources, numbering, ends, mut rows, required } =
            arrived.into_inner().finish()?;

        // Every worker asks for the numbers of what its edges lead to; to be asked is also how a
        // worker learns of vertices at which no edge begins. These come last.
        // As many are asked for here, or so, as this worker asks for.
        let expected = budget.take_anyway(ends.len() as u64 * ASKED_BYTES);
        rows.make_room()?;
        let wanted = ends.iter().map(|identifier| (place(identifier), *identifier));
        let asked = all_to_all(worker, wanted)?.by_worker;
        let asked_len: usize = asked.iter().map(Vec::len).sum();
        let asking_bytes = asked_len as u64 * ASKED_BYTES + ends.len() as u64 * ANSWER_BYTES;
        let asking = budget.require(asking_bytes)?;
        drop(expected);
        rows.make_room()?;
        let is_unknown = |identifier: &u64| sources.get(*identifier).is_none();
        let mut others: Vec<u64> = asked.iter().flatten().copied().filter(is_unknown).collect();
        others.sort_unstable();
        others.dedup();
        let other_index = Index::of(&others, asked_len)?;
        let vertices = (numbering.order().len() + others.len()) as u64;
        let of_vertices = budget.require(vertices * VERTEX_BYTES)?;
        let identifiers = [numbering.identifiers(), &others].concat();
        let ranges = Ranges::of_counts(&gather(worker, identifiers.len() as u64)?);
        if ranges.total() > u64::from(u32::MAX) {
            return Err(too_many(ranges.total()));
        }
        let mut other_places = vec![0; others.len()];
        for (place, identifier) in (numbering.order().len() as u32..).zip(&others) {
            let index = other_index.get(*identifier).expect("it is one of them");
            other_places[index as usize] = place;
        }
        let first = ranges.of(worker.id()).start as u32;
        let number = |identifier: u64| {
            let source = sources.get(identifier).map(|index| numbering.places()[index as usize]);
            let other = || other_index.get(identifier).map(|index| other_places[index as usize]);
            first + source.or_else(other).expect("who is asked for is counted")
        };
        let answers = asked.iter().enumerate().flat_map(|(asker, asked)| {
            asked.iter().map(move |identifier| (WorkerId(asker), number(*identifier)))
        });
        let received = all_to_all(worker, answers)?;
        drop(asked);
        // Answers come in the order of the questions.
        let mut answers: Vec<_> = received.by_worker.iter().map(|answers| answers.iter()).collect();
        let numbers = ends.iter().map(|identifier| {
            let from = place(identifier);
            let range = ranges.of(from);
            let number =
                answers[from.0].next().filter(|number| range.contains(&u64::from(**number)));
            let what = "no number for one of its vertices";
            number.copied().ok_or_else(|| received.refuse(from, what))
        });
        let numbers = numbers.collect::<Result<Vec<u32>, _>>()?;
        if let Some(from) = answers.iter().position(|answers| answers.len() > 0) {
            return Err(received.refuse(WorkerId(from), "numbers that it was not asked for"));
        }
        let nowhere = std::iter::repeat_n(0, others.len());
        let out_degrees = numbering.degrees().iter().copied().chain(nowhere).collect();
        drop((ends, sources, numbering, others, other_index, other_places, required, asking));

        let by_number = ByNumber::of(&numbers).map_err(|number| {
            let has = |worker: &WorkerId| ranges.of(*worker).contains(&u64::from(number));
            let from = worker.ids().find(has).unwrap_or(worker.id());
            received.refuse(from, "the same number for two of its vertices")
        })?;
        drop((numbers, received));
        let columns = Columns::of(&by_number, rows, spilling)?;
        let of_columns = budget.require(columns.targets.len() as u64 * COLUMN_BYTES)?;
        let required = vec![of_vertices, of_columns];
        Ok(Spread { identifiers, ranges, out_degrees, columns, required })
    }
}
