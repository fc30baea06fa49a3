//! [`Client`](crate::Client)'s operations on values that are graphs of objects, for callers that block.

use weft_object::{Frozen, Types, Wire};
use weft_protocol::Version;

use super::BlockingClient;
use crate::error::ClientError;
use crate::graph::{GraphError, GraphLookup};

impl BlockingClient {
    /// See [`Client::put_graph`](crate::Client::put_graph).
    ///
    /// # Errors
    /// See [`Client::put_graph`](crate::Client::put_graph).
    pub fn put_graph<R: Wire>(
        &self,
        key: impl AsRef<[u8]>,
        graph: &Frozen<R>,
    ) -> Result<Version, ClientError> {
        self.client.block_on(self.client.put_graph(key, graph))
    }

    /// See [`Client::get_graph`](crate::Client::get_graph).
    ///
    /// # Errors
    /// See [`Client::get_graph`](crate::Client::get_graph).
    pub fn get_graph<R: Wire>(
        &self,
        key: impl AsRef<[u8]>,
        types: &Types,
    ) -> Result<GraphLookup<R>, GraphError> {
        self.client.block_on(self.client.get_graph(key, types))
    }
}
