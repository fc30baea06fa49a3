//! Whether two addresses are one.

use std::net::{IpAddr, SocketAddr};

/// Whether a process cannot listen at both: they are the same, or one of them is every address of
/// the host. Port 0 takes a free one.
pub(super) fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    // A socket on every IPv6 address takes IPv4 connections too.
    let covers = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    a.port() != 0 && a.port() == b.port() && (is_same(a, b) || covers(a, b) || covers(b, a))
}

fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    // `::ffff:127.0.0.1` is 127.0.0.1.
    let plain = |ip: IpAddr| ip.to_canonical();
    a.port() == b.port() && plain(a.ip()) == plain(b.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_takes_the_port_of_each() {
        let check = |a: &str, b: &str, expected| {
            assert_eq!(collide(a.parse().unwrap(), b.parse().unwrap()), expected, "{a} {b}");
            assert_eq!(collide(b.parse().unwrap(), a.parse().unwrap()), expected, "{b} {a}");
        };
        check("127.0.0.1:7400", "127.0.0.1:7400", true);
        check("127.0.0.1:7400", "127.0.0.1:7401", false);
        check("127.0.0.1:7400", "127.0.0.2:7400", false);
        check("127.0.0.1:0", "127.0.0.1:0", false);
        check("0.0.0.0:7400", "127.0.0.1:7400", true);
        check("[::]:7400", "127.0.0.1:7400", true);
        check("0.0.0.0:7400", "[::1]:7400", false);
    }
}
