//! Free ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Where a node is to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodePorts {
    pub(super) data: SocketAddr,
    pub(super) http: SocketAddr,
    /// The port after that of data, where it is looked for by whoever knows only that.
    pub(super) control: SocketAddr,
}

/// Free ports for as many nodes as are asked for, all different.
///
/// They are free when this returns; somebody else may take one before the server does, so a caller
/// has to be ready to ask again.
pub(super) fn free_ports(count: usize) -> io::Result<Vec<NodePorts>> {
    // All are held until the last is found, or the system could give out one twice; those without a free one after them too.
    let mut held = Vec::new();
    let mut found = Vec::new();
    while found.len() < count {
        let data = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let data_address = data.local_addr()?;
        held.push(data);
        let Some(port) = data_address.port().checked_add(1) else { continue };
        let control = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(control) => control,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
            Err(error) => return Err(error),
        };
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (http_address, control_address) = (http.local_addr()?, control.local_addr()?);
        held.extend([http, control]);
        found.push(NodePorts { data: data_address, http: http_address, control: control_address });
    }
    Ok(found)
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
    }
}
