//! A stream over verbs: each side's ring is written by the other's device, and a channel tells a task that sleeps.
//!
//! The sides have met over a socket, which carries nothing more: its end is the peer's, however it came about. The device
//! tells of all that comes and goes in one queue, which whoever looks takes in for both directions. A task that sleeps leaves
//! its waker in a slot of its own, then has the executor wake both slots when channel or socket have something to tell, and
//! only then asks the device to tell and looks once more. So what the other task takes in before that look is found by it, and of
//! what comes after it both are told.

mod lingering;
mod meeting;
mod reception;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use super::carrier::{Addresses, Moved};
use super::readiness::watch;
use super::sleepers::Sleepers;
use crate::link::{RingLink, TcpLink, Transfer as _, VerbsError, VerbsOptions};

pub(super) use reception::Reception;

use lingering::linger;

#[derive(Debug)]
pub(super) struct RemoteMemory {
    line: Arc<Line>,
    addresses: Addresses,
}

/// The way to the peer, for as long as there is something to be sent on it.
#[derive(Debug)]
struct Line {
    link: AsyncFd<RingLink>,
    socket: AsyncFd<TcpLink>,
    sleepers: Arc<Sleepers>,
    /// Wakes both, whichever of the two registered last.
    wake_both: Waker,
}

impl RemoteMemory {
    /// Connects to the listener of streams that has `address`; it need not have accepted yet.
    pub(super) async fn connect(address: SocketAddr, options: &VerbsOptions) -> io::Result<Self> {
        meeting::ask(address, options).await
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(super) fn sends(&self) -> u64 {
        self.line.link.get_ref().sends()
    }

    #[inline]
    pub(super) fn poll_receive(&self, into: &mut ReadBuf<'_>) -> Poll<io::Result<Moved>> {
        let link = self.line.link.get_ref();
        self.line.hear_socket();
        // What had come before the end is found after it.
        let ended = link.has_ended();
        self.line.look();
        // Only what is there has to be cleared before.
        let room = into.remaining().min(link.ready());
        if room == 0 {
            return match link.is_finished(ended) {
                Ok(true) => Poll::Ready(Ok((0, false))),
                Ok(false) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
        let count = link.take(into.initialize_unfilled_to(room));
        into.advance(count);
        Poll::Ready(Ok((count, false)))
    }

    #[inline]
    pub(super) fn poll_send(&self, pieces: &[IoSlice<'_>]) -> Poll<io::Result<Moved>> {
        self.line.hear_socket();
        self.line.look();
        match self.line.link.get_ref().send(pieces) {
            Ok(count) => Poll::Ready(Ok((count, false))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(super) fn poll_sleep_for_input(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        self.line.sleepers.reader.register(cx.waker());
        self.poll_sleep(RingLink::has_input, sleeps)
    }

    pub(super) fn poll_sleep_for_room(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        self.line.sleepers.writer.register(cx.waker());
        self.line.link.get_ref().set_writer_waits(true);
        self.poll_sleep(RingLink::has_room, sleeps)
    }

    fn poll_sleep(
        &self,
        is_over: impl Fn(&RingLink) -> bool,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        let mut both = Context::from_waker(&self.line.wake_both);
        let told = self.line.poll_told(&mut both).is_ready();
        let link = self.line.link.get_ref();
        if !told {
            link.arm()?;
            self.line.poll();
        }
        if told || is_over(link) {
            return Poll::Ready(Ok(()));
        }
        sleeps();
        Poll::Pending
    }

    /// A writer that may have gone to sleep looks by itself again.
    pub(super) fn writer_wakes(&self) {
        self.line.link.get_ref().set_writer_waits(false);
    }

    pub(super) fn finish(&self) {
        self.line.link.get_ref().finish();
    }
}

impl Drop for RemoteMemory {
    fn drop(&mut self) {
        self.line.link.get_ref().leave();
        linger(Arc::clone(&self.line));
    }
}

impl Line {
    fn new(link: RingLink, socket: AsyncFd<TcpLink>) -> io::Result<Self> {
        let sleepers = Arc::new(Sleepers::default());
        Ok(Self {
            link: watch(link, Interest::READABLE)?,
            socket,
            wake_both: Waker::from(Arc::clone(&sleepers)),
            sleepers,
        })
    }

    /// Takes in what the executor knows of the socket, which is no system call if it knows nothing new.
    #[inline]
    fn hear_socket(&self) {
        let link = self.link.get_ref();
        if !link.has_ended() && self.socket.try_io(Interest::READABLE, ended).is_ok() {
            link.end();
        }
    }

    /// Takes in what the channel has told, and what the device is done with.
    #[inline]
    fn look(&self) {
        // Nothing is told before the device is asked to.
        let _ = self.link.try_io(Interest::READABLE, |link| -> io::Result<()> {
            link.hear();
            Err(io::ErrorKind::WouldBlock.into())
        });
        self.poll();
    }

    #[inline]
    fn poll(&self) {
        self.link.get_ref().poll();
    }

    /// Has the task woken when channel or socket have something to tell. `Ready` if they have, or the executor cannot
    /// say.
    fn poll_told(&self, cx: &mut Context<'_>) -> Poll<()> {
        let channel = self.link.poll_read_ready(cx).is_ready();
        let socket = !self.link.get_ref().has_ended() && self.socket.poll_read_ready(cx).is_ready();
        if channel || socket { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Looks until it is so, asleep in between. Nobody else may wait for this stream.
    ///
    /// # Errors
    /// `ConnectionRefused` if it cannot be any more.
    fn poll_until(
        &self,
        cx: &mut Context<'_>,
        is_so: impl Fn(&RingLink) -> bool,
    ) -> Poll<io::Result<()>> {
        let link = self.link.get_ref();
        link.set_writer_waits(true);
        loop {
            self.hear_socket();
            let ended = link.has_ended();
            self.look();
            if is_so(link) {
                return Poll::Ready(Ok(()));
            }
            if ended || link.failure().is_some() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
            }
            if self.poll_told(cx).is_pending() {
                link.arm()?;
                self.poll();
                if !is_so(link) && link.failure().is_none() {
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Whether the socket has come to its end, as it also has when the peer says something on it.
///
/// # Errors
/// `WouldBlock` if it has not.
fn ended(socket: &TcpLink) -> io::Result<()> {
    match socket.receive(&mut [IoSliceMut::new(&mut [0])]) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Why there is no device, for somebody who asks for a stream.
fn unsupported(error: VerbsError) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, error)
}
