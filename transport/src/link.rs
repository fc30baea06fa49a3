//! What carries bytes between two nodes: a closed set of links behind one private trait.
//!
//! A link is a non-blocking, ordered, reliable stream of bytes. Everything above it (frames,
//! windows, calls) is the same on all of them, and one conformance suite runs on each.

mod fetch;
pub(crate) mod lent;
mod shm;
mod sim;
mod tcp;
#[cfg(feature = "verbs")]
mod verbs;
#[cfg(not(feature = "verbs"))]
#[path = "link/verbs_absent.rs"]
mod verbs;
mod verbs_options;
#[cfg(any(feature = "verbs", test))]
mod verbs_rules;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{GATHER_MIN, SHM_GATHER_BACKLOG, SHM_GATHER_MIN};
use crate::memory::{Block, Shared};

pub use sim::{SimConfig, SimCounters, SimCrash, SimNetwork};
pub use verbs_options::{VerbsError, VerbsOptions};

use crate::registration::Domain;

use shm::SHM_BYTES;

pub use shm::Mapping as SharedMapping;

pub use fetch::Source;

pub(crate) use fetch::{Fetch, Offer};
use lent::{Lending, Outgoing, Owner};
pub(crate) use shm::{Namespace, ShmLink, ShmListener};
#[cfg(feature = "streams")]
pub(crate) use shm::{reached, written_like};
pub(crate) use sim::{SimLink, SimListener, SimPort};
pub(crate) use tcp::{TcpLink, TcpListener};
#[cfg(feature = "streams")]
pub(crate) use verbs::{INVITATION_BYTES, RingDevice, RingLink};
pub(crate) use verbs::{VerbsDomain, VerbsLink, VerbsPort, VerbsRegistration};

/// What every link does. All of it is non-blocking: `WouldBlock` means to wait for the poller.
pub(crate) trait Transfer {
    /// Sends the pieces in order, as many bytes as the link takes now.
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// As [`send`](Self::send), of what may be sent from where it lies.
    fn send_lent(&self, pieces: &[Outgoing<'_>]) -> io::Result<usize> {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece.bytes)).collect();
        self.send(&slices)
    }

    /// Whether it sends what is in registered memory from where it lies.
    fn lends(&self) -> bool {
        false
    }

    /// How `memory` is sent from where it lies, if it is: because `owner` has registered it with the link, or, where that is
    /// nobody, since registering it has paid by now ([`Registration::where_it_pays`](crate::registration)).
    fn lending<'a>(
        &self,
        memory: &'a Shared,
        owner: Option<Arc<dyn Owner>>,
    ) -> Option<Lending<'a>> {
        let _ = (memory, owner);
        None
    }

    /// Receives what is there; zero bytes are the end of the stream.
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Whether a connection that was begun has come about; an error if it cannot.
    fn finish_connect(&self) -> io::Result<()>;

    /// Says that nothing more will be sent; what is under way still arrives.
    fn finish(&self);

    /// Ends both directions; what is under way may be lost.
    fn shutdown(&self);

    /// Lets the peer read `body` by itself. Nothing where the link or the peer cannot do that.
    fn offer(&self, body: &Shared) -> Option<Box<dyn Offer>> {
        let _ = body;
        None
    }

    /// Is going to read into `block` what the peer has offered, piece by piece.
    ///
    /// # Errors
    /// The block, where that cannot be.
    fn fetch(&self, block: Block, sources: &[Source]) -> Result<Box<dyn Fetch>, Block> {
        let _ = sources;
        Err(block)
    }
}

/// Which links an endpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkPolicy {
    /// Whatever is fastest: shared memory where the peer is on the same host and shares it, verbs
    /// where both sides have an RDMA device, TCP everywhere else.
    #[default]
    Auto,
    /// TCP alone, in both directions.
    Tcp,
    /// As `Auto`, but connecting to a peer with whom memory cannot be shared fails, with
    /// [`ConnectError::NotShared`](crate::ConnectError::NotShared).
    Shm,
    /// As `Auto`, but an endpoint without an RDMA device does not start, and connecting to a peer
    /// without one fails, with [`ConnectError::NoVerbs`](crate::ConnectError::NoVerbs).
    Verbs,
}

impl LinkPolicy {
    /// The link to try first.
    pub(crate) fn first(self) -> LinkKind {
        match self {
            Self::Auto | Self::Shm => LinkKind::Shm,
            Self::Tcp => LinkKind::Tcp,
            Self::Verbs => LinkKind::Verbs,
        }
    }

    /// The link to try where `failed` has not come about.
    pub(crate) fn after(self, failed: LinkKind) -> Option<LinkKind> {
        match (self, failed) {
            (Self::Auto, LinkKind::Shm) => Some(LinkKind::Verbs),
            (Self::Auto, LinkKind::Verbs) => Some(LinkKind::Tcp),
            _ => None,
        }
    }
}

impl FromStr for LinkPolicy {
    type Err = UnknownLinkPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "tcp" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            "verbs" => Ok(Self::Verbs),
            _ => Err(UnknownLinkPolicy),
        }
    }
}

impl std::fmt::Display for LinkPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
        })
    }
}

/// A name that is no link policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown link policy, choose auto, tcp, shm or verbs")]
pub struct UnknownLinkPolicy;

/// What a connection runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkKind {
    /// A TCP socket.
    Tcp,
    /// Memory that both processes have mapped.
    Shm,
    /// A queue pair of an RDMA device.
    Verbs,
    /// A simulated network.
    Sim,
}

impl std::fmt::Display for LinkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Sim => "sim",
        })
    }
}

/// That whoever answers says something else than what connections over verbs begin with.
#[cfg(any(feature = "verbs", test))]
pub(crate) fn not_over_verbs() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Whether that is what kept a link of this kind from coming about, and nothing that the system or a device said.
pub(crate) fn is_not_over_verbs(kind: LinkKind, error: &io::Error) -> bool {
    let is_unsupported = error.kind() == io::ErrorKind::Unsupported;
    kind == LinkKind::Verbs && is_unsupported && error.raw_os_error().is_none()
}

/// A connection's link.
#[derive(Debug)]
pub(crate) enum Link {
    Tcp(TcpLink),
    Shm(ShmLink),
    Verbs(VerbsLink),
    Sim(SimLink),
}

impl Link {
    /// Begins to connect to `address` over a link of that kind; over verbs by way of `port`.
    ///
    /// # Errors
    /// Besides the system's, `Unsupported` without a port, and for links that nobody connects so.
    pub(crate) fn connect(
        address: SocketAddr,
        kind: LinkKind,
        port: Option<&Arc<VerbsPort>>,
    ) -> io::Result<Self> {
        match (kind, port) {
            (LinkKind::Tcp, _) => TcpLink::connect(address).map(Self::Tcp),
            (LinkKind::Shm, _) => ShmLink::connect(address, Namespace::Endpoints).map(Self::Shm),
            (LinkKind::Verbs, Some(port)) => VerbsLink::connect(address, port).map(Self::Verbs),
            (LinkKind::Verbs, None) | (LinkKind::Sim, _) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A link that somebody else has begun, which by way of `port` may turn out to be over verbs.
    pub(crate) fn accepted(self, port: Option<&Arc<VerbsPort>>) -> Self {
        match (self, port) {
            (Self::Tcp(link), Some(port)) => VerbsLink::accepted(link, port),
            (link, _) => link,
        }
    }

    /// What it is.
    pub(crate) fn kind(&self) -> LinkKind {
        match self {
            Self::Tcp(_) => LinkKind::Tcp,
            Self::Shm(_) => LinkKind::Shm,
            Self::Verbs(link) if link.plain().is_some() => LinkKind::Tcp,
            Self::Verbs(_) => LinkKind::Verbs,
            Self::Sim(_) => LinkKind::Sim,
        }
    }

    /// Whether a body of `len` bytes is better gathered from a block of its own than copied behind the `backlog` bytes that
    /// wait in a lane.
    #[inline]
    pub(crate) fn gathers(&self, len: usize, backlog: u64) -> bool {
        len >= GATHER_MIN
            && (len >= SHM_GATHER_MIN
                || backlog >= SHM_GATHER_BACKLOG
                || self.kind() != LinkKind::Shm)
    }

    /// What memory is registered with to be sent and received over it.
    pub(crate) fn domain(&self) -> Domain {
        match self {
            Self::Verbs(link) => link.domain().map_or(Domain::Counted, Domain::Verbs),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => Domain::Counted,
        }
    }

    /// Whether a link that was full has room again, as far as that can be seen without a system call.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Shm(link) => link.has_room(),
            Self::Verbs(link) => link.is_writable(),
            Self::Tcp(_) | Self::Sim(_) => false,
        }
    }

    /// Whether something of what is being [fetched](Transfer::fetch) has come since this was asked last.
    pub(crate) fn take_fetched(&self) -> bool {
        match self {
            Self::Verbs(link) => link.take_fetched(),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => false,
        }
    }

    /// Has the system end the link once it has waited for so long for the peer to take something. A peer in
    /// shared memory cannot be gone without a word.
    pub(crate) fn give_up_after(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(link) => link.give_up_after(time),
            Self::Verbs(link) => link.socket().give_up_after(time),
            Self::Shm(_) | Self::Sim(_) => Ok(()),
        }
    }

    /// Bytes that it has sent from where they lay.
    pub(crate) fn lent_bytes(&self) -> u64 {
        match self {
            Self::Verbs(link) => link.lent_bytes(),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => 0,
        }
    }

    /// What it takes of this side's memory, in bytes, beyond what it allocates by itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Shm(_) => SHM_BYTES,
            Self::Tcp(_) | Self::Verbs(_) | Self::Sim(_) => 0,
        }
    }
}

/// Where a link's bytes come in from somebody who connects.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Shm(ShmListener),
    Sim(SimListener),
}

impl Listener {
    /// The next link that somebody has opened, and from where.
    pub(crate) fn accept(&self) -> io::Result<(Link, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(link, from)| (Link::Tcp(link), from)),
            Self::Shm(listener) => listener.accept().map(|(link, from)| (Link::Shm(link), from)),
            Self::Sim(listener) => listener.accept().map(|(link, from)| (Link::Sim(link), from)),
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.address(),
            Self::Shm(listener) => Ok(listener.address()),
            Self::Sim(listener) => Ok(listener.address()),
        }
    }
}

impl Transfer for Link {
    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(link) => link.send(pieces),
            Self::Shm(link) => link.send(pieces),
            Self::Verbs(link) => link.send(pieces),
            Self::Sim(link) => link.send(pieces),
        }
    }

    #[inline]
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(link) => link.receive(into),
            Self::Shm(link) => link.receive(into),
            Self::Verbs(link) => link.receive(into),
            Self::Sim(link) => link.receive(into),
        }
    }

    fn send_lent(&self, pieces: &[Outgoing<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(link) => link.send_lent(pieces),
            Self::Shm(link) => link.send_lent(pieces),
            Self::Verbs(link) => link.send_lent(pieces),
            Self::Sim(link) => link.send_lent(pieces),
        }
    }

    fn lends(&self) -> bool {
        match self {
            Self::Verbs(link) => link.lends(),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => false,
        }
    }

    fn lending<'a>(
        &self,
        memory: &'a Shared,
        owner: Option<Arc<dyn Owner>>,
    ) -> Option<Lending<'a>> {
        match self {
            Self::Verbs(link) => link.lending(memory, owner),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => None,
        }
    }

    fn finish_connect(&self) -> io::Result<()> {
        match self {
            Self::Tcp(link) => link.finish_connect(),
            Self::Shm(link) => link.finish_connect(),
            Self::Verbs(link) => link.finish_connect(),
            Self::Sim(link) => link.finish_connect(),
        }
    }

    fn finish(&self) {
        match self {
            Self::Tcp(link) => link.finish(),
            Self::Shm(link) => link.finish(),
            Self::Verbs(link) => link.finish(),
            Self::Sim(link) => link.finish(),
        }
    }

    fn shutdown(&self) {
        match self {
            Self::Tcp(link) => link.shutdown(),
            Self::Shm(link) => link.shutdown(),
            Self::Verbs(link) => link.shutdown(),
            Self::Sim(link) => link.shutdown(),
        }
    }

    fn offer(&self, body: &Shared) -> Option<Box<dyn Offer>> {
        match self {
            Self::Verbs(link) => link.offer(body),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => None,
        }
    }

    fn fetch(&self, block: Block, sources: &[Source]) -> Result<Box<dyn Fetch>, Block> {
        match self {
            Self::Verbs(link) => link.fetch(block, sources),
            Self::Tcp(_) | Self::Shm(_) | Self::Sim(_) => Err(block),
        }
    }
}
