//! Ports of this host for nodes that have to know one another's before any of them runs.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port that the system gives to nobody else as long as this lives: it is bound to, and nobody listens by that. Who wants just this one
/// can listen there, as nodes do, if they say that the address may be in use (`SO_REUSEADDR`).
///
/// A port that was free a moment ago is not: whoever connects is given one of the same range.
pub(crate) struct Port {
    _bound: OwnedFd,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn new() -> Port {
        let flags = SocketFlags::CLOEXEC;
        let bound = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        sockopt::set_socket_reuseaddr(&bound, true).unwrap();
        bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
        Port { _bound: bound, address }
    }
}
