//! A link by itself, as a byte stream for tokio's programs: what is a `TcpStream` to them runs over
//! shared memory where the peer is on this host, or over an RDMA device, with not a line of theirs changed.
//!
//! A stream is no connection of an [`Endpoint`](crate::Endpoint): no frames, no hello, no windows. Over
//! TCP its bytes are the program's own, so that either side may be any TCP program. The idea is
//! hadroNIO's, which puts UCX under netty; docs/streams.md has the behaviours beside TCP's.

#[cfg(doctest)]
#[doc = include_str!("../../docs/streams.md")]
struct Page;

mod alarm;
mod carrier;
mod halves;
mod listener;
mod pause;
mod readiness;
mod remote_memory;
mod shared_memory;
mod sleepers;
mod sockets;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;

use crate::idle::PollPolicy;
use crate::link::{LinkKind, LinkPolicy, VerbsOptions};

pub use halves::{WeftReadHalf, WeftWriteHalf};
pub use listener::WeftListener;

use carrier::Carrier;
use halves::{Receiving, Sending};

/// What streams run over and how they wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamConfig {
    /// Which links may be used. Verbs only where they are asked for alone.
    pub links: LinkPolicy,
    /// What a task does that waits for a stream. A waiting task spins by being scheduled again and
    /// again, so that all other tasks of its executor run meanwhile.
    pub poll: PollPolicy,
    /// Which RDMA device and address streams over verbs use.
    pub verbs: VerbsOptions,
}

/// What has gone through one stream, seen from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounters {
    /// Sends as the link itself counts them, one for a gathered write as for any other: over TCP calls of the system, over
    /// shared memory writes into the ring to the peer, over verbs calls of the device.
    pub sends: u64,
    /// Bytes that the link took.
    pub sent_bytes: u64,
    /// Reads that the link had something for.
    pub receives: u64,
    /// Bytes that the link had.
    pub received_bytes: u64,
    /// Times that a task asked to be woken, after it had spun or instead.
    pub sleeps: u64,
    /// System calls made to wake a peer that sleeps; over TCP the kernel does that.
    pub bells: u64,
}

/// A bidirectional stream of bytes: what `tokio::net::TcpStream` is, over the fastest link that the
/// peer shares.
#[derive(Debug)]
pub struct WeftStream {
    carrier: Arc<Carrier>,
    receiving: Receiving,
    sending: Sending,
}

impl WeftStream {
    /// Connects to `address`; where it names several, to the first that answers. The listener may be
    /// a [`WeftListener`], or any TCP server unless `config` insists on shared memory or verbs.
    ///
    /// # Errors
    /// Those of the last address tried. `ConnectionRefused` where nobody listens, or, under
    /// [`LinkPolicy::Shm`], nobody who shares memory, and under [`LinkPolicy::Verbs`], nobody who answers by
    /// verbs; there too `TimedOut` if they say nothing for five seconds, and `Unsupported` without an RDMA
    /// device, with a [`VerbsError`](crate::VerbsError) that says what is missing.
    pub async fn connect(address: impl ToSocketAddrs, config: StreamConfig) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for address in tokio::net::lookup_host(address).await? {
            match Carrier::connect(address, &config).await {
                Ok(carrier) => return Ok(Self::new(carrier, config.poll)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn new(carrier: Carrier, poll: PollPolicy) -> Self {
        Self {
            carrier: Arc::new(carrier),
            receiving: Receiving::new(poll),
            sending: Sending::new(poll),
        }
    }

    /// The other side's address. Over shared memory, a connecting side has an address of the same
    /// form as over TCP, with a port that is taken by no other stream.
    ///
    /// # Errors
    /// None today; the signature is that of `TcpStream`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.carrier.addresses().peer)
    }

    /// This side's address.
    ///
    /// # Errors
    /// None today; the signature is that of `TcpStream`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.carrier.addresses().local)
    }

    /// What it runs over.
    pub fn link(&self) -> LinkKind {
        self.carrier.kind()
    }

    /// What has gone through it.
    pub fn counters(&self) -> StreamCounters {
        self.receiving.count(self.sending.count(&self.carrier, StreamCounters::default()))
    }

    /// Halves that two tasks can own. When the writing half is dropped, the peer reads the end.
    pub fn into_split(self) -> (WeftReadHalf, WeftWriteHalf) {
        let Self { carrier, receiving, sending } = self;
        let read = WeftReadHalf::new(Arc::clone(&carrier), receiving);
        (read, WeftWriteHalf::new(carrier, sending))
    }
}

impl AsyncRead for WeftStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.receiving.poll(&this.carrier, cx, into)
    }
}

impl AsyncWrite for WeftStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.sending.poll(&this.carrier, cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is ever held back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.sending.finish(&this.carrier);
        Poll::Ready(Ok(()))
    }
}
