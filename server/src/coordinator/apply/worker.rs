//! Workers register, keep that up, and go.

use weft_protocol::limits::WORKERS_MAX;

use crate::coordinator::command::{Applied, Outcome};
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;
use crate::coordinator::worker::{Worker, WorkerDescription, WorkerId};

impl ClusterState {
    /// No node has to learn of a worker: who wants to know which there are asks the coordinators.
    ///
    /// One that was out of reach for too long may go on as the worker that it was: others may know by its number what it has, and its place in the order of all.
    pub(super) fn register_worker(
        &mut self,
        former: Option<WorkerId>,
        description: &WorkerDescription,
    ) -> Applied {
        if !description.is_within_limits() {
            return Err(Rejection::WorkerLength);
        }
        if let Some(worker) = former
            && !(1..=self.last_worker).contains(&worker.0)
        {
            return Err(Rejection::WorkerUnknown { worker });
        }
        let worker = former.unwrap_or(WorkerId(self.last_worker + 1));
        if !self.workers.contains_key(&worker) && self.workers.len() >= WORKERS_MAX {
            return Err(Rejection::TooManyWorkers);
        }
        self.last_worker = self.last_worker.max(worker.0);
        self.last_renewal += 1;
        let (description, renewal) = (description.clone(), self.last_renewal);
        self.workers.insert(worker, Worker { description, renewal });
        Ok(Outcome::WorkerRegistered { worker })
    }

    /// Counted and not timed, as [clients' leases](Self::renew_clients) are. The count is one of all workers: one that was forgotten and came again is not taken for
    /// what it was before.
    pub(super) fn renew_worker(&mut self, worker: WorkerId) -> Applied {
        let known = self.workers.get_mut(&worker).ok_or(Rejection::WorkerUnknown { worker })?;
        self.last_renewal += 1;
        known.renewal = self.last_renewal;
        Ok(Outcome::Done)
    }

    /// A worker leaves; one that is gone has left.
    pub(super) fn unregister_worker(&mut self, worker: WorkerId) -> Applied {
        self.workers.remove(&worker);
        Ok(Outcome::Done)
    }

    /// A worker did not renew its registration.
    pub(super) fn expire_worker(&mut self, worker: WorkerId, renewal: u64) -> Applied {
        match self.workers.get(&worker) {
            None => Err(Rejection::WorkerUnknown { worker }),
            Some(known) if known.renewal != renewal => Err(Rejection::WorkerRenewed { worker }),
            Some(_) => {
                self.workers.remove(&worker);
                Ok(Outcome::Done)
            }
        }
    }
}
