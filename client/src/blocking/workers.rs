//! Workers, for callers that block.

use weft_protocol::{WorkerDescription, WorkerEntry};

use super::BlockingClient;
use crate::client::Registration;
use crate::error::ClientError;

impl BlockingClient {
    /// See [`Client::register_worker`](crate::Client::register_worker).
    ///
    /// # Errors
    /// See [`Client::register_worker`](crate::Client::register_worker).
    pub fn register_worker(
        &self,
        worker: WorkerDescription<'_>,
        former: Option<u64>,
    ) -> Result<Registration, ClientError> {
        self.client.block_on(self.client.register_worker(worker, former))
    }

    /// See [`Client::renew_worker`](crate::Client::renew_worker).
    ///
    /// # Errors
    /// See [`Client::renew_worker`](crate::Client::renew_worker).
    pub fn renew_worker(&self, worker: u64) -> Result<Registration, ClientError> {
        self.client.block_on(self.client.renew_worker(worker))
    }

    /// See [`Client::unregister_worker`](crate::Client::unregister_worker).
    ///
    /// # Errors
    /// See [`Client::unregister_worker`](crate::Client::unregister_worker).
    pub fn unregister_worker(&self, worker: u64) -> Result<(), ClientError> {
        self.client.block_on(self.client.unregister_worker(worker))
    }

    /// See [`Client::workers`](crate::Client::workers).
    ///
    /// # Errors
    /// See [`Client::workers`](crate::Client::workers).
    pub fn workers(&self) -> Result<Vec<WorkerEntry>, ClientError> {
        self.client.block_on(self.client.workers())
    }
}
