//! What carries bytes between two nodes: a closed set of links behind one private trait.
//!
//! A link is a non-blocking, ordered, reliable stream of bytes. Everything above it (frames,
//! windows, calls) is the same on all of them, and one conformance suite runs on each.

mod sim;
mod tcp;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

pub use sim::{SimConfig, SimNetwork};

pub(crate) use sim::{SimLink, SimListener, SimPort};
pub(crate) use tcp::{TcpLink, TcpListener};

/// What every link does. All of it is non-blocking: `WouldBlock` means to wait for the poller.
pub(crate) trait Transfer {
    /// Sends the pieces in order, as many bytes as the link takes now.
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Receives what is there; zero bytes are the end of the stream.
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Whether a connection that was begun has come about; an error if it cannot.
    fn finish_connect(&self) -> io::Result<()>;

    /// Says that nothing more will be sent; what is under way still arrives.
    fn finish(&self);

    /// Ends both directions; what is under way may be lost.
    fn shutdown(&self);
}

/// A connection's link.
#[derive(Debug)]
pub(crate) enum Link {
    Tcp(TcpLink),
    Sim(SimLink),
}

/// Where a link's bytes come in from somebody who connects.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Sim(SimListener),
}

impl Listener {
    /// The next link that somebody has opened, and from where.
    pub(crate) fn accept(&self) -> io::Result<(Link, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(link, from)| (Link::Tcp(link), from)),
            Self::Sim(listener) => listener.accept().map(|(link, from)| (Link::Sim(link), from)),
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.address(),
            Self::Sim(listener) => Ok(listener.address()),
        }
    }
}

impl Transfer for Link {
    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(link) => link.send(pieces),
            Self::Sim(link) => link.send(pieces),
        }
    }

    #[inline]
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(link) => link.receive(into),
            Self::Sim(link) => link.receive(into),
        }
    }

    fn finish_connect(&self) -> io::Result<()> {
        match self {
            Self::Tcp(link) => link.finish_connect(),
            Self::Sim(link) => link.finish_connect(),
        }
    }

    fn finish(&self) {
        match self {
            Self::Tcp(link) => link.finish(),
            Self::Sim(link) => link.finish(),
        }
    }

    fn shutdown(&self) {
        match self {
            Self::Tcp(link) => link.shutdown(),
            Self::Sim(link) => link.shutdown(),
        }
    }
}
