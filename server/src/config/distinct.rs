//! What addresses are, however they are written: whether two are one, and whether they are of a host.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{ConfigError, HostPort, PeerEntry, Peers};

/// How long all names together may take to resolve. What is not known by then is left unchecked:
/// a name service that is slow, or does not know the others yet, keeps no node from starting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refuses a list in which two entries stand for one address here: `127.0.0.1:7400` and
/// `localhost:7400`; or in which one stands for every address of a host, as `0` and `0x0` do. A name
/// that cannot be resolved is no mistake here.
pub(super) fn check_peers(peers: &Peers) -> Result<(), ConfigError> {
    let entry = |peer: &PeerEntry| format!("{}={}", peer.id.0, peer.address);
    let mut known: Vec<(&PeerEntry, Vec<SocketAddr>)> = Vec::new();
    let (numbers, names): (Vec<_>, Vec<_>) =
        peers.iter().partition(|peer| peer.address.as_number().is_some());
    known.extend(numbers.into_iter().map(|peer| (peer, peer.address.resolve_all())));
    let resolved = resolve_in_time(names.iter().map(|peer| peer.address.clone()).collect());
    known.extend(names.into_iter().zip(resolved));
    for (index, (peer, addresses)) in known.iter().enumerate() {
        let is_unspecified = |address: &&SocketAddr| address.ip().to_canonical().is_unspecified();
        if let Some(address) = addresses.iter().find(is_unspecified) {
            return Err(ConfigError::PeerUnspecified { entry: entry(peer), address: *address });
        }
        for (other, others) in &known[..index] {
            let same =
                |address: &&SocketAddr| others.iter().any(|other| is_same(*other, **address));
            if let Some(address) = addresses.iter().find(same) {
                let (first, second) =
                    if other.id < peer.id { (*other, *peer) } else { (*peer, *other) };
                return Err(ConfigError::OneAddressTwice {
                    first: entry(first),
                    second: entry(second),
                    address: *address,
                });
            }
        }
    }
    Ok(())
}

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

/// What the names stand for, in their order, as far as it is known in time.
#[expect(
    clippy::disallowed_methods,
    reason = "names are resolved once, before the node starts, and no longer than it may wait"
)]
fn resolve_in_time(names: Vec<HostPort>) -> Vec<Vec<SocketAddr>> {
    let (resolved, results) = mpsc::channel();
    let deadline = std::time::Instant::now() + PATIENCE;
    // It ends with its last name, or when nobody waits for the next any more.
    thread::spawn(move || names.iter().try_for_each(|name| resolved.send(name.resolve_all())));
    let left = || deadline.saturating_duration_since(std::time::Instant::now());
    std::iter::from_fn(|| results.recv_timeout(left()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_one_address_are_one() {
        let check = |peers: &str| check_peers(&peers.parse().unwrap());
        let error = check("2=localhost:7400,1=127.0.0.1:7400").unwrap_err().to_string();
        assert!(error.contains("1=127.0.0.1:7400 and 2=localhost:7400"), "{error}");
        assert!(error.contains("give every node its own"), "{error}");
        assert!(check("1=127.0.0.1:7400,2=[::ffff:127.0.0.1]:7400").is_err());
        check("1=127.0.0.1:7400,2=localhost:7401").unwrap();
        check("1=127.0.0.1:7400,2=127.0.0.2:7400").unwrap();
        // Whoever cannot be resolved now is looked up by those who connect.
        check("1=127.0.0.1:7400,2=no-such-host.invalid:7400,3=neither.invalid:7400").unwrap();
    }

    #[test]
    fn clients_reach_a_node_only_at_the_address_of_a_host() {
        for address in [
            "0.0.0.0:7400",
            "[::]:7400",
            "[::ffff:0.0.0.0]:7400",
            // What the system's resolver takes for a number.
            "0:7400",
            "0x0:7400",
            "000.0.0.0:7400",
        ] {
            let error = check_peers(&format!("1=127.0.0.1:7400,2={address}").parse().unwrap());
            let message = error.unwrap_err().to_string();
            assert!(message.contains(&format!("peer 2={address} is at ")), "{message}");
            assert!(message.contains("names no host"), "{message}");
        }
    }

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
