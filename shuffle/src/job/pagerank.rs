//! PageRank (Page et al., 1999), by map-reduce.
//!
//! Every round, a vertex gives its rank in equal parts to those it leads to; what vertices without
//! edges have is given to all alike. Ranks start at 1/n and sum to 1. Naos (ATC '21) measures with a
//! PageRank that adds ranks up without damping; this one has the textbook's result.

use weft_object::{Pair, Types, Wire};

use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::job::graph::Graph;
use crate::worker::Worker;

/// How to rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRank {
    /// How many rounds.
    pub iterations: usize,
    /// The part of a rank that follows edges; the rest goes to all alike.
    pub damping: f64,
}

/// A vertex and its rank.
#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Rank {
    /// The vertex, as the input names it.
    pub vertex: u64,
    /// Its rank.
    pub rank: f64,
}

impl PageRank {
    /// The types of records that [`rank`](Self::rank) exchanges.
    pub fn types(types: Types) -> Types {
        types.with::<Pair<u64, f64>>().with::<f64>().with::<Rank>()
    }

    /// The ranks of this worker's vertices, by number. `at_round` is called as each round begins.
    ///
    /// # Errors
    /// What an exchange fails with.
    pub fn rank(
        &self,
        worker: &Worker,
        graph: &Graph,
        mut at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        let (n, damping) = (graph.vertices() as f64, self.damping);
        let own = graph.identifiers().len();
        let ranks = records(std::iter::repeat_n(1.0 / n, own))
            .iterate(self.iterations, |worker, round, ranks: Vec<f64>| {
                at_round(round);
                let is_dangling = |index: &usize| graph.out_degree(*index) == 0;
                let dangling = (0..own).filter(is_dangling).map(|index| ranks[index]).sum();
                let to_all = (1.0 - damping + damping * worker.sum(dangling)?) / n;
                // A vertex gives every edge as much, whichever worker holds the edge.
                let part = |(index, rank): (usize, f64)| rank / f64::from(graph.out_degree(index));
                let parts = ranks.into_iter().enumerate().map(part).collect();
                let given = graph.combine_incoming(worker, parts, 0.0, |one, other| one + other)?;
                Ok(records(given).map(move |given| to_all + damping * given))
            })
            .to_vec(worker)?;
        let named = graph.identifiers().iter().zip(ranks);
        Ok(named.map(|(vertex, rank)| Rank { vertex: *vertex, rank }).collect())
    }
}
