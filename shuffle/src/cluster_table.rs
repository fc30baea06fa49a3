//! A table of a Weft cluster, as jobs read and write it.

use weft_client::{BlockingClient, ClientConfig};

use crate::error::JobError;
use crate::table_sink::TableWriter;
use crate::table_source::TableShare;
use crate::worker::Worker;

/// A table of a cluster, whose objects a job reads ([`share`](Self::share)) or writes ([`writer`](Self::writer), [`Dataset::into_table`]).
///
/// Every worker opens it by itself; it has a client of its own.
///
/// [`Dataset::into_table`]: crate::Dataset::into_table
#[derive(Debug)]
pub struct ClusterTable {
    pub(crate) client: BlockingClient,
    pub(crate) name: String,
}

impl ClusterTable {
    /// Opens the table `name` of the cluster that `cluster` tells of. Operations take [`ClientConfig::timeout`] at most, all attempts together, and a job ends with one that fails: it has
    /// to be long enough for nodes to change roles meanwhile.
    ///
    /// # Errors
    /// [`JobError::OpenTable`] if the cluster cannot be reached, or has no such table.
    pub fn open(cluster: ClientConfig, name: &str) -> Result<ClusterTable, JobError> {
        let opened = BlockingClient::connect(cluster).and_then(|client| client.table(name));
        let client = opened
            .map_err(|reason| JobError::OpenTable { table: name.into(), reason: reason.into() })?;
        Ok(ClusterTable { client, name: name.to_owned() })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Divides the table's partitions among the workers: exchanges, for which `u64` has to be one of the job's types. Each has as many as any other, or one fewer where that
    /// cannot be, and as far as that allows those of nodes that run on its own machine. All workers agree: worker 0 says which partitions there are and which node
    /// serves each, every worker says which of these nodes are beside it, and all compute the same of that.
    ///
    /// # Errors
    /// What an exchange fails with.
    pub fn share(&self, worker: &Worker) -> Result<TableShare<'_>, JobError> {
        TableShare::of(self, worker)
    }

    /// What writes objects into the table, some at once.
    pub fn writer(&self) -> TableWriter<'_> {
        TableWriter::new(self)
    }
}
