//! PageRank (Page et al., 1999), by map-reduce.
//!
//! Every round, a vertex gives its rank in equal parts to those it leads to; what vertices without
//! edges have is given to all alike. Ranks start at 1/n and sum to 1. Naos (ATC '21) measures with a
//! PageRank that adds ranks up without damping; this one has the textbook's result.

mod indexed;
mod keyed;
mod messages;
mod naos;

use weft_object::{Pair, Types, Wire};

pub use self::keyed::KeyedLinks;
pub use self::messages::{
    Leaving, LeavingSums, LeavingUpdates, MessageLinks, NotOwn, Updates, VertexSums,
};
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::job::graph::{Edge, Graph, Links};
use crate::worker::Worker;

/// How to rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRank {
    /// How many rounds.
    pub iterations: usize,
    /// The part of a rank that follows edges; the rest goes to all alike.
    pub damping: f64,
}

/// In which shape workers send what their vertices give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Sums, in an order that was agreed on when the graph was loaded: [`Graph::combine_incoming`].
    Static,
    /// An update for each edge, by numbers of vertices: [`Dataset::reduce_by_index`].
    Indexed,
    /// An update for each edge, by identifiers of vertices: [`Dataset::reduce_by_key`].
    Keyed,
    /// An object for each edge that leads to another worker, by identifiers of vertices, as Naos's first implementation sends it: [`Dataset::exchange_graphs`].
    Naos,
    /// Sums by identifiers of vertices, as two arrays in one object, as Naos's sparsity-aware implementation sends them: the same verb.
    NaosSparse,
}

/// A graph over the workers, in one of the shapes.
#[derive(Debug)]
pub enum Shaped {
    /// For [`Shape::Static`].
    Static(Graph),
    /// For [`Shape::Indexed`].
    Indexed(Links),
    /// For [`Shape::Keyed`].
    Keyed(KeyedLinks),
    /// For [`Shape::Naos`].
    Naos(MessageLinks),
    /// For [`Shape::NaosSparse`].
    NaosSparse(MessageLinks),
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

impl Shape {
    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    ///
    /// # Errors
    /// More than 2^32 - 1 vertices, but with [`Shape::Keyed`], and more than 2^31 of one worker with Naos's shapes; or what an exchange fails with.
    pub fn spread(
        self,
        worker: &Worker,
        edges: impl Dataset<Item = Edge>,
    ) -> Result<Shaped, JobError> {
        Ok(match self {
            Shape::Static => Shaped::Static(Graph::spread(worker, edges)?),
            Shape::Indexed => Shaped::Indexed(Links::spread(worker, edges)?),
            Shape::Keyed => Shaped::Keyed(KeyedLinks::spread(worker, edges)?),
            Shape::Naos => Shaped::Naos(MessageLinks::spread(worker, edges)?),
            Shape::NaosSparse => Shaped::NaosSparse(MessageLinks::spread(worker, edges)?),
        })
    }
}

impl Shaped {
    /// Vertices of all workers.
    pub fn vertices(&self) -> u64 {
        match self {
            Shaped::Static(graph) => graph.vertices(),
            Shaped::Indexed(links) => links.vertices(),
            Shaped::Keyed(links) => links.vertices(),
            Shaped::Naos(links) | Shaped::NaosSparse(links) => links.vertices(),
        }
    }

    /// Edges that this worker holds.
    pub fn edges(&self) -> u64 {
        match self {
            Shaped::Static(graph) => graph.edges(),
            Shaped::Indexed(links) => links.edges(),
            Shaped::Keyed(links) => links.edges(),
            Shaped::Naos(links) | Shaped::NaosSparse(links) => links.edges(),
        }
    }
}

impl PageRank {
    /// The types of records that [`rank`](Self::rank) exchanges.
    pub fn types(types: Types) -> Types {
        naos::types(types.with::<Pair<u64, f64>>().with::<f64>().with::<Rank>())
    }

    /// The ranks of this worker's vertices, in any order. `at_round` is called as each round begins.
    ///
    /// # Errors
    /// What an exchange fails with.
    pub fn rank(
        &self,
        worker: &Worker,
        graph: &Shaped,
        at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        match graph {
            Shaped::Static(graph) => self.rank_by_sums(worker, graph, at_round),
            Shaped::Indexed(links) => self.rank_by_index(worker, links, at_round),
            Shaped::Keyed(links) => self.rank_by_key(worker, links, at_round),
            Shaped::Naos(links) => self.rank_by_objects(worker, links, at_round),
            Shaped::NaosSparse(links) => self.rank_by_arrays(worker, links, at_round),
        }
    }

    fn rank_by_sums(
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
                let out_degree = |index| graph.out_degree(index) as usize;
                let to_all = self.base_rank(worker, n, &ranks, out_degree)?;
                // A vertex gives every edge as much, whichever worker holds the edge.
                let part = |(index, rank): (usize, f64)| rank / f64::from(graph.out_degree(index));
                let parts = ranks.into_iter().enumerate().map(part).collect();
                let given = graph.combine_incoming(worker, parts, 0.0, |one, other| one + other)?;
                Ok(records(given).map(move |given| to_all + damping * given))
            })
            .to_vec(worker)?;
        Ok(named(graph.identifiers(), &ranks))
    }

    /// What each of `n` vertices has whatever edges lead to it, where this worker's have `ranks`, and so many edges begin at each. An exchange.
    fn base_rank(
        &self,
        worker: &Worker,
        n: f64,
        ranks: &[f64],
        out_degree: impl Fn(usize) -> usize,
    ) -> Result<f64, JobError> {
        let is_dangling = |index: &usize| out_degree(*index) == 0;
        let dangling = (0..ranks.len()).filter(is_dangling).map(|index| ranks[index]).sum();
        Ok((1.0 - self.damping + self.damping * worker.sum(dangling)?) / n)
    }
}

/// The ranks of vertices with these identifiers.
fn named(identifiers: &[u64], ranks: &[f64]) -> Vec<Rank> {
    let named = identifiers.iter().zip(ranks);
    named.map(|(vertex, rank)| Rank { vertex: *vertex, rank: *rank }).collect()
}
