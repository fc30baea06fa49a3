//! PageRank as Naos (Taranov et al., ATC '21) measures with it: updates as objects, an object each, or as arrays in one object.
//!
//! Naos's first implementation sends collections of update objects, one an edge; its sparsity-aware one combines what goes to a vertex before, and sends arrays of those that get something. What is the same here
//! is what is sent. The ranks are those of the other shapes, with damping, where Naos's program adds them up.

use weft_object::{Link, Root, Seq, Types, Wire};

use super::messages::{LeavingSums, LeavingUpdates, MessageLinks, NotOwn};
use super::{PageRank, Rank};
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::worker::{Worker, WorkerId};

/// Updates that one record leads to: with their links, a segment of 64 KiB.
const UPDATES_LEN: usize = 3200;

/// Sums that one record leads to: a segment of 64 KiB.
const SUMS_LEN: usize = 4000;

/// What a vertex is given along one edge.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Update {
    vertex: u64,
    value: f64,
}

/// A collection of them, as Naos sends an array of references.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Collection {
    updates: Seq<Link<Update>>,
}

/// What vertices are given by all of a worker's, in the same order in both arrays.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Sums {
    vertices: Seq<u64>,
    values: Seq<f64>,
}

pub(super) fn types(types: Types) -> Types {
    types.with::<Root<Collection>>().with::<Root<Sums>>()
}

impl PageRank {
    /// The ranks of this worker's vertices; each edge to a vertex of another worker has an update, which is an object.
    pub(super) fn rank_by_objects(
        &self,
        worker: &Worker,
        links: &MessageLinks,
        at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        self.rank_by_messages(worker, links, at_round, |worker, leaving, sums| {
            records(leaving.updates(UPDATES_LEN)).exchange_graphs(
                worker,
                LeavingUpdates::to,
                |leaving, graph| {
                    let update = |(vertex, value)| Update { vertex, value };
                    let updates = graph.linked(leaving.iter().map(update))?;
                    graph.alloc(Collection { updates })
                },
                |from, collection: &Collection, view| {
                    let updates = view.linked(collection.updates);
                    let updates = updates.map(|update| (update.vertex, update.value));
                    sums.add_all(updates).map_err(|other| refuse(from, other))
                },
            )
        })
    }

    /// The same; what this worker's vertices give to a vertex is combined, and sent in arrays.
    pub(super) fn rank_by_arrays(
        &self,
        worker: &Worker,
        links: &MessageLinks,
        at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        self.rank_by_messages(worker, links, at_round, |worker, leaving, sums| {
            records(leaving.sums(SUMS_LEN)).exchange_graphs(
                worker,
                LeavingSums::to,
                |leaving, graph| {
                    let vertices = graph.seq(leaving.vertices())?;
                    let values = graph.seq_from(leaving.values())?;
                    graph.alloc(Sums { vertices, values })
                },
                |from, arrays: &Sums, view| {
                    let (vertices, values) = (view.seq(arrays.vertices), view.seq(arrays.values));
                    if vertices.len() != values.len() {
                        return Err(JobError::Job(format!("{from} sends arrays of two lengths")));
                    }
                    let sums_given = vertices.iter().copied().zip(values.iter().copied());
                    sums.add_all(sums_given).map_err(|other| refuse(from, other))
                },
            )
        })
    }
}

/// The error of who gives to a vertex of others.
#[cold]
fn refuse(from: WorkerId, NotOwn { vertex }: NotOwn) -> JobError {
    JobError::Job(format!("{from} gives to vertex {vertex}, which is none of this worker's"))
}
