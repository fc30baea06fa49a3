//! Where a node is reached: `HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// `HOST:PORT`, as it was written; whether the host exists is seen when it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

/// A text that is no [`Address`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address is HOST:PORT, such as 127.0.0.1:7400 or [::1]:7400")]
pub struct MalformedAddress;

impl FromStr for Address {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(MalformedAddress)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let is_host = !host.is_empty() && (bracketed || !host.contains([':', '/', ' ', '[', ']']));
        match port.parse::<u16>() {
            Ok(1..) if is_host => Ok(Self(text.to_owned())),
            _ => Err(MalformedAddress),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for good in ["127.0.0.1:7400", "[::1]:7400", "localhost:1", "node-1.weft.svc:65535"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in
            ["", "localhost", ":7400", "a:0", "a:65536", "::1:7400", "http://a:7400", "a b:1"]
        {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
