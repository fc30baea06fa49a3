//! Graphs over several workers.

use std::collections::{BTreeMap, BTreeSet};

use weft_shuffle::job::graph::{Edge, Graph};
use weft_shuffle::{WorkerId, records, worker_of};

use crate::threads::{run, share};

/// Edges of a hub to and from all, whose edges no worker holds alone, of a ring, and some that occur twice.
fn edge(number: u64) -> (u64, u64) {
    const HUB: u64 = 7;
    let vertex = number / 4 * 3;
    match number % 4 {
        0 => (HUB, vertex),
        1 => (vertex, HUB),
        2 => (vertex, vertex + 3),
        _ => (vertex % 30, vertex % 42),
    }
}

const EDGES: u64 = 20_000;

/// What is given to each vertex, by a plain program; vertices to which no edge leads have `nothing`.
fn plain(nothing: u64, combine: impl Fn(u64, u64) -> u64) -> BTreeMap<u64, u64> {
    let edges: BTreeSet<(u64, u64)> = (0..EDGES).map(edge).collect();
    let ends = edges.iter().flat_map(|(from, to)| [*from, *to]);
    let mut given: BTreeMap<u64, u64> = ends.map(|vertex| (vertex, nothing)).collect();
    for (from, to) in edges {
        given.entry(to).and_modify(|sum| *sum = combine(*sum, value(from)));
    }
    given
}

/// Of which no sums of some are those of others.
fn value(vertex: u64) -> u64 {
    vertex.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

#[test]
fn what_is_given_along_edges_is_combined_where_they_lead() {
    let sum = |one: u64, other: u64| one + other;
    for (nothing, combine) in [(0, sum as fn(u64, u64) -> u64), (u64::MAX, u64::min)] {
        let expected = plain(nothing, combine);
        for workers in [1, 2, 3, 5] {
            let parts = run(workers, |worker| {
                let own = records(share(worker, EDGES).map(|number| {
                    let (key, value) = edge(number);
                    Edge { key, value }
                }));
                let graph = Graph::spread(worker, own).unwrap();
                let here = graph.identifiers().to_vec();
                let is_here =
                    |vertex: &u64| worker_of(vertex, worker.workers()) == WorkerId(worker.id().0);
                assert!(here.iter().all(is_here), "a vertex is where its hash says");
                let degrees: Vec<u32> = (0..here.len()).map(|at| graph.out_degree(at)).collect();
                assert!(degrees.is_sorted_by(|one, other| one >= other), "most edges first");
                // Twice, as a round does not spoil what the next one needs.
                let given = || here.iter().copied().map(value).collect();
                let round = || graph.combine_incoming(worker, given(), nothing, combine).unwrap();
                let sums = round();
                assert_eq!(sums, round());
                (here.into_iter().zip(sums).collect::<Vec<_>>(), graph.edges())
            });
            let edges: BTreeSet<(u64, u64)> = (0..EDGES).map(edge).collect();
            let held: Vec<u64> = parts.iter().map(|(_, held)| *held).collect();
            assert_eq!(held.iter().sum::<u64>(), edges.len() as u64);
            let found: BTreeMap<u64, u64> = parts.into_iter().flat_map(|(sums, _)| sums).collect();
            assert_eq!(found, expected, "{workers} workers");
        }
    }
}
