//! A node of the map, and the connection to it.

use std::sync::OnceLock;

use weft_protocol::NodeEntry;
use weft_transport::{Connection, Endpoint, Time};

use crate::error::{ClientError, NodeName, Unreachable};
use crate::resolve::resolve;

/// One node, and the connection that was opened when it was first needed. When that has ended, another `Remote` takes
/// its place in the cluster ([`MapKeeper::connect`](crate::map_keeper::MapKeeper::connect)), so that finding an open one takes no lock
/// and writes nothing but its count.
#[derive(Debug)]
pub(crate) struct Remote {
    name: NodeName,
    connection: OnceLock<Connection>,
}

impl Remote {
    pub(crate) fn new(entry: &NodeEntry) -> Self {
        let name = NodeName { id: entry.id, address: entry.address.as_str().into() };
        Self { name, connection: OnceLock::new() }
    }

    /// The same node, with another connection.
    pub(crate) fn renewed(&self, connection: Connection) -> Self {
        Self { name: self.name.clone(), connection: connection.into() }
    }

    pub(crate) fn name(&self) -> &NodeName {
        &self.name
    }

    /// Whether this is still the node that `entry` describes.
    pub(crate) fn is(&self, entry: &NodeEntry) -> bool {
        self.name.id == entry.id && *self.name.address == *entry.address
    }

    /// The connection, if it is open.
    #[inline]
    pub(crate) fn open(&self) -> Option<Connection> {
        self.connection.get().filter(|connection| connection.is_open()).cloned()
    }

    /// Keeps `connection`, if it is the first. Returns whether it is.
    pub(crate) fn keep(&self, connection: &Connection) -> bool {
        self.connection.set(connection.clone()).is_ok()
    }

    /// Opens a connection.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Time,
    ) -> Result<Connection, ClientError> {
        let unreachable = |reason| ClientError::Unreachable { node: self.name.clone(), reason };
        let connection =
            connect_to(endpoint, &self.name.address, deadline).await.map_err(unreachable)?;
        let found = connection.peer().node;
        if found != self.name.id {
            return Err(unreachable(Unreachable::OtherNode { found }));
        }
        Ok(connection)
    }
}

/// A connection to whoever answers at `address`. A name may stand for several addresses (`localhost`
/// usually does for two); they are tried in turn.
pub(crate) async fn connect_to(
    endpoint: &Endpoint,
    address: &str,
    deadline: Time,
) -> Result<Connection, Unreachable> {
    let candidates = resolve(endpoint, address, deadline).await?;
    let (last, others) = candidates.split_last().expect("resolving found at least one");
    for candidate in others {
        if let Ok(connection) = endpoint.connect(*candidate, deadline).await {
            return Ok(connection);
        }
    }
    Ok(endpoint.connect(*last, deadline).await?)
}
