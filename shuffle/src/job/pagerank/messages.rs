//! PageRank by messages: what vertices give along edges says whom it is for, by identifiers.

mod leaving;
mod links;
mod order;
mod vertex_sums;

pub use self::leaving::{Leaving, LeavingSums, LeavingUpdates, Updates};
pub use self::links::MessageLinks;
pub use self::vertex_sums::{NotOwn, VertexSums};
use super::{PageRank, Rank, named};
use crate::dataset::{Dataset, records};
use crate::error::JobError;
use crate::worker::Worker;

impl PageRank {
    /// The ranks of this worker's vertices, where `carry` has what leaves in a round added to the sums of the workers that have the vertices it is for, as objects or
    /// however it is encoded: it exchanges, and adds what comes. What goes to vertices of this worker's own is added here. `at_round` is called as each round begins.
    ///
    /// # Errors
    /// What `carry` or an exchange fails with.
    pub fn rank_by_messages(
        &self,
        worker: &Worker,
        links: &MessageLinks,
        mut at_round: impl FnMut(usize),
        mut carry: impl FnMut(&Worker, Leaving<'_>, &mut VertexSums) -> Result<(), JobError>,
    ) -> Result<Vec<Rank>, JobError> {
        let (n, damping) = (links.vertices() as f64, self.damping);
        let own = links.identifiers().len();
        let mut sums = links.sums();
        let ranks = records(std::iter::repeat_n(1.0 / n, own))
            .iterate(self.iterations, |worker, round, ranks: Vec<f64>| {
                at_round(round);
                let out_degree = |index| links.out_degree(index) as usize;
                let to_all = self.base_rank(worker, n, &ranks, out_degree)?;
                let part = |(index, rank): (usize, f64)| rank / f64::from(links.out_degree(index));
                let parts: Vec<f64> = ranks.into_iter().enumerate().map(part).collect();
                let leaving = Leaving::new(links, &parts, worker.id());
                carry(worker, leaving, &mut sums)?;
                leaving.stay(&mut sums).expect("a vertex is its worker's by its hash");
                let next: Vec<f64> = sums.take().map(|sum| to_all + damping * sum).collect();
                Ok(records(next))
            })
            .to_vec(worker)?;
        Ok(named(links.identifiers(), &ranks))
    }
}
