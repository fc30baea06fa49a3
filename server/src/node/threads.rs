//! The threads by which a node takes part in its cluster: one for what goes on beside requests, and one for the coordinator where there is one.
//!
//! They sleep until they are woken. Neither drives a reactor while it waits, as a client's thread does: what they wait for may come in a
//! heartbeat's time, and the reactors' own threads are there for requests.

use std::io;
use std::pin::pin;
use std::thread::{self, JoinHandle};

use futures_executor::block_on;
use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use weft_transport::Endpoint;

/// A thread that drives a future until that ends or it is told to stop; told by dropping this.
#[derive(Debug)]
pub(super) struct ClusterThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ClusterThread {
    /// Starts a thread for the future that `begin` makes on it.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start<F: Future<Output = ()>>(
        name: &str,
        endpoint: &Endpoint,
        begin: impl FnOnce(Endpoint) -> F + Send + 'static,
    ) -> io::Result<ClusterThread> {
        let (stop, stopped) = oneshot::channel();
        let endpoint = endpoint.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let working = begin(endpoint);
            block_on(async move {
                match select(pin!(working), stopped).await {
                    Either::Left(((), _)) | Either::Right(_) => {}
                }
            });
        })?;
        Ok(ClusterThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ClusterThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread of the cluster ends without a panic");
        }
    }
}
