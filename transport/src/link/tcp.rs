//! The TCP link: one bidirectional socket a connection, non-blocking, without Nagle's delay.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::Transfer;

/// How long an idle connection may be silent before the kernel asks whether the peer's machine is
/// still there; then every [`KEEPALIVE_INTERVAL`], three times, or as long as [`TcpLink::give_up_after`] says.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// One end of a TCP connection.
#[derive(Debug)]
pub(crate) struct TcpLink {
    stream: TcpStream,
    /// Calls of the system that took something to send. Whoever sends writes it, one thread at a time.
    sends: AtomicU64,
}

impl TcpLink {
    /// Begins to connect; the link becomes writable when that has succeeded or failed.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = socket(address)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Self::new(TcpStream::from(socket)),
            Err(error) => Err(error.into()),
        }
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        Ok(Self { stream, sends: AtomicU64::new(0) })
    }

    /// Ends in an error once what has been sent has not been taken for so long: by the peer's machine, which may
    /// be gone, or by the peer, whose machine has no more room for it. A machine that is silent is asked before
    /// that, and has until then to answer. Otherwise it would be the system's own patience, of a quarter of an hour.
    pub(crate) fn give_up_after(&self, time: Duration) -> io::Result<()> {
        // Zero would be the system's own.
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        Ok(sockopt::set_tcp_user_timeout(&self.stream, ms)?)
    }

    /// For the poller.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(feature = "streams")]
impl TcpLink {
    /// This side's address, and the other's.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }

    /// Calls of the system that took something to send.
    pub(crate) fn sends(&self) -> u64 {
        self.sends.load(Ordering::Relaxed)
    }
}

#[cfg(feature = "streams")]
impl std::os::fd::AsRawFd for TcpLink {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.stream.as_raw_fd()
    }
}

#[cfg(feature = "streams")]
impl std::os::fd::AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.listener.as_raw_fd()
    }
}

impl Transfer for TcpLink {
    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = match pieces {
            [piece] => (&self.stream).write(piece)?,
            _ => (&self.stream).write_vectored(pieces)?,
        };
        self.sends.store(self.sends.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(sent)
    }

    #[inline]
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let [buffer] = into {
            return (&self.stream).read(buffer);
        }
        (&self.stream).read_vectored(into)
    }

    fn finish_connect(&self) -> io::Result<()> {
        match self.stream.take_error()? {
            Some(error) => Err(error),
            None => self.stream.peer_addr().map(|_| ()),
        }
    }

    fn finish(&self) {
        // The peer may have gone first; then there is nobody to tell.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn shutdown(&self) {
        // The peer may have gone first; then there is nothing left to end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A listening TCP socket.
#[derive(Debug)]
pub(crate) struct TcpListener {
    listener: std::net::TcpListener,
}

impl TcpListener {
    /// Listens on `address`; port 0 takes a free one. At every address of IPv6 means at those of
    /// IPv4 too, however the system is set.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket(address)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, false)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self { listener: std::net::TcpListener::from(socket) })
    }

    pub(crate) fn accept(&self) -> io::Result<(TcpLink, SocketAddr)> {
        let (stream, from) = self.listener.accept()?;
        Ok((TcpLink::new(stream)?, from))
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// For the poller.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A new non-blocking stream socket of the address's family.
fn socket(address: SocketAddr) -> io::Result<std::os::fd::OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}
