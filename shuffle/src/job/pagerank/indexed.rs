//! An update for each edge, combined in an array.

use weft_object::Pair;

use super::{PageRank, Rank, named};
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::job::graph::Links;
use crate::worker::Worker;

impl PageRank {
    /// The ranks of this worker's vertices, by number, written with the verbs alone: each edge has an update, whose key is the number of the vertex to which the edge leads.
    pub(super) fn rank_by_index(
        &self,
        worker: &Worker,
        links: &Links,
        mut at_round: impl FnMut(usize),
    ) -> Result<Vec<Rank>, JobError> {
        let (n, damping) = (links.vertices() as f64, self.damping);
        let own = links.identifiers().len();
        let ranks = records(std::iter::repeat_n(1.0 / n, own))
            .iterate(self.iterations, |worker, round, ranks: Vec<f64>| {
                at_round(round);
                let out_degree = |index| links.out_degree(index) as usize;
                let to_all = self.base_rank(worker, n, &ranks, out_degree)?;
                Ok(Updates { links, ranks }
                    .reduce_by_index(links.ranges(), |one: f64, other| one + other)
                    .map(move |pair| to_all + damping * pair.value))
            })
            .to_vec(worker)?;
        Ok(named(links.identifiers(), &ranks))
    }
}

/// An update for each edge, and one of nothing for each vertex, as one that gets nothing has a rank too.
struct Updates<'l> {
    links: &'l Links,
    ranks: Vec<f64>,
}

impl Dataset for Updates<'_> {
    type Item = Pair<u64, f64>;

    fn run(
        self,
        _: &Worker,
        mut sink: impl FnMut(Pair<u64, f64>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let first = self.links.first();
        self.links.for_each(|index, targets| {
            sink(Pair { key: first + index as u64, value: 0.0 })?;
            let value = self.ranks[index] / targets.len() as f64;
            targets.iter().try_for_each(|to| sink(Pair { key: u64::from(*to), value }))
        })
    }
}
