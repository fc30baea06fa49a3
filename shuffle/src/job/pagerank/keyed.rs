//! An update for each edge, combined in a hash table.

use std::collections::HashMap;

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
    /// In ascending order.
    vertices: Vec<u64>,
    /// Which of them each is.
    indices: HashMap<u64, usize, foldhash::fast::RandomState>,
    /// Where the edges of each begin, and behind them the end.
    offsets: Vec<usize>,
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
        let mut vertices = records(ends)
            .map(|key| Pair { key, value: 0 })
            .reduce_by_key(|one: u64, _| one)
            .map(|vertex| vertex.key)
            .to_vec(worker)?;
        vertices.sort_unstable();
        let mut offsets = vec![0];
        let mut runs = edges.chunk_by(|one, other| one.key == other.key).peekable();
        let mut end = 0;
        for vertex in &vertices {
            end += runs.next_if(|run| run[0].key == *vertex).map_or(0, <[Edge]>::len);
            offsets.push(end);
        }
        let targets = edges.into_iter().map(|edge| edge.value).collect();
        let indices = vertices.iter().copied().zip(0..).collect();
        let vertices_of_all = worker.gather(vertices.len() as u64)?.iter().sum();
        Ok(KeyedLinks { vertices, indices, offsets, targets, vertices_of_all })
    }

    pub(super) fn vertices(&self) -> u64 {
        self.vertices_of_all
    }

    pub(super) fn edges(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Its vertices, in ascending order.
    pub(super) fn identifiers(&self) -> &[u64] {
        &self.vertices
    }

    /// The same when nobody asks for edges any more.
    pub(super) fn into_identifiers(self) -> Vec<u64> {
        self.vertices
    }

    /// Where the edges lead that begin at a vertex.
    pub(super) fn targets(&self, index: usize) -> &[u64] {
        &self.targets[self.offsets[index]..self.offsets[index + 1]]
    }

    /// The ranks in the order of this worker's vertices.
    fn in_order(&self, ranks: &[Rank]) -> Result<Vec<f64>, JobError> {
        let mut in_order = vec![0.0; self.vertices.len()];
        for Rank { vertex, rank } in ranks {
            let index = self.indices.get(vertex).ok_or_else(|| {
                JobError::Job(format!(
                    "another worker gives to vertex {vertex}, which is none of this worker's"
                ))
            })?;
            in_order[*index] = *rank;
        }
        Ok(in_order)
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
        records(links.vertices.iter().map(|vertex| Rank { vertex: *vertex, rank: 1.0 / n }))
            .iterate(self.iterations, |worker, round, ranks: Vec<Rank>| {
                at_round(round);
                let ranks = links.in_order(&ranks)?;
                let out_degree = |index| links.targets(index).len();
                let to_all = self.base_rank(worker, n, &ranks, out_degree)?;
                Ok(records(0..ranks.len())
                    .flat_map(move |index| {
                        let targets = links.targets(index);
                        let part = ranks[index] / targets.len() as f64;
                        // A vertex that gets nothing has a rank too.
                        let nothing = std::iter::once((links.vertices[index], 0.0));
                        nothing.chain(targets.iter().map(move |to| (*to, part)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_of_a_vertex_of_others_is_an_error() {
        let links = KeyedLinks {
            vertices: vec![3, 5],
            indices: [(3, 0), (5, 1)].into_iter().collect(),
            offsets: vec![0, 0, 0],
            targets: Vec::new(),
            vertices_of_all: 3,
        };
        let rank = |vertex| Rank { vertex, rank: vertex as f64 };
        assert_eq!(links.in_order(&[rank(5), rank(3)]).unwrap(), [3.0, 5.0]);
        let error = links.in_order(&[rank(3), rank(4)]).unwrap_err();
        assert!(error.to_string().contains("vertex 4"), "{error}");
    }
}
