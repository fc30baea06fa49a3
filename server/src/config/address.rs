//! Addresses as people write them: a host, by name or number, and a port.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use weft_protocol::limits::ADDRESS_MAX;

use super::ConfigError;

/// `HOST:PORT`, where the host is a name, an IPv4 address, or an IPv6 address in brackets. Kept as
/// text, because it is handed to clients, and a name may mean something else to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort(String);

impl HostPort {
    /// The socket address that it stands for here and now.
    ///
    /// # Errors
    /// [`ConfigError::Unresolved`].
    #[expect(
        clippy::disallowed_methods,
        reason = "names are resolved once, before the node starts"
    )]
    pub fn resolve(&self) -> Result<SocketAddr, ConfigError> {
        let unresolved = |source| ConfigError::Unresolved { address: self.0.clone(), source };
        let mut addresses = self.0.to_socket_addrs().map_err(|source| unresolved(Some(source)))?;
        addresses.next().ok_or_else(|| unresolved(None))
    }

    /// Whether it says which port: 0 leaves it to the system.
    pub(super) fn names_a_port(&self) -> bool {
        self.0.rsplit_once(':').is_some_and(|(_, port)| port.parse() != Ok(0_u16))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HostPort, AddressError> {
        if text.len() > ADDRESS_MAX {
            return Err(AddressError::TooLong);
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::PortMissing)?;
        let host_is_well_formed = match host.strip_prefix('[') {
            Some(bracketed) => bracketed.ends_with(']'),
            None => !host.contains([':', '[', ']', '/', ' ', '=', ',']),
        };
        if host.is_empty() || !host_is_well_formed {
            return Err(AddressError::Host);
        }
        port.parse::<u16>().map_err(|_| AddressError::Port)?;
        Ok(HostPort(text.to_owned()))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> HostPort {
        HostPort(address.to_string())
    }
}

/// Where the HTTP port is, if anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAddress {
    /// Nowhere.
    Off,
    /// There.
    At(HostPort),
}

impl HttpAddress {
    /// The socket address that it stands for here and now, if any.
    ///
    /// # Errors
    /// [`ConfigError::Unresolved`].
    pub fn resolve(&self) -> Result<Option<SocketAddr>, ConfigError> {
        match self {
            HttpAddress::Off => Ok(None),
            HttpAddress::At(address) => address.resolve().map(Some),
        }
    }
}

impl FromStr for HttpAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HttpAddress, AddressError> {
        if text == "off" { Ok(HttpAddress::Off) } else { text.parse().map(HttpAddress::At) }
    }
}

/// What keeps a text from being an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is longer than any name and port.
    #[error("it is longer than {ADDRESS_MAX} bytes; write HOST:PORT")]
    TooLong,
    /// There is no colon.
    #[error("the port is missing; write HOST:PORT")]
    PortMissing,
    /// The port is no number, or too large.
    #[error("the port is no number up to 65535; write HOST:PORT")]
    Port,
    /// The host is empty or has characters that no host has.
    #[error("the host is not a name or address; write HOST:PORT, and an IPv6 address in brackets")]
    Host,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_numbers() {
        for good in ["127.0.0.1:7400", "[::1]:0", "node-1.weft:7400", "localhost:65535"] {
            assert_eq!(good.parse::<HostPort>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        let check =
            |text: &str, expected| assert_eq!(text.parse::<HostPort>(), Err(expected), "{text}");
        check("localhost", AddressError::PortMissing);
        check("localhost:", AddressError::Port);
        check("localhost:65536", AddressError::Port);
        check(":7400", AddressError::Host);
        check("::1:7400", AddressError::Host);
        check("http://localhost:7400", AddressError::Host);
    }
}
