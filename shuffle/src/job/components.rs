//! Connected components: which vertices can be reached from one another when edges lead both ways.
//!
//! Every vertex begins with its own identifier and takes the least that a neighbour has, round after round, until nobody has another one than before: after as many
//! rounds as the least vertex of a component is edges away from the farthest. It is how Pregel (SIGMOD 2010) and GraphX do it.

use weft_object::{Pair, Types, Wire};

use crate::dataset::{Dataset, Round, records};
use crate::error::JobError;
use crate::job::graph::{Edge, Graph};
use crate::worker::Worker;

/// A vertex, and the component that it is in.
#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Membership {
    /// The vertex, as the input names it.
    pub vertex: u64,
    /// The least vertex of its component.
    pub component: u64,
}

/// The types of records that [`components`] and [`both_ways`] exchange, and what a job of them gathers.
pub fn types(types: Types) -> Types {
    Graph::types(types).with::<Pair<u64, u64>>()
}

/// The edges, and the same the other way round.
pub fn both_ways(edges: impl Dataset<Item = Edge>) -> impl Dataset<Item = Edge> {
    edges.flat_map(|edge| [edge, Pair { key: edge.value, value: edge.key }])
}

/// The components of this worker's vertices, where each edge of `graph` is there [both ways](both_ways). `at_round` is called as each round begins.
///
/// # Errors
/// What an exchange fails with.
pub fn components(
    worker: &Worker,
    graph: &Graph,
    mut at_round: impl FnMut(usize),
) -> Result<Vec<Membership>, JobError> {
    let least = records(graph.identifiers().iter().copied())
        .iterate_until(usize::MAX, |worker, round, known: Vec<u64>| {
            at_round(round);
            let nothing = u64::MAX;
            let heard = graph.combine_incoming(worker, known.clone(), nothing, u64::min)?;
            let least: Vec<u64> =
                known.iter().zip(heard).map(|(own, heard)| heard.min(*own)).collect();
            let changed = known.iter().zip(&least).filter(|(known, least)| known != least).count();
            let changed = worker.gather(changed as u64)?.iter().sum::<u64>();
            let least = records(least);
            Ok(if changed > 0 { Round::Next(least) } else { Round::Last(least) })
        })
        .to_vec(worker)?;
    let named = graph.identifiers().iter().zip(least);
    Ok(named.map(|(vertex, component)| Membership { vertex: *vertex, component }).collect())
}
