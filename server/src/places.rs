//! Places for the connections of a port that is for operators, so that none of them can keep the others out: when all are taken, the oldest gives up
//! its own.

use std::collections::VecDeque;
use std::io;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::limits::ACCEPT_PAUSE;

/// The connections that are served.
#[derive(Debug)]
pub(crate) struct Places {
    /// What the log calls the port.
    port: &'static str,
    max: usize,
    /// From the oldest on.
    open: VecDeque<JoinHandle<()>>,
    is_failing: bool,
}

impl Places {
    pub(crate) fn new(port: &'static str, max: usize) -> Places {
        Places { port, max, open: VecDeque::with_capacity(max), is_failing: false }
    }

    /// Who connects next.
    pub(crate) async fn accept(&mut self, listener: &TcpListener) -> TcpStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    self.is_failing = false;
                    return stream;
                }
                Err(error) if is_of_one_peer(&error) => {}
                Err(error) => {
                    if !self.is_failing {
                        let port = self.port;
                        tracing::warn!(%error, "the {port} port cannot accept, and keeps trying");
                    }
                    self.is_failing = true;
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a connection. If there are as many as may be, the oldest is ended before.
    pub(crate) async fn give(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        self.open.retain(|connection| !connection.is_finished());
        if self.open.len() >= self.max
            && let Some(oldest) = self.open.pop_front()
        {
            oldest.abort();
            // Its memory is free when it has ended, and not before.
            let _ = oldest.await;
        }
        self.open.push_back(tokio::spawn(serving));
    }

    /// Waits until all connections have ended.
    pub(crate) async fn ended(&mut self) {
        for connection in self.open.drain(..) {
            // One that panicked has ended as well, and has said so.
            let _ = connection.await;
        }
    }
}

/// Whether the connection that was to be accepted had failed already, so that the next is not
/// concerned.
fn is_of_one_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
