//! Free ports on the loopback interface.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use rand::seq::SliceRandom as _;

/// Where a node is to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodePorts {
    pub(super) data: SocketAddr,
    pub(super) http: SocketAddr,
    /// The port after that of data, where it is looked for by whoever knows only that.
    pub(super) control: SocketAddr,
}

/// Ports below are often those of some service that is known by them.
const LOWEST: u16 = 10_000;

/// How many ports a node has, one after the other.
const EACH: u16 = 3;

/// Free ports for as many nodes as are asked for, all different, and, where there are enough others, none of those that connections get by
/// themselves: of these, each connection of a node that has started could take one that was found for the next.
///
/// They are free when this returns; somebody else may take one before the server does, so a caller
/// has to be ready to ask again.
pub(super) fn free_ports(count: usize) -> io::Result<Vec<NodePorts>> {
    let mut candidates = candidates(&of_connections(), count);
    candidates.shuffle(&mut rand::rng());
    // All are held until the last is found, so that none is found twice.
    let mut held = Vec::new();
    let mut found = Vec::new();
    for first in candidates {
        if found.len() == count {
            break;
        }
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        match (first..first + EACH).map(bind).collect::<io::Result<Vec<_>>>() {
            Ok(listeners) => held.extend(listeners),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
            Err(error) => return Err(error),
        }
        let [data, control, http] =
            [first, first + 1, first + 2].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        found.push(NodePorts { data, http, control });
    }
    if found.len() < count {
        let (few, all) = (found.len(), count);
        return Err(io::Error::other(format!("there are free ones for {few} nodes of {all}")));
    }
    Ok(found)
}

/// First ports that nodes may have: outside of `of_connections`, unless there are too few of them.
fn candidates(of_connections: &RangeInclusive<u16>, count: usize) -> Vec<u16> {
    let all = || (LOWEST..=u16::MAX - EACH).step_by(usize::from(EACH));
    let is_outside = |first: &u16| {
        !of_connections.contains(first) && !of_connections.contains(&(first + EACH - 1))
    };
    let outside: Vec<u16> = all().filter(is_outside).collect();
    // As many again may be in use.
    if outside.len() < 2 * count { all().collect() } else { outside }
}

/// The ports that the system gives to connections.
fn of_connections() -> RangeInclusive<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(str::parse);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        // Linux's own.
        _ => 32_768..=60_999,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_address_is_given_out_twice() {
        let found = free_ports(50).unwrap();
        let all = found.iter().flat_map(|node| [node.data, node.http, node.control]);
        assert_eq!(all.collect::<HashSet<_>>().len(), 150);
        assert!(found.iter().all(|node| node.control.port() == node.data.port() + 1));
        let of_connections = of_connections();
        let ports = found.iter().flat_map(|node| [node.data, node.http, node.control]);
        assert!(ports.map(|at| at.port()).all(|port| !of_connections.contains(&port)));
    }

    #[test]
    fn ports_of_connections_are_taken_where_there_are_no_others() {
        let outside = candidates(&(20_000..=65_535), 50);
        assert!(outside.iter().all(|first| (10_000..=19_997).contains(first)), "{outside:?}");
        assert!(outside.len() > 3_000);
        let all = candidates(&(1_024..=65_535), 50);
        assert!(all.len() > 18_000 && all.iter().all(|first| *first >= 10_000));
    }
}
