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
                let out_degree = |index| links.targets(index).len();
                let to_all = self.base_rank(worker, n, &ranks, out_degree)?;
                Ok(records(0..own)
                    .flat_map(move |index| {
                        let targets = links.targets(index);
                        let part = ranks[index] / targets.len() as f64;
                        // A vertex that gets nothing has a rank too.
                        let nothing = (links.first() + index as u64, 0.0);
                        let given = targets.iter().map(move |to| (u64::from(*to), part));
                        std::iter::once(nothing).chain(given)
                    })
                    .map(|(key, value)| Pair { key, value })
                    .reduce_by_index(links.ranges(), |one: f64, other| one + other)
                    .map(move |pair| to_all + damping * pair.value))
            })
            .to_vec(worker)?;
        Ok(named(links.identifiers(), &ranks))
    }
}
