//! Workers: processes that do the cluster's work, as the coordinators keep them.

use std::time::Duration;

use weft_protocol::{
    RegisterWorker, RegisterWorkerReply, RenewWorker, ReplyError, UnregisterWorker,
    UnregisterWorkerReply, WorkerDescription, WorkerEntry, Workers, WorkersReply,
};

use super::Client;
use crate::error::ClientError;

/// That a process is registered as a worker of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Its number: its former one, or one that is higher than all that were given out before. Nobody else is ever given it.
    pub worker: u64,
    /// How long it is registered at least, from when it was asked for on, unless it is renewed.
    pub lifetime: Duration,
}

impl Client {
    /// Has the cluster keep that a process is there which works for it, until that is [over](Registration::lifetime), and not
    /// [renewed](Self::renew_worker). However often it has to be asked for, it is one registration. A process whose registration has run out may have the
    /// number again that it had: then it gives that as `former`.
    ///
    /// ```
    /// # use weft_server::{config::{Config, Host, HttpAddress, Settings}, node::Node};
    /// # let settings = Settings {
    /// #     listen: Some("127.0.0.1:0".parse().unwrap()),
    /// #     http: Some(HttpAddress::Off),
    /// #     control: Some(HttpAddress::Off),
    /// #     ..Settings::default()
    /// # };
    /// # let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    /// # let address = node.address().to_string();
    /// # let client = weft_client::Client::connect_blocking(
    /// #     weft_client::ClientConfig::new([address]))?;
    /// # client.block_on(async {
    /// use weft_client::WorkerDescription;
    ///
    /// let process = std::process::id();
    /// let me = WorkerDescription { address: "10.0.0.7:9000", slots: 4, build: "1.2.3", process };
    /// let registration = client.register_worker(me, None).await?;
    /// client.renew_worker(registration.worker).await?;
    /// assert_eq!(client.workers().await?[0].description(), me);
    /// client.unregister_worker(registration.worker).await?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// `WEFT-1133` if there are as many workers as there may be; [`ClientError::Undecided`] (`WEFT-1123`) if too few coordinators answer until the time is
    /// over; [`ClientError::WorkerLength`].
    pub async fn register_worker(
        &self,
        worker: WorkerDescription<'_>,
        former: Option<u64>,
    ) -> Result<Registration, ClientError> {
        if !worker.is_within_limits() {
            return Err(ClientError::WorkerLength);
        }
        let former = former.unwrap_or(0);
        let request = |completion| RegisterWorker { completion, former, worker };
        self.core.propose(request, read_registration, self.core.deadline()).await
    }

    /// Has a worker's registration begin anew.
    ///
    /// # Errors
    /// `WEFT-1132` if there is none any more: the worker registers again. `WEFT-1123` if too few coordinators answer until the time is over.
    pub async fn renew_worker(&self, worker: u64) -> Result<Registration, ClientError> {
        self.core.ask_coordinators(RenewWorker { worker }, read_registration).await
    }

    /// Has the cluster forget a worker. It is done, too, if it has.
    ///
    /// # Errors
    /// `WEFT-1123` if too few coordinators answer until the time is over.
    pub async fn unregister_worker(&self, worker: u64) -> Result<(), ClientError> {
        self.core.ask_coordinators(UnregisterWorker { worker }, read_unregistered).await
    }

    /// The workers that are registered, in the order in which they registered, as of what a quorum of the coordinators confirms.
    ///
    /// # Errors
    /// `WEFT-1123` if too few coordinators answer until the time is over.
    pub async fn workers(&self) -> Result<Vec<WorkerEntry>, ClientError> {
        self.core.ask_coordinators(Workers, read_workers).await
    }
}

fn read_registration(reply: &[u8]) -> Result<Registration, ReplyError<'_>> {
    let RegisterWorkerReply { worker, lifetime_ms } = RegisterWorkerReply::decode(reply)?;
    Ok(Registration { worker, lifetime: Duration::from_millis(lifetime_ms.into()) })
}

fn read_unregistered(reply: &[u8]) -> Result<(), ReplyError<'_>> {
    UnregisterWorkerReply::decode(reply).map(drop)
}

fn read_workers(reply: &[u8]) -> Result<Vec<WorkerEntry>, ReplyError<'_>> {
    WorkersReply::decode(reply).map(|reply| reply.workers)
}
