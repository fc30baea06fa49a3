//! A listener with bounds on how many connections it has and how long they may say nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::HTTP_IDLE_MAX;

/// Accepts only while fewer than a given number of its connections are open; the rest wait in the
/// kernel's queue.
pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections_max: usize) -> Bounded {
        Bounded { listener, room: Arc::new(Semaphore::new(connections_max)) }
    }
}

impl Listener for Bounded {
    type Io = Admitted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Admitted, SocketAddr) {
        let room = Arc::clone(&self.room);
        let permit = room.acquire_owned().await.expect("nobody closes the semaphore");
        // The tokio listener's own implementation waits out errors such as too many open files.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Admitted { stream, idle: Box::pin(sleep(HTTP_IDLE_MAX)), _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that gives its place back when it closes, and fails when it has brought nothing for
/// [`HTTP_IDLE_MAX`], so that silent ones cannot keep a health check out.
pub(super) struct Admitted {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Admitted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            return self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.idle.as_mut().reset(Instant::now() + HTTP_IDLE_MAX);
        read
    }
}

impl AsyncWrite for Admitted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// The clock of these tests runs ahead whenever nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_brings_nothing_times_out() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut bounded = Bounded::new(listener, 1);
        let mut peer = TcpStream::connect(bounded.local_addr().unwrap()).await.unwrap();
        let (mut admitted, _) = Listener::accept(&mut bounded).await;
        peer.write_all(b"x").await.unwrap();
        assert_eq!(admitted.read_u8().await.unwrap(), b'x');
        let begun = Instant::now();
        let silence = admitted.read_u8().await.unwrap_err();
        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= HTTP_IDLE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_waits_until_another_has_gone() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut bounded = Bounded::new(listener, 1);
        let address = bounded.local_addr().unwrap();
        let _peers = (TcpStream::connect(address).await, TcpStream::connect(address).await);
        let first = Listener::accept(&mut bounded).await;
        let wait = tokio::time::timeout(HTTP_IDLE_MAX, Listener::accept(&mut bounded));
        assert!(wait.await.is_err());
        drop(first);
        Listener::accept(&mut bounded).await;
    }
}
