//! The order in which messages name vertices.

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;

use crate::error::JobError;
use crate::worker::Worker;

/// By a hash that all workers have in common, and nobody knows who makes the input: a sender's edges are in the order of it, and a receiver's sums.
#[derive(Clone, Debug)]
pub(super) struct Order(FixedState);

impl Order {
    pub(super) fn with_seed(seed: u64) -> Order {
        Order(FixedState::with_seed(seed))
    }

    /// Draws one on worker 0. An exchange.
    pub(super) fn agree(worker: &Worker) -> Result<Order, JobError> {
        let seeds = worker.gather(rand::random::<u64>())?;
        Ok(Order::with_seed(seeds[0]))
    }

    #[inline(always)]
    pub(super) fn of(&self, vertex: u64) -> u64 {
        self.0.hash_one(vertex)
    }
}
