//! Which nodes there are, and the connections to them (DESIGN T11).
//!
//! Every endpoint has one manager, and every connection of it goes by that: whoever asks for an
//! address or a node gets the connection that there is, or waits for the one attempt that is under way;
//! no other connection waits with them. Beside what is asked for, the manager finds the nodes of a list
//! that can grow and shrink at any time, comes back to those it has lost, and tells of what happens.
//!
//! - `registry`: attempts, nodes and their lives, and which of two connections to a node stays.
//! - `schedule`: which addresses are tried, and when; `backoff`: the pauses between attempts; `pauses`: who waits
//!   for the end of one.
//! - `event`: what is told of nodes; `accepted`: connections that others have begun.
//!
//! The manager has no thread. The first reactor of the endpoint begins what is due, by the endpoint's
//! clock, so that a simulator drives it as it drives everything else. The way to find nodes by a list
//! and an interval, and to tell of found, connected and lost ones, is that of DXNet (Nothaas, Beineke,
//! Schöttner: "Ibdxnet", arXiv:1812.01963, 2018).

mod accepted;
mod attempt;
mod backoff;
mod event;
mod pauses;
mod registry;
mod schedule;

use std::net::SocketAddr;

use crate::connection::{Connection, Peer};
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::identity::{Incarnation, NodeId};
use crate::time::Time;

pub use backoff::Backoff;
pub use event::{NodeEvent, NodeEvents};
pub use schedule::{AddressState, ListedAddress};

pub(crate) use accepted::Accepted;
pub(crate) use attempt::{Attempt, Attempted};
pub(crate) use registry::{Admission, Asked, Registry, TooEarly};

/// The nodes that an endpoint is to find, and its connections to nodes; see
/// [`Endpoint::manager`](crate::Endpoint::manager). Clones are the same manager.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use weft_transport::{
///     Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeEvent, NodeId,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let start = |node| {
///     let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 })?;
///     let config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
///     Ok::<_, Box<dyn std::error::Error>>(Endpoint::start(config, Arc::new(NoHandler))?)
/// };
/// let (warp, weft) = (start(1)?, start(2)?);
/// let address = warp.listen(([127, 0, 0, 1], 0).into())?;
///
/// let manager = weft.manager();
/// let mut events = manager.events();
/// manager.add(address);
/// weft.block_on(async {
///     assert!(matches!(events.next().await, Some(NodeEvent::Found(_))));
///     assert!(matches!(events.next().await, Some(NodeEvent::Connected(_))));
/// });
/// assert_eq!(manager.connection(NodeId(1)).expect("it is connected").peer().address, address);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ConnectionManager {
    endpoint: Endpoint,
}

impl ConnectionManager {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    fn registry(&self) -> &Registry {
        &self.endpoint.common().registry
    }

    /// Puts an address on the list of those to be found: it is tried at once, even if it has just failed, then every
    /// [`discovery_interval`](crate::EndpointConfig::discovery_interval) until a node answers there, and
    /// when that is lost after pauses as [`backoff`](crate::EndpointConfig::backoff) says, which grow while its connections
    /// do not last. One that leads to this endpoint
    /// itself is tried no more once that is known: at once where it listens at that very address, else when it has
    /// found itself there. Returns whether it was not on the list; one that was goes on at its pace.
    pub fn add(&self, address: SocketAddr) -> bool {
        let common = self.endpoint.common();
        let added = common.registry.add(address, common.clock.now());
        common.see_to_schedule();
        added
    }

    /// Takes an address off the list: it is not tried by itself any more. A connection that is open
    /// stays open. Returns whether it was on the list.
    pub fn remove(&self, address: SocketAddr) -> bool {
        self.registry().remove(address)
    }

    /// The list, by address, and how each stands.
    pub fn listed(&self) -> Vec<ListedAddress> {
        self.registry().listed()
    }

    /// The nodes that are connected now, by id, whoever began the connection and whether they are on
    /// the list or not. Clients are none.
    pub fn connected(&self) -> Vec<Peer> {
        self.registry().connected()
    }

    /// Which life of a node counts, by whoever decides on that: a newer one that has said hello, and is not connected any more, is forgotten, so that this one is
    /// not refused for it. Returns whether there was such a one.
    pub fn go_back_to(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.registry().go_back_to(node, incarnation)
    }

    /// The open connection to a node, whoever began it.
    pub fn connection(&self, node: NodeId) -> Option<Connection> {
        self.registry().connection(node)
    }

    /// The connection to a node: the one that is open, or a new one to where the list has it. For one
    /// address, see [`Endpoint::connect`](crate::Endpoint::connect).
    ///
    /// # Errors
    /// [`ConnectError::UnknownNode`] if the node has not been found at any address of the list, or
    /// another one is there now; else why it could not be connected to.
    pub async fn connect(&self, node: NodeId, deadline: Time) -> Result<Connection, ConnectError> {
        if let Some(connection) = self.connection(node) {
            return Ok(connection);
        }
        let unknown = ConnectError::UnknownNode { node };
        let Some(address) = self.registry().address_of(node) else { return Err(unknown) };
        let connection = self.endpoint.connect(address, deadline).await?;
        if connection.peer().node == node { Ok(connection) } else { Err(unknown) }
    }

    /// The same for an address, without a pause whatever has failed there before: for somebody who has just lost the node that was there, and has
    /// to know whether anybody listens any more. To be asked a few times after a loss, or the pauses are for nothing.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_at_once(
        &self,
        address: SocketAddr,
        deadline: Time,
    ) -> Result<Connection, ConnectError> {
        self.endpoint.connect_as(Asked::AtOnce, address, deadline).await
    }

    /// What becomes of nodes from now on. Whoever takes nothing for long misses the oldest events, and
    /// holds up nobody. Once the endpoint has been shut down there are none.
    pub fn events(&self) -> NodeEvents {
        self.registry().events()
    }
}
