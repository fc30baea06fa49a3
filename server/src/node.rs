//! A storage node as a part of a process: memory, handler, endpoint and HTTP port put together.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_protocol::Member;
use weft_transport::limits::CONNECTION_BYTES;
use weft_transport::{
    Clock, Endpoint, EndpointConfig, EndpointError, Incarnation, MemoryError, Purpose,
};

use crate::background_thread::BackgroundThread;
use crate::config::Config;
use crate::handler::{NodeHandler, NodeOptions, Placement};
use crate::http::HttpServer;
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_SHARE, DESCRIPTORS_RESERVED, HTTP_BYTES};
use crate::memory::NodeMemory;
use crate::monitor::Monitor;
use crate::process::{CpuTime, descriptor_limit};
use crate::report::Surroundings;
use crate::store::StoreError;
use crate::watch_thread::WatchThread;

/// A node that serves, until it is stopped or dropped.
#[derive(Debug)]
pub struct Node {
    endpoint: Endpoint,
    handler: Arc<NodeHandler>,
    monitor: Monitor,
    http: Option<HttpServer>,
    address: SocketAddr,
    /// What empties segments, and what gets memory ahead of the log.
    _background: [BackgroundThread; 2],
    /// Until the node is stopped.
    watches: Option<WatchThread>,
}

impl Node {
    /// Starts a node, which serves when this returns.
    ///
    /// # Errors
    /// What the system refused.
    pub fn start(config: &Config) -> Result<Node, StartError> {
        let clock = Clock::system();
        let memory = NodeMemory::divide(config.memory.bytes()).map_err(StartError::Memory)?;
        // Higher than in any earlier life of the node, unless the system's clock was set back.
        let incarnation = Incarnation(clock.unix_millis());
        let me = Member { node: config.node, incarnation };
        let options = NodeOptions::new(me, memory.clone(), clock.clone(), random_seed());
        let handler = NodeHandler::new(options);
        let handler = Arc::new(
            handler.expect("the static map's epoch is small, and the least memory has room for it"),
        );
        let monitor = Monitor::new(Arc::clone(&handler));
        let http = match config.http {
            Some(address) => {
                let charge = memory.network.charge(HTTP_BYTES, Purpose::Session);
                let charge = charge.map_err(StartError::Memory)?;
                let server = HttpServer::start(address, monitor.clone(), charge);
                Some(server.map_err(|source| StartError::Http { address, source })?)
            }
            None => None,
        };

        let account = memory.network.account();
        let connections_max = connections_max(account.limit_bytes, descriptor_limit());
        // Whoever comes is taken, whatever others keep of the network's memory at that moment.
        let sessions = account.allocated_for(Purpose::Session);
        memory.network.reserve_for_sessions(sessions + connections_max as u64 * CONNECTION_BYTES);
        let mut settings = EndpointConfig::new(config.node, incarnation, memory.network);
        settings.poll = config.poll;
        settings.links = config.link;
        settings.verbs = config.verbs.clone();
        settings.reactors = config.reactors.get();
        settings.clock = clock;
        settings.connections_max = connections_max;
        let endpoint =
            Endpoint::start(settings, Arc::clone(&handler) as _).map_err(StartError::Endpoint)?;
        let address = endpoint.listen(config.listen).map_err(StartError::Listen)?;
        let map = config.map(address);
        let placements = Placement::of_nodes_alone(&map, incarnation);
        handler.learn(map, &placements).map_err(StartError::Partitions)?;
        handler.observe({
            let endpoint = endpoint.clone();
            move || {
                let stats = endpoint.stats();
                Surroundings {
                    connections: stats.connections,
                    retained_bytes: stats.retained_bytes,
                    cpu: CpuTime::of_this_process(),
                }
            }
        });
        let background = |name, work: fn(&NodeHandler) -> bool| {
            let handler = Arc::clone(&handler);
            BackgroundThread::start(name, move || work(&handler)).map_err(StartError::Background)
        };
        let background = [
            background("cleaner", NodeHandler::clean)?,
            background("memory", NodeHandler::get_memory_ahead)?,
        ];
        let watches = WatchThread::start(Arc::clone(&handler)).map_err(StartError::Watches)?;
        let watches = Some(watches);
        monitor.set_serving(true);
        tracing::info!(
            node = config.node.0,
            incarnation = incarnation.0,
            %address,
            http = http.as_ref().map(|http| tracing::field::display(http.address())),
            memory = %config.memory,
            reactors = config.reactors,
            poll = %config.poll,
            "serving"
        );
        Ok(Node { endpoint, handler, monitor, http, address, _background: background, watches })
    }

    /// Where it takes data connections, with the real port if it was told 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves health and metrics, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// What it does with requests.
    pub fn handler(&self) -> &Arc<NodeHandler> {
        &self.handler
    }

    /// Stops taking connections, refuses what has arrived and was not begun, sends what is to be
    /// sent, and ends.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.monitor.set_serving(false);
        self.handler.take_no_more();
        // Those who wait for events are answered while there are connections.
        self.watches = None;
        self.endpoint.shutdown();
        // The handler would keep the endpoint, which keeps the handler.
        self.handler.forget_surroundings();
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refuses the address space that the memory limit asks for.
    #[error("cannot have the memory; give less with --memory, or raise ulimit -v")]
    Memory(#[source] MemoryError),
    /// The HTTP port cannot be had.
    #[error("cannot serve HTTP on {address}; choose another with --http, or --http off")]
    Http {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The memory has no room for the partitions.
    #[error("cannot have the partitions; give more with --memory")]
    Partitions(#[source] StoreError),
    /// A thread that empties segments or gets memory ready cannot start.
    #[error("cannot start a thread for what is done in the background")]
    Background(#[source] io::Error),
    /// The thread that answers those who wait for events cannot start.
    #[error("cannot start the thread of watches")]
    Watches(#[source] io::Error),
    /// The endpoint cannot listen.
    #[error("cannot take data connections; check --listen, and that no other node runs there")]
    Listen(#[source] EndpointError),
    /// The endpoint cannot start.
    #[error("cannot start the node's endpoint")]
    Endpoint(#[source] EndpointError),
}

/// How many connections the network's memory and the limit on descriptors have room for.
fn connections_max(network_bytes: u64, descriptors: Option<u64>) -> usize {
    let by_memory = network_bytes / CONNECTIONS_SHARE / CONNECTION_BYTES;
    let by_descriptors = descriptors
        .map_or(u64::MAX, |limit| limit.saturating_sub(DESCRIPTORS_RESERVED).max(limit / 2));
    CONNECTIONS_MAX.min(by_memory).min(by_descriptors) as usize
}

/// From the system's source of randomness, which the standard library seeds its own maps from.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_and_memory_for_the_rest() {
        assert_eq!(connections_max(512 << 20, None), 10_000);
        assert_eq!(connections_max(16 << 20, None), 2048);
        assert_eq!(connections_max(512 << 20, Some(1024)), 832);
        assert_eq!(connections_max(512 << 20, Some(64)), 32);
    }
}
