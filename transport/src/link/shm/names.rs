//! How processes of one host find each other: names of local sockets, made of TCP addresses.
//!
//! That somebody is on the same host is not asked and answered, but found: names of local sockets in the
//! abstract namespace belong to a network namespace of one kernel, as addresses do, so that the name of an
//! address leads to the listener that TCP would lead to, or to nobody.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

/// In the names of those that connect.
const FROM: &str = "from/";

/// Who listens under a name: endpoints and streams say different things, and do not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Endpoints,
    #[cfg_attr(not(feature = "streams"), expect(dead_code, reason = "streams use it"))]
    Streams,
}

impl Namespace {
    fn prefix(self) -> &'static str {
        match self {
            Self::Endpoints => "weft/",
            Self::Streams => "weft-stream/",
        }
    }

    /// The name of the local socket that stands beside a listener at a TCP address.
    pub(super) fn name(self, address: SocketAddr) -> Result<SocketAddrUnix, Errno> {
        let (prefix, address) = (self.prefix(), as_ipv4(address));
        SocketAddrUnix::new_abstract_name(format!("{prefix}{address}").as_bytes())
    }

    /// The name of a local socket that connects as if from a TCP address. No listener has such a name: it
    /// could not listen at an address that somebody has drawn.
    pub(super) fn name_from(self, address: SocketAddr) -> Result<SocketAddrUnix, Errno> {
        let prefix = self.prefix();
        SocketAddrUnix::new_abstract_name(format!("{prefix}{FROM}{address}").as_bytes())
    }

    /// The TCP address that a local socket is named after.
    pub(super) fn address_of(self, name: &[u8]) -> Option<SocketAddr> {
        let address = std::str::from_utf8(name).ok()?.strip_prefix(self.prefix())?;
        address.strip_prefix(FROM).unwrap_or(address).parse().ok()
    }
}

/// Where the system goes for `address`: one that names no host is this host's, and an address of IPv4 may be
/// written as one of IPv6.
pub(crate) fn reached(address: SocketAddr) -> SocketAddr {
    let mut address = as_ipv4(address);
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// `address` in the form that sockets of the family of `like` give it: of IPv4, as one of IPv6 where that is theirs.
#[cfg(feature = "streams")]
pub(crate) fn written_like(address: SocketAddr, like: SocketAddr) -> SocketAddr {
    match (address, like) {
        (SocketAddr::V4(address), SocketAddr::V6(_)) => {
            SocketAddr::new(address.ip().to_ipv6_mapped().into(), address.port())
        }
        _ => address,
    }
}

/// The addresses of those who would get a TCP connection to `address`, if they are on this host: who listens
/// there, before who listens at every address.
pub(super) fn listeners_for(address: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let everywhere = iter::once(address).filter(|address| is_of_this_host(*address));
    let everywhere = everywhere.flat_map(|address| {
        let (ipv4, ipv6) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        // At all of IPv6 means at those of IPv4 too.
        let ipv4 = address.is_ipv4().then(|| SocketAddr::new(ipv4.into(), address.port()));
        ipv4.into_iter().chain([SocketAddr::new(ipv6.into(), address.port())])
    });
    iter::once(address).chain(everywhere)
}

fn as_ipv4(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // As it is, with its scope.
        IpAddr::V6(_) => address,
    }
}

/// Whether `address` is one of this host: then the way to it begins at itself. Nothing is sent.
#[expect(clippy::disallowed_methods, reason = "a link is what does I/O")]
fn is_of_this_host(address: SocketAddr) -> bool {
    if address.ip().is_loopback() {
        return true;
    }
    let any = match address.ip() {
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let route = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    route.is_ok_and(|from| from.ip() == address.ip())
}
