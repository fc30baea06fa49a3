//! A cluster in a world: nodes that serve, and clients that call, both as production has them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_client::{Client, ClientConfig, ClientError};
use weft_protocol::{ClusterMap, MapError, Member, NodeEntry, Slot};
use weft_server::handler::{NodeHandler, NodeOptions, Placement};
use weft_server::memory::NodeMemory;
use weft_server::store::StoreError;
use weft_transport::{
    Endpoint, EndpointConfig, EndpointError, Handler, Incarnation, Memory, MemoryConfig,
    MemoryError, NoHandler, NodeId, Skew,
};

use crate::world::{MemberId, World};

/// A node that is to be made, and the map by which it holds its partitions alone.
#[derive(Debug)]
pub struct Seat {
    /// What the node starts from.
    pub options: NodeOptions,
    /// Who holds what.
    pub map: ClusterMap,
}

/// Makes the handler of a node. [`production`] does; tests of the simulator put faulty ones in its
/// place.
pub type MakeHandler<'a> = dyn Fn(Seat) -> Result<Arc<dyn Handler>, StoreError> + 'a;

/// The handler that real nodes run.
///
/// # Errors
/// See [`NodeHandler::new`].
pub fn production(seat: Seat) -> Result<Arc<dyn Handler>, StoreError> {
    Ok(Arc::new(seat.handler()?))
}

impl Seat {
    /// The handler that real nodes run, which knows its partitions.
    ///
    /// # Errors
    /// See [`NodeHandler::new`] and [`NodeHandler::learn`].
    pub fn handler(self) -> Result<NodeHandler, StoreError> {
        let placements = Placement::of_nodes_alone(&self.map, self.options.incarnation);
        let handler = NodeHandler::new(self.options)?;
        handler.learn(self.map, &placements)?;
        Ok(handler)
    }
}

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// In the order of the map's nodes.
    members: Vec<MemberId>,
    map: ClusterMap,
}

/// Why a cluster could not be built; all of it is the simulator's own doing.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No map for so many nodes and partitions.
    #[error("no map: {0}")]
    Map(MapError),
    /// The process has no memory for it.
    #[error("no memory: {0}")]
    Memory(MemoryError),
    /// A store refused to start.
    #[error("no store: {0}")]
    Store(StoreError),
    /// An endpoint refused to start or listen.
    #[error("no endpoint: {0}")]
    Endpoint(EndpointError),
}

/// Not a source: the message says all of it.
impl From<MapError> for BuildError {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

/// Not a source: the message says all of it.
impl From<MemoryError> for BuildError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

/// Not a source: the message says all of it.
impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Not a source: the message says all of it.
impl From<EndpointError> for BuildError {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

impl Nodes {
    /// Adds `count` nodes to a world, which share `partitions` partitions evenly, on hosts with the clocks that
    /// `skew` gives.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(
        world: &mut World,
        count: u8,
        partitions: u16,
        seed: u64,
        skew: &mut dyn FnMut() -> Option<Skew>,
        make_handler: &MakeHandler<'_>,
    ) -> Result<Self, BuildError> {
        let address = |id: u8| SocketAddr::from(([10, 0, 0, id], PORT));
        let entries = (1..=count).map(|id| NodeEntry {
            id: NodeId(u64::from(id)),
            incarnation: INCARNATION,
            address: address(id).to_string(),
        });
        let map = ClusterMap::even(entries.collect(), partitions, 1)?;
        let mut members = Vec::with_capacity(usize::from(count));
        for id in 1..=count {
            let memory = NodeMemory::divide(NODE_MEMORY_BYTES)?;
            let node = NodeId(u64::from(id));
            let member = world.add_host(address(id).ip(), skew());
            let config = EndpointConfig::new(node, INCARNATION, memory.network.clone());
            let me = Member { node, incarnation: INCARNATION };
            let clock = world.clock_of(member).clone();
            let options = NodeOptions::new(me, memory, clock, seed ^ u64::from(id));
            let handler = make_handler(Seat { options, map: map.clone() })?;
            let endpoint = world.add_endpoint(member, config, handler)?;
            endpoint.listen(address(id))?;
            members.push(member);
        }
        Ok(Nodes { members, map })
    }

    /// The nodes' endpoints.
    pub fn members(&self) -> &[MemberId] {
        &self.members
    }

    /// The endpoint of the node that owns a key.
    pub fn owner(&self, key: &[u8]) -> MemberId {
        let owner = self.map.owner_index(Slot::of(key)).expect("an even map leaves no slot out");
        self.members[owner]
    }

    /// Adds the endpoint of a client, numbered from 0, and returns what connects it.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn client(
        &self,
        world: &mut World,
        number: u32,
        timeout: Duration,
    ) -> Result<Connector, BuildError> {
        let memory = Memory::new(MemoryConfig { limit_bytes: CLIENT_MEMORY_BYTES })?;
        let node = NodeId::client(u64::from(number));
        let mut config = EndpointConfig::new(node, INCARNATION, memory);
        config.backoff = weft_client::BACKOFF;
        let (member, endpoint) = world.add(config, Arc::new(NoHandler))?;
        let addresses = self.map.nodes().iter().map(|node| node.address.clone());
        let mut config = ClientConfig::new(addresses);
        config.timeout = timeout;
        Ok(Connector { member, endpoint, config })
    }
}

/// A client that has still to find its cluster.
#[derive(Clone, Debug)]
pub struct Connector {
    member: MemberId,
    endpoint: Endpoint,
    config: ClientConfig,
}

impl Connector {
    /// Of a client on a host, that finds its cluster at `addresses`.
    pub fn new(
        member: MemberId,
        endpoint: Endpoint,
        addresses: impl IntoIterator<Item = String>,
        timeout: Duration,
    ) -> Connector {
        let mut config = ClientConfig::new(addresses);
        config.timeout = timeout;
        Connector { member, endpoint, config }
    }

    /// The client's host.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// Waits by the client's clock.
    pub async fn pause(&self, time: Duration) {
        self.endpoint.sleep_until(self.endpoint.clock().now() + time).await;
    }

    /// Finds the cluster.
    ///
    /// # Errors
    /// See [`Client::with_endpoint`].
    pub async fn connect(&self) -> Result<Client, ClientError> {
        Client::with_endpoint(self.endpoint.clone(), self.config.clone()).await
    }
}

const PORT: u16 = 7400;
const INCARNATION: Incarnation = Incarnation(1);
const NODE_MEMORY_BYTES: u64 = 256 << 20;
const CLIENT_MEMORY_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use std::time::Duration;

    use weft_transport::SimConfig;

    use super::*;

    const DELAY: Duration = Duration::from_micros(5);

    #[test]
    fn a_chain_of_errors_says_why_there_is_no_cluster_once() {
        let mut world =
            World::new(1, SimConfig { seed: 0, delay: DELAY..DELAY, loss: 0.0, partial: 0.0 });
        let Err(error) = Nodes::build(&mut world, 2, 0, 1, &mut || None, &production) else {
            panic!("there is no map without partitions");
        };
        assert!(error.to_string().starts_with("no map: "), "{error}");
        assert!(error.source().is_none());
    }
}
