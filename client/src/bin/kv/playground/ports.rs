//! Free ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// As many free addresses as are asked for, all different.
///
/// They are free when this returns; somebody else may take one before the server does, so a caller
/// has to be ready to ask again.
pub(super) fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All are held until the last is found, or the system could give out one twice.
    let held = (0..count).map(bind).collect::<io::Result<Vec<_>>>()?;
    held.iter().map(TcpListener::local_addr).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_address_is_given_out_twice() {
        let addresses = free_addresses(50).unwrap();
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 50);
    }
}
