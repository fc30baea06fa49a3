//! A stream over a TCP socket: the executor says when there is something to be done.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use super::carrier::{Addresses, Moved};
use super::readiness::watch;
use crate::link::{TcpLink, Transfer as _};

/// What is read at once at most: a socket has no more, and the buffer is cleared before.
const RECEIVE_BYTES: usize = 256 << 10;

/// Pieces that the kernel takes in one call; it leaves what comes behind them (`UIO_MAXIOV`).
const SEND_PIECES: usize = 1024;

/// Bytes that the kernel surely looks at in one call: it leaves what is beyond 2 GiB.
const SEND_BYTES: usize = 1 << 30;

/// After so many bytes that came with nothing sent in between, they are taken for part of a flow in one
/// direction. More than messages usually have that are answered, so that these are met spinning.
const ONE_WAY_BYTES: u64 = 1 << 20;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

#[derive(Debug)]
pub(super) struct Sockets {
    link: AsyncFd<TcpLink>,
    addresses: Addresses,
    /// Bytes received since something was last sent.
    unanswered: AtomicU64,
    /// The last receive has left nothing.
    is_empty: AtomicBool,
}

impl Sockets {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let link = watch(TcpLink::connect(address)?, BOTH)?;
        // The socket becomes writable when the attempt has ended, either way.
        link.writable().await?.retain_ready();
        link.get_ref().finish_connect()?;
        let (local, peer) = link.get_ref().addresses()?;
        Ok(Self::new(link, Addresses { local, peer }))
    }

    pub(super) fn accepted(link: TcpLink, from: SocketAddr) -> io::Result<Self> {
        let (local, _) = link.addresses()?;
        Ok(Self::new(watch(link, BOTH)?, Addresses { local, peer: from }))
    }

    fn new(link: AsyncFd<TcpLink>, addresses: Addresses) -> Self {
        let (unanswered, is_empty) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { link, addresses, unanswered, is_empty }
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(super) fn sends(&self) -> u64 {
        self.link.get_ref().sends()
    }

    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Moved>> {
        loop {
            let mut ready = ready!(self.link.poll_read_ready(cx))?;
            let room = into.remaining().min(RECEIVE_BYTES);
            let buffer = into.initialize_unfilled_to(room);
            match self.link.get_ref().receive(&mut [IoSliceMut::new(buffer)]) {
                Ok(count) => {
                    into.advance(count);
                    self.unanswered.fetch_add(count as u64, Ordering::Relaxed);
                    // A socket that did not fill the buffer is empty: whatever comes is a new event.
                    let is_empty = count > 0 && count < room;
                    self.is_empty.store(is_empty, Ordering::Relaxed);
                    if is_empty {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok((count, false)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<Moved>> {
        let pieces = &pieces[..pieces.len().min(SEND_PIECES)];
        loop {
            let mut ready = ready!(self.link.poll_write_ready(cx))?;
            match self.link.get_ref().send(pieces) {
                Ok(count) => {
                    self.unanswered.store(0, Ordering::Relaxed);
                    // A socket that did not take everything is full. One that was not given everything may have
                    // room left, and then no event will ever say so.
                    let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
                    if count < offered && offered <= SEND_BYTES {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok((count, false)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether bytes flow to this side only, and all that had come was taken. Then a receiver that looks for more all the
    /// time finds little at once, and each look keeps the sender from the socket.
    pub(super) fn gathers(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed)
            && self.unanswered.load(Ordering::Relaxed) > ONE_WAY_BYTES
    }

    pub(super) fn finish(&self) {
        self.link.get_ref().finish();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Receives as many bytes at once as there are, up to `room`.
    async fn receive(sockets: &Sockets, room: usize) -> usize {
        let mut bytes = vec![0; room];
        let receiving =
            |cx: &mut Context<'_>| sockets.poll_receive(cx, &mut ReadBuf::new(&mut bytes));
        poll_fn(receiving).await.unwrap().0
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test is the peer")]
    async fn a_flow_of_which_all_has_been_taken_gathers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets::connect(listener.local_addr().unwrap()).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let flow = usize::try_from(ONE_WAY_BYTES).unwrap() + 2;
        let sending = std::thread::spawn(move || {
            std::io::Write::write_all(&mut &peer, &vec![7; flow]).unwrap();
            peer
        });
        let mut left = flow;
        while left > 2 {
            left -= receive(&sockets, left - 2).await;
        }
        assert!(!sockets.gathers(), "there are two more");
        let _peer = sending.join().unwrap();
        assert_eq!(receive(&sockets, 1).await, 1);
        assert!(!sockets.gathers(), "there is one more, maybe");
        assert_eq!(receive(&sockets, 2).await, 1);
        assert!(sockets.gathers());
        let sent = poll_fn(|cx| sockets.poll_send(cx, &[IoSlice::new(b"8")])).await.unwrap();
        assert_eq!(sent.0, 1);
        assert!(!sockets.gathers(), "it goes both ways");
    }
}
