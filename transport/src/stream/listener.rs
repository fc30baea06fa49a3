//! Where streams come in: a TCP socket, and a local one beside it for those who share memory.

use std::io;
use std::net::SocketAddr;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::ToSocketAddrs;

use super::carrier::{Addresses, Carrier};
use super::readiness::watch;
use super::remote_memory::Reception;
use super::shared_memory::SharedMemory;
use super::sockets::Sockets;
use super::{StreamConfig, WeftStream};
use crate::idle::PollPolicy;
use crate::link::{
    LinkPolicy, Namespace, ShmLink, ShmListener, TcpLink, TcpListener, written_like,
};

/// Accepts streams: from any TCP program, and from a [`WeftStream`] on this host over shared memory; or, under
/// [`LinkPolicy::Verbs`], over verbs alone.
#[derive(Debug)]
pub struct WeftListener {
    doors: Doors,
    address: SocketAddr,
    poll: PollPolicy,
}

/// Where streams come in.
#[derive(Debug)]
enum Doors {
    // Dropped in this order: who is given the port next finds its name free.
    Sockets { shm: Option<AsyncFd<ShmListener>>, tcp: AsyncFd<TcpListener> },
    // Nobody else is let in: to tell them apart, one would have to wait for them to speak first, which is not for a
    // client to do in every protocol.
    Verbs(Reception),
}

/// What has come in.
enum Incoming {
    Tcp(TcpLink, SocketAddr),
    Shm(ShmLink, SocketAddr),
}

impl WeftListener {
    /// Listens on `address`; port 0 takes a free one, and where it names several, the first that can
    /// be listened on is taken.
    ///
    /// # Errors
    /// Those of the last address tried. Only under [`LinkPolicy::Shm`] does it count that no memory
    /// can be shared; under [`LinkPolicy::Auto`] it is logged, and TCP remains. `Unsupported` under
    /// [`LinkPolicy::Verbs`] without an RDMA device, with a [`VerbsError`](crate::VerbsError) that says what is
    /// missing.
    pub async fn bind(address: impl ToSocketAddrs, config: StreamConfig) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for address in tokio::net::lookup_host(address).await? {
            match Self::bind_to(address, &config) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind_to(address: SocketAddr, config: &StreamConfig) -> io::Result<Self> {
        let tcp = TcpListener::bind(address)?;
        let address = tcp.address()?;
        let tcp = watch(tcp, Interest::READABLE)?;
        let shared = || watch(ShmListener::bind(address, Namespace::Streams)?, Interest::READABLE);
        let doors = match config.links {
            LinkPolicy::Tcp => Doors::Sockets { tcp, shm: None },
            LinkPolicy::Shm => Doors::Sockets { tcp, shm: Some(shared()?) },
            LinkPolicy::Verbs => Doors::Verbs(Reception::open(tcp, &config.verbs)?),
            LinkPolicy::Auto => {
                let warn =
                    |error: &_| tracing::warn!(%error, %address, "streams will be TCP alone");
                Doors::Sockets { tcp, shm: shared().inspect_err(warn).ok() }
            }
        };
        Ok(Self { doors, address, poll: config.poll })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None today; the signature is that of `TcpListener`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    /// The next stream, and where it comes from. Dropping the future loses none.
    ///
    /// # Errors
    /// Those of the system, as with `TcpListener`: out of descriptors, for one. The listener is
    /// still good.
    pub async fn accept(&self) -> io::Result<(WeftStream, SocketAddr)> {
        let (carrier, from) = match &self.doors {
            Doors::Sockets { tcp, shm } => self.next(tcp, shm.as_ref()).await?,
            Doors::Verbs(reception) => {
                let (memory, from) = reception.accept().await?;
                (Carrier::Verbs(memory), from)
            }
        };
        Ok((WeftStream::new(carrier, self.poll), from))
    }

    async fn next(
        &self,
        tcp: &AsyncFd<TcpListener>,
        shm: Option<&AsyncFd<ShmListener>>,
    ) -> io::Result<(Carrier, SocketAddr)> {
        match incoming(tcp, shm).await? {
            Incoming::Tcp(link, from) => {
                Ok((Sockets::accepted(link, from).map(Carrier::Tcp)?, from))
            }
            Incoming::Shm(link, from) => {
                let from = written_like(from, self.address);
                let addresses = Addresses { local: self.address_towards(from), peer: from };
                Ok((SharedMemory::accepted(link, addresses).map(Carrier::Shm)?, from))
            }
        }
    }

    /// This side's address as `from` sees it: a listener at every address is one of them to each.
    fn address_towards(&self, from: SocketAddr) -> SocketAddr {
        if self.address.ip().is_unspecified() {
            // Somebody on this host comes from the address that they connect to.
            return SocketAddr::new(from.ip(), self.address.port());
        }
        self.address
    }
}

async fn incoming(
    tcp: &AsyncFd<TcpListener>,
    shm: Option<&AsyncFd<ShmListener>>,
) -> io::Result<Incoming> {
    let tcp = async {
        let accepted = tcp.async_io(Interest::READABLE, TcpListener::accept).await;
        accepted.map(|(link, from)| Incoming::Tcp(link, from))
    };
    let Some(shm) = shm else { return tcp.await };
    let shm = async {
        loop {
            match shm.async_io(Interest::READABLE, ShmListener::accept).await {
                Ok((link, from)) => return Ok(Incoming::Shm(link, from)),
                // Another user's process: it may connect by TCP.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    };
    tokio::select! {
        accepted = tcp => accepted,
        accepted = shm => accepted,
    }
}
