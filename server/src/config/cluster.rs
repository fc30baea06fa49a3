//! What a node is told of the cluster: whom to join, and what it is there for.

use std::fmt;
use std::str::FromStr;

use weft_protocol::limits::NODES_MAX;

use super::{AddressError, HostPort};

/// Where nodes of the cluster may be found: `HOST:PORT,…`. This node may be among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(Vec<HostPort>);

impl Seeds {
    /// The addresses, as they were given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &HostPort> {
        self.0.iter()
    }
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Seeds, SeedsError> {
        let entry = |entry: &str| {
            let entry = entry.trim();
            let address: HostPort = entry
                .parse()
                .map_err(|error| SeedsError::Address { entry: entry.to_owned(), error })?;
            if !address.names_a_port() {
                return Err(SeedsError::NoPort { entry: entry.to_owned() });
            }
            Ok(address)
        };
        let seeds = text.split(',').map(entry).collect::<Result<Vec<_>, _>>()?;
        if seeds.len() > NODES_MAX {
            return Err(SeedsError::TooMany { count: seeds.len() });
        }
        if let Some(twice) = (1..seeds.len()).find(|index| seeds[..*index].contains(&seeds[*index]))
        {
            return Err(SeedsError::Twice { address: seeds[twice].to_string() });
        }
        Ok(Seeds(seeds))
    }
}

/// What keeps a text from being a list of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeedsError {
    /// An entry is no address.
    #[error("{entry:?} is no good address: {error}")]
    Address {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        error: AddressError,
    },
    /// The port is left open, where others have to find the node.
    #[error("{entry:?} names no port; write HOST:PORT")]
    NoPort {
        /// The entry.
        entry: String,
    },
    /// There are more than there can be nodes.
    #[error("{count} addresses are more than {NODES_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// The same is there twice.
    #[error("{address} is there twice")]
    Twice {
        /// The address.
        address: String,
    },
}

/// What a node is there for: `storage`, `coordinator`, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// It holds objects.
    pub storage: bool,
    /// It is one of those that agree about the cluster.
    pub coordinator: bool,
}

impl Roles {
    /// What a node is by default.
    pub const ALL: Roles = Roles { storage: true, coordinator: true };
}

impl FromStr for Roles {
    type Err = RolesError;

    fn from_str(text: &str) -> Result<Roles, RolesError> {
        let mut roles = Roles { storage: false, coordinator: false };
        for role in text.split(',') {
            match role.trim() {
                "storage" => roles.storage = true,
                "coordinator" => roles.coordinator = true,
                other => return Err(RolesError { role: other.to_owned() }),
            }
        }
        Ok(roles)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.storage, self.coordinator) {
            (true, true) => "storage,coordinator",
            (true, false) => "storage",
            (false, true) => "coordinator",
            (false, false) => "",
        })
    }
}

/// A role that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{role:?} is no role; write storage, coordinator, or storage,coordinator")]
pub struct RolesError {
    /// What was given.
    pub role: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_addresses_with_ports() {
        let seeds: Seeds = "a:1, 127.0.0.1:2,[::1]:3".parse().unwrap();
        let texts: Vec<_> = seeds.iter().map(HostPort::as_str).collect();
        assert_eq!(texts, ["a:1", "127.0.0.1:2", "[::1]:3"]);
        for (text, part) in [
            ("", "HOST:PORT"),
            ("a", "HOST:PORT"),
            ("a:1,,b:2", "HOST:PORT"),
            ("a:0", "names no port"),
            ("a:1,b:2,a:1", "a:1 is there twice"),
        ] {
            let error = text.parse::<Seeds>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn roles_are_read_as_written() {
        for text in ["storage", "coordinator", "storage,coordinator"] {
            assert_eq!(text.parse::<Roles>().unwrap().to_string(), text);
        }
        assert_eq!("coordinator, storage".parse::<Roles>().unwrap(), Roles::ALL);
        for text in ["", "storage,", "proxy"] {
            assert!(text.parse::<Roles>().is_err(), "{text:?}");
        }
    }
}
