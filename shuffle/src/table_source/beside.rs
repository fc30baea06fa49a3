//! Whether a node runs on this machine.

use std::net::{ToSocketAddrs as _, UdpSocket};

/// Whether the host of `address`, `host:port`, is this one: whether one of its addresses can be listened on here. Nothing is sent; a name is looked up.
#[expect(
    clippy::disallowed_methods,
    reason = "the shell that asks the system which addresses are its own"
)]
pub(super) fn is_beside(address: &str) -> bool {
    let Ok(mut addresses) = address.to_socket_addrs() else { return false };
    addresses.any(|address| UdpSocket::bind((address.ip(), 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_machine_can_listen_on_is_beside() {
        assert!(is_beside("127.0.0.1:7400"));
        // Addresses that are kept for documents.
        for elsewhere in ["192.0.2.1:7400", "[2001:db8::1]:7400", "no address", "127.0.0.1"] {
            assert!(!is_beside(elsewhere), "{elsewhere}");
        }
    }
}
