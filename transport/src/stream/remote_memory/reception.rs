//! Where streams over verbs come in: whoever connects is met by a task of its own, so that nobody waits for one who says
//! nothing, and a stream is there before it is accepted, as over TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::meeting::answer;
use super::{RemoteMemory, unsupported};
use crate::link::{RingDevice, TcpListener, VerbsOptions};

/// How many are met at once; more wait in the socket's backlog.
const MEETINGS_MAX: usize = 32;

/// How many streams wait to be accepted; then nobody is met.
const WAITING_MAX: usize = 64;

type Received = io::Result<(RemoteMemory, SocketAddr)>;

/// Meets whoever connects, until it is dropped.
#[derive(Debug)]
pub(in crate::stream) struct Reception {
    waiting: Mutex<mpsc::Receiver<Received>>,
    task: JoinHandle<()>,
}

impl Reception {
    /// Begins to meet those who connect to `socket`.
    ///
    /// # Errors
    /// `Unsupported` without a device.
    pub(in crate::stream) fn open(
        socket: AsyncFd<TcpListener>,
        options: &VerbsOptions,
    ) -> io::Result<Self> {
        let device = RingDevice::open(options).map_err(unsupported)?;
        let (met, waiting) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(receive(socket, device, met));
        Ok(Self { waiting: Mutex::new(waiting), task })
    }

    /// The next stream, and where it comes from. Dropping the future loses none.
    pub(in crate::stream) async fn accept(&self) -> Received {
        let received = self.waiting.lock().await.recv().await;
        // Its executor is being shut down.
        received.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    socket: AsyncFd<TcpListener>,
    device: Arc<RingDevice>,
    waiting: mpsc::Sender<Received>,
) {
    let mut meetings = JoinSet::new();
    loop {
        let received = tokio::select! {
            Some(met) = meetings.join_next(), if !meetings.is_empty() => match met {
                Ok((Ok(stream), from)) => Ok((stream, from)),
                // Who connected knows, or does not have to.
                Ok((Err(error), from)) => {
                    tracing::debug!(%error, %from, "no stream over verbs came about");
                    continue;
                }
                Err(_) => continue,
            },
            accepted = socket.async_io(Interest::READABLE, TcpListener::accept),
                if meetings.len() < MEETINGS_MAX => match accepted {
                Ok((link, from)) => {
                    let answered = answer(Arc::clone(&device), link);
                    meetings.spawn(async move { (answered.await, from) });
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        if waiting.send(received).await.is_err() {
            return;
        }
    }
}
