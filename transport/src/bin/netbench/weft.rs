//! The transport's halves: what is measured beside the machine's limit.

pub(crate) mod beside;
pub(crate) mod bodies;
pub(crate) mod calls;
pub(crate) mod messages;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use weft_transport::{
    Connection, Endpoint, EndpointConfig, Handler, Incarnation, Memory, MemoryConfig, Messages,
    NoHandler, NodeId, PollPolicy, Time,
};

use crate::links::Links;
use crate::shape::Shape;

/// Registered memory of a side: room for hundreds of connections' windows.
const MEMORY_BYTES: u64 = 1 << 30;

/// A call or a connection that takes so long has failed; on a healthy machine none comes near.
const DEADLINE: Duration = Duration::from_secs(10);

/// Each client endpoint is a node of its own, because two nodes share one connection; the server is
/// node 0.
const SERVER: u64 = 0;

pub(crate) fn serve(
    node: u64,
    links: &Links,
    poll: PollPolicy,
    handler: Arc<dyn Handler>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    let endpoint = start(node, links, poll, handler)?;
    let address =
        endpoint.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).context("failed to listen")?;
    Ok((address, endpoint))
}

/// As [`serve`], where receives are posted for messages.
pub(crate) fn serve_posted(
    links: &Links,
    poll: PollPolicy,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    let endpoint = start_posted(SERVER, links, poll)?;
    let address =
        endpoint.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).context("failed to listen")?;
    Ok((address, endpoint))
}

/// An endpoint where receives are posted for messages.
pub(crate) fn start_posted(node: u64, links: &Links, poll: PollPolicy) -> anyhow::Result<Endpoint> {
    start_with(node, links, poll, Arc::new(NoHandler), Messages::Posted)
}

/// The client's side of `connections` connections.
pub(crate) struct Clients {
    clients: Vec<(Endpoint, Connection)>,
}

impl Clients {
    pub(crate) fn connect(address: SocketAddr, shape: &Shape) -> anyhow::Result<Self> {
        let clients = (1..=shape.connections as u64)
            .map(|node| {
                let endpoint = start(node, &shape.links, shape.poll, Arc::new(NoHandler))?;
                let deadline = deadline(&endpoint);
                let connection = endpoint
                    .block_on(endpoint.connect(address, deadline))
                    .with_context(|| format!("failed to connect to {address}"))?;
                Ok((endpoint, connection))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Clients { clients })
    }

    fn connection(&self, index: usize) -> &(Endpoint, Connection) {
        &self.clients[index]
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for (endpoint, _) in &self.clients {
            endpoint.shutdown();
        }
    }
}

fn start(
    node: u64,
    links: &Links,
    poll: PollPolicy,
    handler: Arc<dyn Handler>,
) -> anyhow::Result<Endpoint> {
    start_with(node, links, poll, handler, Messages::Handled)
}

fn start_with(
    node: u64,
    links: &Links,
    poll: PollPolicy,
    handler: Arc<dyn Handler>,
    messages: Messages,
) -> anyhow::Result<Endpoint> {
    let memory = Memory::new(MemoryConfig { limit_bytes: MEMORY_BYTES })
        .context("failed to reserve memory")?;
    let mut config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
    config.poll = poll;
    config.messages = messages;
    config.links = links.kind.policy();
    config.verbs = links.verbs.clone();
    Endpoint::start(config, handler).context("failed to start the endpoint")
}

pub(crate) fn deadline(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + DEADLINE
}
