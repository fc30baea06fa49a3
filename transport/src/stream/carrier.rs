//! What carries a stream's bytes: a closed set, as links are, each with its own way to wait.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::StreamConfig;
use super::remote_memory::RemoteMemory;
use super::shared_memory::SharedMemory;
use super::sockets::Sockets;
use crate::link::{LinkKind, LinkPolicy};

/// The two ends of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// Bytes moved, and whether a peer that sleeps was rung for.
pub(super) type Moved = (usize, bool);

/// What a stream runs over. A task that is told `Pending` by one of the `poll_sleep` methods will be
/// woken; one that is told so by the others has to see to that itself.
#[derive(Debug)]
pub(super) enum Carrier {
    Tcp(Sockets),
    Shm(SharedMemory),
    Verbs(RemoteMemory),
}

impl Carrier {
    pub(super) async fn connect(address: SocketAddr, config: &StreamConfig) -> io::Result<Self> {
        match config.links {
            LinkPolicy::Tcp => {}
            LinkPolicy::Shm => return SharedMemory::connect(address).map(Self::Shm),
            LinkPolicy::Verbs => {
                return RemoteMemory::connect(address, &config.verbs).await.map(Self::Verbs);
            }
            LinkPolicy::Auto => {
                if let Ok(memory) = SharedMemory::connect(address) {
                    return Ok(Self::Shm(memory));
                }
            }
        }
        Sockets::connect(address).await.map(Self::Tcp)
    }

    pub(super) fn kind(&self) -> LinkKind {
        match self {
            Self::Tcp(_) => LinkKind::Tcp,
            Self::Shm(_) => LinkKind::Shm,
            Self::Verbs(_) => LinkKind::Verbs,
        }
    }

    pub(super) fn addresses(&self) -> Addresses {
        match self {
            Self::Tcp(sockets) => sockets.addresses(),
            Self::Shm(memory) => memory.addresses(),
            Self::Verbs(memory) => memory.addresses(),
        }
    }

    /// Whether it is still this task's turn: one that always has something to do gives way to others.
    #[inline]
    pub(super) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            // The executor counts them by itself.
            Self::Tcp(_) => Poll::Ready(()),
            Self::Shm(_) | Self::Verbs(_) => pin!(tokio::task::coop::consume_budget()).poll(cx),
        }
    }

    /// Receives what is there, and no bytes at the end of the stream.
    #[inline]
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Moved>> {
        match self {
            Self::Tcp(sockets) => sockets.poll_receive(cx, into),
            Self::Shm(memory) => memory.poll_receive(into),
            Self::Verbs(memory) => memory.poll_receive(into),
        }
    }

    /// Sends what there is room for, as one send of the link.
    #[inline]
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<Moved>> {
        match self {
            Self::Tcp(sockets) => sockets.poll_send(cx, pieces),
            Self::Shm(memory) => memory.poll_send(pieces),
            Self::Verbs(memory) => memory.poll_send(pieces),
        }
    }

    /// Sends that the link itself has counted.
    pub(super) fn sends(&self) -> u64 {
        match self {
            Self::Tcp(sockets) => sockets.sends(),
            Self::Shm(memory) => memory.sends(),
            Self::Verbs(memory) => memory.sends(),
        }
    }

    /// Has the task woken when there is input, and calls `sleeps` if that took asking the peer.
    /// `Ready` if there seems to be some.
    pub(super) fn poll_sleep_for_input(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => {
                sleeps();
                Poll::Pending
            }
            Self::Shm(memory) => memory.poll_sleep_for_input(cx, sleeps),
            Self::Verbs(memory) => memory.poll_sleep_for_input(cx, sleeps),
        }
    }

    /// As [`poll_sleep_for_input`](Self::poll_sleep_for_input), for room to send.
    pub(super) fn poll_sleep_for_room(
        &self,
        cx: &mut Context<'_>,
        sleeps: impl FnOnce(),
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => {
                sleeps();
                Poll::Pending
            }
            Self::Shm(memory) => memory.poll_sleep_for_room(cx, sleeps),
            Self::Verbs(memory) => memory.poll_sleep_for_room(cx, sleeps),
        }
    }

    /// A reader that may have gone to sleep looks by itself again.
    pub(super) fn reader_wakes(&self) {
        match self {
            // The device is asked to tell once, and does not have to be told otherwise.
            Self::Tcp(_) | Self::Verbs(_) => {}
            Self::Shm(memory) => memory.reader_wakes(),
        }
    }

    /// A writer that may have gone to sleep looks by itself again.
    pub(super) fn writer_wakes(&self) {
        match self {
            Self::Tcp(_) => {}
            Self::Shm(memory) => memory.writer_wakes(),
            Self::Verbs(memory) => memory.writer_wakes(),
        }
    }

    /// Whether input is better looked for after a while, since it comes in larger parts then.
    pub(super) fn gathers_input(&self) -> bool {
        match self {
            Self::Tcp(sockets) => sockets.gathers(),
            // A look at a ring costs its writer next to nothing.
            Self::Shm(_) | Self::Verbs(_) => false,
        }
    }

    /// Ends this side's direction, and returns whether that took a bell.
    pub(super) fn finish(&self) -> bool {
        match self {
            Self::Tcp(sockets) => {
                sockets.finish();
                false
            }
            Self::Shm(memory) => memory.finish(),
            Self::Verbs(memory) => {
                memory.finish();
                false
            }
        }
    }
}
