//! An update for each edge, combined in a hash table.

use std::collections::HashMap;
use std::ops::Range;

use weft_object::Pair;

use super::{PageRank, Rank};
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::job::graph::Edge;
use crate::reduce::worker_of;
use crate::worker::Worker;

/// This worker's vertices and the edges that begin at them, by identifiers, as the verbs alone make them.
#[derive(Debug)]
pub struct KeyedLinks {
    /// Which of the targets each vertex has.
    vertices: HashMap<u64, Range<usize>, foldhash::fast::RandomState>,
    targets: Vec<u64>,
    vertices_of_all: u64,
}

impl KeyedLinks {
    /// Spreads the edges that the workers have read. Edges that occur several times count once.
    pub(super) fn spread(
        worker: &Worker,
        edges: impl Dataset<Item = Edge>,
    ) -> Result<KeyedLinks, JobError> {
        let mut edges =
            edges.partition_by(|edge| worker_of(&edge.key, worker.workers())).to_vec(worker)?;
        edges.sort_unstable_by_key(|edge| (edge.key, edge.value));
        edges.dedup();
        let ends = edges.iter().flat_map(|edge| [edge.key, edge.value]);
        let vertices = records(ends)
            .map(|key| Pair { key, value: 0 })
            .reduce_by_key(|one: u64, _| one)
            .map(|vertex| (vertex.key, 0..0))
            .to_vec(worker)?;
        let mut vertices: HashMap<_, _, _> = vertices.into_iter().collect();
        let mut begin = 0;
        for run in edges.chunk_by(|one, other| one.key == other.key) {
            vertices.insert(run[0].key, begin..begin + run.len());
            begin += run.len();
        }
        let vertices_of_all = worker.gather(vertices.len() as u64)?.iter().sum();
        let targets = edges.into_iter().map(|edge| edge.value).collect();
        Ok(KeyedLinks { vertices, targets, vertices_of_all })
    }

    pub(super) fn vertices(&self) -> u64 {
        self.vertices_of_all
    }

    pub(super) fn edges(&self) -> u64 {
        self.targets.len() as u64
    }

    fn targets(&self, vertex: u64) -> &[u64] {
        &self.targets[self.vertices[&vertex].clone()]
    }
}

impl PageRank {
    /// The ranks of this worker's vertices, written with the verbs alone: each edge has an update, whose key is the identifier of the vertex to which the edge leads.
    pub(super) fn rank_by_key(
        &self,
        worker: &Worker,
        links: &KeyedLinks,
        mut at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        let (n, damping) = (links.vertices() as f64, self.damping);
        records(links.vertices.keys().map(|vertex| Rank { vertex: *vertex, rank: 1.0 / n }))
            .iterate(self.iterations, |worker, round, ranks: Vec<Rank>| {
                at_round(round);
                let is_dangling = |rank: &&Rank| links.targets(rank.vertex).is_empty();
                let dangling = ranks.iter().filter(is_dangling).map(|rank| rank.rank).sum();
                let to_all = self.base_rank(worker, n, dangling)?;
                Ok(records(ranks)
                    .flat_map(move |Rank { vertex, rank }| {
                        let targets = links.targets(vertex);
                        let part = rank / targets.len() as f64;
                        // A vertex that gets nothing has a rank too.
                        let given = targets.iter().map(move |to| (*to, part));
                        std::iter::once((vertex, 0.0)).chain(given)
                    })
                    .map(|(key, value)| Pair { key, value })
                    .reduce_by_key(|one: f64, other| one + other)
                    .map(move |Pair { key: vertex, value }| Rank {
                        vertex,
                        rank: to_all + damping * value,
                    }))
            })
            .to_vec(worker)
    }
}
