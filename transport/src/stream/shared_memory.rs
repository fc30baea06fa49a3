//! A stream over shared memory: rings that are looked at without a system call, and a socket that
//! rings for tasks that sleep.
//!
//! Reader and writer may be two tasks on two threads, and one socket rings for both. So each leaves
//! its waker in a slot of its own, then has the executor wake both slots at the socket's next event,
//! and only then asks the peer to ring and looks once more. What is written after that look is rung
//! for after the executor was told, so its event wakes both slots; and an event that came before and
//! used up the telling has woken them, too. Who takes the bells from the socket does not matter.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

use super::carrier::{Addresses, Moved};
use super::readiness::watch;
use super::sleepers::Sleepers;
use crate::link::{Namespace, ShmLink, Transfer as _, reached, written_like};

#[derive(Debug)]
pub(super) struct SharedMemory {
    link: AsyncFd<ShmLink>,
    addresses: Addresses,
    sleepers: Arc<Sleepers>,
    /// Wakes both, whichever of the two registered last.
    wake_both: Waker,
    /// Held to take the memory that the peer passes: one bell among others would be taken for it.
    opening: Mutex<()>,
}

impl SharedMemory {
    /// Connects to the listener of streams on this host that has `address`. It need not have accepted
    /// yet.
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let link = ShmLink::connect(address, Namespace::Streams).map_err(|error| {
            match error.kind() {
                // What a full backlog says; a task that is told so would wait for ever.
                io::ErrorKind::WouldBlock => io::ErrorKind::ConnectionRefused.into(),
                _ => error,
            }
        })?;
        link.offer()?;
        let local = link.local_address(Namespace::Streams)?;
        // The addresses of both sides as over TCP.
        let [local, peer] = [local, reached(address)].map(|end| written_like(end, address));
        Self::new(link, Addresses { local, peer })
    }

    /// The side that accepts: the memory may be still to come.
    pub(super) fn accepted(link: ShmLink, addresses: Addresses) -> io::Result<Self> {
        Self::new(link, addresses)
    }

    fn new(link: ShmLink, addresses: Addresses) -> io::Result<Self> {
        let sleepers = Arc::new(Sleepers::default());
        Ok(Self {
            link: watch(link, Interest::READABLE)?,
            addresses,
            wake_both: Waker::from(Arc::clone(&sleepers)),
            sleepers,
            opening: Mutex::new(()),
        })
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(super) fn sends(&self) -> u64 {
        self.link.get_ref().sends()
    }

    #[inline]
    pub(super) fn poll_receive(&self, into: &mut ReadBuf<'_>) -> Poll<io::Result<Moved>> {
        ready!(self.poll_hear())?;
        let link = self.link.get_ref();
        loop {
            // Only what is there has to be cleared before; the end is found by an empty buffer, too.
            let room = into.remaining().min(link.ready());
            let buffer = into.initialize_unfilled_to(room);
            return match link.take(&mut [IoSliceMut::new(buffer)]) {
                Ok((0, _)) if link.ready() > 0 => continue,
                Ok((0, _)) if link.was_reset() => reset(),
                Ok(moved) => {
                    into.advance(moved.0);
                    Poll::Ready(Ok(moved))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
    }

    #[inline]
    pub(super) fn poll_send(&self, pieces: &[IoSlice<'_>]) -> Poll<io::Result<Moved>> {
        ready!(self.poll_hear())?;
        match self.link.get_ref().send_now(pieces) {
            Ok(moved) => Poll::Ready(Ok(moved)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Takes in what the executor knows of the socket, which is no system call if it knows nothing
    /// new. `Pending` until the memory is there.
    #[inline]
    fn poll_hear(&self) -> Poll<io::Result<()>> {
        let link = self.link.get_ref();
        if !link.is_open() {
            return self.poll_open();
        }
        if !link.has_ended() {
            // Nothing was rung, or bells have been taken: either way it is the rings that count.
            let _ = self.link.try_io(Interest::READABLE, ShmLink::take_bells);
        }
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn poll_open(&self) -> Poll<io::Result<()>> {
        let _opening = self.opening.lock();
        if self.link.get_ref().is_open() {
            return Poll::Ready(Ok(()));
        }
        match self.link.try_io(Interest::READABLE, ShmLink::finish_connect) {
            Ok(()) => {
                self.wake_both.wake_by_ref();
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => reset(),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(super) fn poll_sleep_for_input(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        self.sleepers.reader.register(cx.waker());
        if self.poll_bell().is_ready() || !self.link.get_ref().sleep() {
            return Poll::Ready(Ok(()));
        }
        sleeps();
        Poll::Pending
    }

    pub(super) fn poll_sleep_for_room(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        self.sleepers.writer.register(cx.waker());
        let link = self.link.get_ref();
        if self.poll_bell().is_ready() || (link.is_open() && !link.sleep_for_room()?) {
            return Poll::Ready(Ok(()));
        }
        sleeps();
        Poll::Pending
    }

    /// Has both slots woken by the next bell. `Ready` if it has rung or the executor cannot say.
    fn poll_bell(&self) -> Poll<()> {
        let mut both = Context::from_waker(&self.wake_both);
        self.link.poll_read_ready(&mut both).map(|_| ())
    }

    pub(super) fn reader_wakes(&self) {
        self.link.get_ref().reader_wakes();
    }

    pub(super) fn writer_wakes(&self) {
        self.link.get_ref().writer_wakes();
    }

    pub(super) fn finish(&self) -> bool {
        self.link.get_ref().finish_sending()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if !self.link.get_ref().is_open() {
            // It was accepted and never used. With its memory taken, the peer can tell that from a listener that is gone.
            let _ = self.link.get_ref().finish_connect();
        }
    }
}

fn reset<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
}

#[cfg(test)]
mod tests;
