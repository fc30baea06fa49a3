//! A node as a part of a process: memory, handler, endpoint, coordinator and HTTP port put together.

mod beginning;
mod coordinating;
mod log_place;
mod open_logs;
mod threads;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_protocol::Member;
use weft_transport::limits::CONNECTION_BYTES;
use weft_transport::{Clock, Endpoint, EndpointConfig, EndpointError, MemoryError, Purpose};

use crate::background_thread::BackgroundThread;
use crate::config::{Config, Seeds};
use crate::control::ControlServer;
use crate::coordinator::raft::{Failure, LogError};
use crate::coordinator::{
    Answer, Ask, ClusterId, Command, Denial, DenialKind, Join, Proposal, ProposalId, Rejection,
};
use crate::data_directory::{DataDirectory, DataDirectoryError};
use crate::forming::FormingError;
use crate::handler::{NodeHandler, NodeOptions};
use crate::http::HttpServer;
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_SHARE, DESCRIPTORS_RESERVED, HTTP_BYTES};
use crate::logs::{OpenLogsError, StartLogsError};
use crate::memory::NodeMemory;
use crate::monitor::Monitor;
use crate::process::{CpuTime, descriptor_limit};
use crate::report::Surroundings;
use crate::watch_thread::WatchThread;

use self::beginning::{Beginning, description, find_elsewhere};
use self::coordinating::Coordinating;
pub use self::open_logs::{NotClosed, OpenLogs};
use self::threads::ClusterThread;

/// How often it is looked whether the cluster knows of the node.
const PLACED_PAUSE: Duration = Duration::from_millis(5);

/// How often a node asks to be taken that is to wait.
const JOIN_PAUSE: Duration = Duration::from_millis(50);

/// A node that serves, until it is stopped or dropped.
#[derive(Debug)]
pub struct Node {
    endpoint: Endpoint,
    handler: Arc<NodeHandler>,
    monitor: Monitor,
    http: Option<HttpServer>,
    control: Option<ControlServer>,
    address: SocketAddr,
    /// What empties segments, and what gets memory ahead of the log.
    _background: [BackgroundThread; 2],
    /// Until the node is stopped.
    watches: Option<WatchThread>,
    /// What goes on beside requests, and the coordinator.
    cluster: Vec<ClusterThread>,
    /// What writes the logs of partitions.
    logs: OpenLogs,
    _directory: Option<DataDirectory>,
}

impl Node {
    /// Starts a node, which serves when this returns: it is of a cluster, which may take as long as it takes for others to be there.
    ///
    /// # Errors
    /// What the system refused.
    pub fn start(config: &Config) -> Result<Node, StartError> {
        Node::start_with(config, OpenLogs::default())
    }

    /// The same for who may want the process to end before that: its logs are to be closed first.
    ///
    /// # Errors
    /// What the system refused. The logs are closed then.
    pub fn start_with(config: &Config, logs: OpenLogs) -> Result<Node, StartError> {
        let started = Node::start_on(config, logs.clone());
        if started.is_err()
            && let Err(error) = logs.close()
        {
            tracing::error!("{error}");
        }
        started
    }

    fn start_on(config: &Config, open_logs: OpenLogs) -> Result<Node, StartError> {
        let clock = Clock::system();
        let memory = NodeMemory::divide(config.memory.bytes()).map_err(StartError::Memory)?;
        // Before others are waited for: whoever watches the process would take it for dead otherwise.
        let monitor = Monitor::default();
        let http = match config.http {
            Some(address) => {
                let charge = memory.network.charge(HTTP_BYTES, Purpose::Session);
                let charge = charge.map_err(StartError::Memory)?;
                let server = HttpServer::start(address, monitor.clone(), charge);
                Some(server.map_err(|source| StartError::Http { address, source })?)
            }
            None => None,
        };
        let seed = random_seed();
        let beginning = Beginning::find(config, &clock, &memory, seed)?;
        let Beginning {
            me,
            cluster,
            timing,
            directory,
            logs,
            has_earlier_life,
            listen,
            join,
            place,
            log,
        } = beginning;
        let (logs, log_directories) = logs.unzip();
        let mut options = NodeOptions::new(me, memory.clone(), clock.clone(), seed);
        options.logs = logs;
        options.has_earlier_life = has_earlier_life;
        options.keep_time(timing);
        let handler = NodeHandler::new(options);
        let handler =
            Arc::new(handler.expect("the least memory has room for a node without partitions"));
        handler.belong(cluster, config.roles.coordinator);
        if let Some(directories) = log_directories {
            open_logs.open(|| directories.start(&handler))?;
        }
        monitor.watch(Arc::clone(&handler));

        let control = match config.control {
            Some(address) => {
                let server = ControlServer::start(address, Arc::clone(&handler), &memory.network);
                Some(server.map_err(|source| StartError::Control { address, source })?)
            }
            None => None,
        };

        let account = memory.network.account();
        let sessions = account.allocated_for(Purpose::Session);
        let connections_max = connections_max(account.limit_bytes, descriptor_limit());
        // Whoever comes is taken, whatever others keep of the network's memory at that moment.
        memory.network.reserve_for_sessions(sessions + connections_max as u64 * CONNECTION_BYTES);
        let mut settings = EndpointConfig::new(me.node, me.incarnation, memory.network);
        settings.poll = config.poll;
        settings.links = config.link;
        settings.verbs = config.verbs.clone();
        settings.reactors = config.reactors.get();
        settings.clock = clock;
        settings.connections_max = connections_max;
        let endpoint =
            Endpoint::start(settings, Arc::clone(&handler) as _).map_err(StartError::Endpoint)?;
        let address = endpoint.listen(listen).map_err(StartError::Listen)?;
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
        let mut threads = Vec::new();
        if config.roles.coordinator || log.is_some() {
            let expected_nodes = config.join.as_ref().map_or(1, |seeds| seeds.iter().len());
            let coordinating = Coordinating {
                handler: Arc::clone(&handler),
                cluster,
                timing,
                expected_nodes,
                has_seeds: config.join.is_some(),
                place,
                monitor: monitor.clone(),
            };
            let begun = log.map(|log| coordinating.begin(log, &endpoint)).transpose()?;
            let thread = ClusterThread::start("coordinator", &endpoint, move |endpoint| {
                coordinating.run(endpoint, begun)
            });
            threads.push(thread.map_err(StartError::Background)?);
        }
        let seeds = config.join.iter().flat_map(Seeds::iter);
        let seeds = seeds.filter_map(|seed| seed.resolve().ok()).collect();
        let node = Arc::clone(&handler);
        let thread = ClusterThread::start("cluster", &endpoint, move |endpoint| {
            node.take_part(endpoint, seeds)
        });
        threads.push(thread.map_err(StartError::Background)?);
        if let Some((id, join)) = join {
            let description = description(config, address);
            let join = Join { description, ..join };
            join_cluster(config, &handler, &endpoint, id, join, timing.lease())?;
        }
        endpoint.block_on(until_placed(&handler, &endpoint, config.roles.storage));
        monitor.set_serving(true);
        tracing::info!(
            node = me.node.0,
            incarnation = me.incarnation.0,
            %cluster,
            %address,
            http = http.as_ref().map(|http| tracing::field::display(http.address())),
            control = control.as_ref().map(|control| tracing::field::display(control.address())),
            memory = %config.memory,
            reactors = config.reactors,
            poll = %config.poll,
            "serving"
        );
        Ok(Node {
            endpoint,
            handler,
            monitor,
            http,
            control,
            address,
            _background: background,
            watches,
            cluster: threads,
            logs: open_logs,
            _directory: directory,
        })
    }

    /// Where it takes data connections, with the real port if it was told 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves health and metrics, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// Where it serves the control API, if it does.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control.as_ref().map(ControlServer::address)
    }

    /// What it does with requests.
    pub fn handler(&self) -> &Arc<NodeHandler> {
        &self.handler
    }

    /// Stops taking connections, refuses what has arrived and was not begun, sends what is to be
    /// sent, and ends.
    ///
    /// # Errors
    /// [`NotClosed`]: the node has ended all the same.
    pub fn stop(self) -> Result<(), NotClosed> {
        let logs = self.logs.clone();
        drop(self);
        logs.close()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.monitor.set_serving(false);
        self.handler.take_no_more();
        // Those who wait for events are answered while there are connections.
        self.watches = None;
        self.control = None;
        // The coordinator's log is closed when its thread has ended.
        self.cluster.clear();
        self.endpoint.shutdown();
        // Nobody writes any more.
        if let Err(error) = self.logs.close() {
            tracing::error!("{error}");
        }
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
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The logs of partitions cannot be used.
    #[error(transparent)]
    Logs(#[from] OpenLogsError),
    /// The logs of partitions take nothing.
    #[error(transparent)]
    StartLogs(#[from] StartLogsError),
    /// It was told to end.
    #[error("the node was told to end while it started")]
    Ended,
    /// The coordinator's log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A cluster cannot begin as it is to.
    #[error("found a cluster: {0}")]
    Founding(#[from] Rejection),
    /// What is in the coordinator's log cannot be.
    #[error(transparent)]
    Coordinator(#[from] Failure),
    /// There is no cluster that the node could be of.
    #[error(transparent)]
    Forming(#[from] FormingError),
    /// The cluster does not take the node.
    #[error("the cluster does not take this node: {0}")]
    Denied(Denial),
    /// Another process is the same node.
    #[error(
        "node {node} lives at {address}: two nodes have one id; give this one another --node-id and an empty --data-dir, or end the other one"
    )]
    LivesElsewhere {
        /// Which.
        node: u64,
        /// Where it takes data connections.
        address: String,
    },
    /// Nothing says which node this is.
    #[error(
        "--join is given but not which node this is, and the data directory is new; add --node-id (or WEFT_NODE_ID)"
    )]
    NodeIdMissing,
    /// The node was of a cluster, and has nobody to ask.
    #[error(
        "the data directory is of cluster {cluster}, and has no log of a coordinator's; give --join with addresses of that cluster, or an empty --data-dir"
    )]
    LogGone {
        /// The cluster.
        cluster: ClusterId,
    },
    /// The control port cannot be had.
    #[error(
        "cannot serve the control API on {address}; choose another with --control, or --control off"
    )]
    Control {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
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

/// Has the node begin its life in the cluster. Waits for a leader. As long as it waits, others know it for the node that it says it is, and refuse any earlier life: so it ends if
/// there is one that lives.
fn join_cluster(
    config: &Config,
    handler: &NodeHandler,
    endpoint: &Endpoint,
    id: ProposalId,
    join: Join,
    lease: Duration,
) -> Result<(), StartError> {
    let me = Member { node: join.node, incarnation: join.incarnation };
    let ask = Ask::Propose(Proposal { id, command: Command::Join(join) });
    let mut look_at = endpoint.clock().now() + 2 * lease;
    loop {
        match endpoint.block_on(handler.ask_coordinators(endpoint, &ask)) {
            Answer::Decided(Ok(_)) => return Ok(()),
            Answer::Decided(Err(denial)) if denial.kind != DenialKind::NotYet => {
                return Err(StartError::Denied(denial));
            }
            answer => tracing::info!(?answer, "waiting for the cluster to take this node"),
        }
        if endpoint.clock().now() >= look_at {
            let own = handler.coordination.introduction();
            if let Some(address) = find_elsewhere(config, &own, me, lease)? {
                return Err(StartError::LivesElsewhere { node: me.node.0, address });
            }
            look_at = endpoint.clock().now() + 2 * lease;
        }
        // Such as for the former life of this node to be down, which is said at once each time.
        endpoint.block_on(endpoint.sleep_until(endpoint.clock().now() + JOIN_PAUSE));
    }
}

/// Waits until the node knows who holds what, and there is something to hold.
async fn until_placed(handler: &NodeHandler, endpoint: &Endpoint, holds_objects: bool) {
    let is_placed = || {
        let map = handler.map();
        map.is_some_and(|map| {
            !holds_objects || (!map.partitions().is_empty() && handler.serves_what_it_leads(&map))
        })
    };
    while !is_placed() {
        endpoint.sleep_until(endpoint.clock().now() + PLACED_PAUSE).await;
    }
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
        assert_eq!(connections_max(16 << 20, None), 2016);
        assert_eq!(connections_max(512 << 20, Some(1024)), 832);
        assert_eq!(connections_max(512 << 20, Some(64)), 32);
    }
}
