//! The local socket beside a TCP listener.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::peer::check_peer;
use super::{Namespace, ShmLink, Side};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A local socket that stands beside a listening TCP socket.
#[derive(Debug)]
pub(crate) struct ShmListener {
    pub(super) socket: OwnedFd,
    address: SocketAddr,
    names: Namespace,
}

impl ShmListener {
    /// Listens for processes of this host that know the TCP address `address`.
    pub(crate) fn bind(address: SocketAddr, names: Namespace) -> io::Result<Self> {
        let socket = socket()?;
        rustix::net::bind(&socket, &names.name(address)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self { socket, address, names })
    }

    /// The next link that somebody has opened; it has yet to be given memory.
    pub(crate) fn accept(&self) -> io::Result<(ShmLink, SocketAddr)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, from) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        check_peer(socket.as_fd())?;
        let from = from.and_then(|from| SocketAddrUnix::try_from(from).ok());
        let from = from.as_ref().and_then(SocketAddrUnix::abstract_name);
        let from = from.and_then(|name| self.names.address_of(name));
        let from = from.unwrap_or(SocketAddr::new(self.address.ip(), 0));
        Ok((ShmLink::new(Side::Acceptor, socket), from))
    }

    /// The TCP address that it stands beside.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// For the poller.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(super) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}
