//! What goes before a node's life: which node it is, of which cluster, in which life, and with which log of the coordinator's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_protocol::Member;
use weft_protocol::replication::PEER_VERSION;
use weft_transport::{
    Clock, Endpoint, EndpointConfig, Handler, Incarnation, Memory, MemoryConfig, NoHandler, NodeId,
};

use super::log_place::{LogPlace, OpenLog};
use super::{StartError, random_seed};
use crate::config::{Config, Seeds};
use crate::coordinator::raft::{Batch, Identity, RaftId};
use crate::coordinator::{
    ClusterId, Found, Introduction, Join, NodeDescription, ProposalId, Timing, founding_state,
};
use crate::data_directory::{DataDirectory, Past};
use crate::durable::Settings;
use crate::forming::{self, Formed, Forming, FormingError, FormingHandler, lives_elsewhere};
use crate::limits::FORMING_MEMORY;
use crate::logs::{LogDirectories, Logs, LogsOptions};
use crate::memory::NodeMemory;

/// How long a node that seems to live elsewhere waits until it looks again.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How often one that waits for that says so.
const SAY_PAUSE: Duration = Duration::from_secs(1);

/// A node that may begin its life.
pub(super) struct Beginning {
    pub(super) me: Member,
    pub(super) cluster: ClusterId,
    /// The time that nodes of the cluster keep.
    pub(super) timing: Timing,
    pub(super) directory: Option<DataDirectory>,
    /// The logs of its partitions, where it has a directory.
    pub(super) logs: Option<(Logs, LogDirectories)>,
    /// Whether leases that an earlier life granted may still run.
    pub(super) has_earlier_life: bool,
    /// Where it is to listen.
    pub(super) listen: SocketAddr,
    /// What it presents to the cluster, and under which id, unless it has joined.
    pub(super) join: Option<(ProposalId, Join)>,
    /// Where the coordinator's log is, or would be.
    pub(super) place: LogPlace,
    /// The log, where this node is a coordinator.
    pub(super) log: Option<OpenLog>,
}

impl Beginning {
    /// Finds out. Waits for others, if there are to be some.
    pub(super) fn find(
        config: &Config,
        clock: &Clock,
        memory: &NodeMemory,
        seed: u64,
    ) -> Result<Beginning, StartError> {
        let mut directory = config.data_dir.as_deref().map(DataDirectory::open).transpose()?;
        let past = directory.as_ref().and_then(DataDirectory::past);
        let node = match (config.node, past) {
            (Some(node), _) => node,
            (None, Some(past)) => past.node,
            (None, None) if config.join.is_none() => NodeId(1),
            (None, None) => return Err(StartError::NodeIdMissing),
        };
        if let Some(directory) = &directory {
            directory.check_node(node)?;
        }
        // Higher than in any earlier life: by the directory if there is one, else unless the system's clock was set back.
        let after = past.map_or(0, |past| past.incarnation.0 + 1);
        let incarnation = Incarnation(clock.unix_millis().max(after));
        let of = past.and_then(|past| past.cluster);
        let known = of.map(|(cluster, _)| cluster);
        let folder = directory.as_ref().map(DataDirectory::coordinator);
        let place = LogPlace { node, folder };
        let found = if config.roles.coordinator { place.find(known)? } else { None };
        // The log is of the cluster, whether or not that was written down beside it.
        let of_log = found.as_ref().map(|log| log.recovered().identity.cluster);
        let timing = of.map_or(config.timing, |(_, timing)| timing);
        // What refuses the node without being told of its life goes before that is written down, so that nothing is changed then.
        match (of_log.or(known), &config.join) {
            (Some(own), Some(seeds)) => {
                let me = Member { node, incarnation };
                look_around(config, seeds, me, own, timing.lease())?;
            }
            (Some(cluster), None) if of_log.is_none() => {
                return Err(StartError::LogGone { cluster });
            }
            _ => {}
        }
        let open_logs = |directory: &Option<DataDirectory>, cluster: ClusterId| {
            let options = LogsOptions {
                cluster: cluster.0,
                node,
                memory: memory.clone(),
                seed,
                clock: clock.clone(),
                settings: Settings::default(),
            };
            let open =
                |directory: &DataDirectory| LogDirectories::open(&directory.objects(), &options);
            directory.as_ref().map(open).transpose()
        };
        // What there is of them is told to the cluster when the node joins.
        let mut logs = known.map(|cluster| open_logs(&directory, cluster)).transpose()?.flatten();
        let complete = logs.iter().flat_map(|(logs, _)| logs.found());
        let complete = complete.filter(|found| found.completeness.is_complete());
        let complete: Vec<_> = complete.map(|found| found.partition).collect();
        let write = |directory: &mut Option<DataDirectory>, cluster| match directory {
            Some(directory) => directory.write(Past { node, cluster, incarnation }),
            None => Ok(()),
        };
        let log = found.map(|found| place.open(found)).transpose()?;
        write(&mut directory, of)?;
        let mut beginning = Beginning {
            me: Member { node, incarnation },
            cluster: ClusterId(0),
            timing,
            directory,
            logs: None,
            has_earlier_life: past.is_some() || config.join.is_some(),
            listen: config.listen,
            join: None,
            place,
            log,
        };
        let join = |listens_at: SocketAddr| Join {
            cluster: known,
            node,
            incarnation,
            last_incarnation: past.map(|past| past.incarnation),
            complete: complete.clone(),
            wire_version: u16::from(PEER_VERSION),
            description: description(config, listens_at),
        };
        if let Some(cluster) = of_log {
            let join = Join { cluster: Some(cluster), ..join(config.listen) };
            beginning.cluster = cluster;
            beginning.join = Some((random_proposal(), join));
        } else if config.join.is_some() {
            beginning.form(config, known, &join)?;
        } else {
            beginning.found(config)?;
            beginning.join = Some((random_proposal(), join(config.listen)));
        }
        write(&mut beginning.directory, Some((beginning.cluster, beginning.timing)))?;
        if logs.is_none() {
            logs = open_logs(&beginning.directory, beginning.cluster)?;
        }
        beginning.logs = logs;
        Ok(beginning)
    }

    /// Finds a cluster to be of, or others to found one with.
    fn form(
        &mut self,
        config: &Config,
        known: Option<ClusterId>,
        join: &dyn Fn(SocketAddr) -> Join,
    ) -> Result<(), StartError> {
        let seeds = config.join.as_ref().expect("there are addresses to join");
        let node = self.me.node;
        let mut forming = Forming {
            introduction: introduction(config, node, known),
            join: join(config.listen),
            proposals: [random_proposal(), random_proposal()],
        };
        let memory = forming_memory()?;
        let handler = FormingHandler::new(&forming.introduction);
        let listener = small_endpoint(&memory, self.me, handler as _)?;
        self.listen = listener.listen(config.listen).map_err(StartError::Listen)?;
        forming.join = join(self.listen);
        let endpoint = asker(&memory)?;
        let resolve = || seeds.iter().map(|seed| seed.resolve().ok()).collect();
        let formed = endpoint.block_on(forming.run(&endpoint, resolve));
        endpoint.shutdown();
        listener.shutdown();
        match formed? {
            Formed::Founder => {
                self.found(config)?;
                self.join = Some((random_proposal(), forming.join));
            }
            Formed::Joined { cluster, timing, raft } => {
                (self.cluster, self.timing) = (cluster, timing);
                if let Some(raft) = raft {
                    let first = Batch::joining(Identity { cluster, node, raft });
                    self.log = Some(self.place.make(&first)?);
                }
            }
        }
        Ok(())
    }

    /// Begins a cluster, of which this node is the only coordinator at first.
    fn found(&mut self, config: &Config) -> Result<(), StartError> {
        let node = self.me.node;
        self.cluster = ClusterId(random_wide());
        let found = Found {
            cluster: self.cluster,
            default_table: config.default_table,
            partitions_per_class: config.partitions.get(),
            wire_version: u16::from(PEER_VERSION),
            timing: config.timing,
            is_kept: self.directory.is_some(),
        };
        let raft = RaftId(1);
        let identity = Identity { cluster: self.cluster, node, raft };
        let state = founding_state(found, None)?;
        self.log = Some(self.place.make(&Batch::founding(identity, &[(raft, node)], state))?);
        if config.join.is_some() {
            tracing::info!(cluster = %self.cluster, "founded a cluster");
        }
        Ok(())
    }
}

/// A node that is of a cluster already waits for nobody here but another process that is the same node, and lives: as soon as this one spoke to others as the node
/// that it is, they would take the other one for a former life. And where it is told to join, those that answer must not be of another cluster.
fn look_around(
    config: &Config,
    seeds: &Seeds,
    me: Member,
    cluster: ClusterId,
    heard_within: Duration,
) -> Result<(), StartError> {
    let own = introduction(config, me.node, Some(cluster));
    let endpoint = asker(&forming_memory()?)?;
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.resolve().ok()).collect();
    let looked = endpoint.block_on(async {
        let met = forming::look_around(&own, &endpoint, &seeds).await?;
        let began = endpoint.clock().now();
        // Who has just ended is heard of for as long.
        let mut say_at = began + heard_within + LOOK_PAUSE;
        while let Some(address) = lives_elsewhere(me, &endpoint, &met, heard_within).await {
            let now = endpoint.clock().now();
            if now > say_at {
                let node = me.node;
                tracing::warn!(%node, address, "this node lives there already: two nodes have one id; waiting until that one is down");
                say_at = now + SAY_PAUSE;
            }
            endpoint.sleep_until(now + LOOK_PAUSE).await;
        }
        Ok(())
    });
    endpoint.shutdown();
    looked
}

/// Where another process is this node in an earlier life, and is heard. Asked as by nobody, of where the node is told to join; where it is told of nobody, nobody is asked.
pub(super) fn find_elsewhere(
    config: &Config,
    own: &Introduction,
    me: Member,
    heard_within: Duration,
) -> Result<Option<String>, StartError> {
    let Some(seeds) = &config.join else { return Ok(None) };
    let endpoint = asker(&forming_memory()?)?;
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.resolve().ok()).collect();
    let found = endpoint.block_on(async {
        match forming::look_around(own, &endpoint, &seeds).await {
            Ok(met) => lives_elsewhere(me, &endpoint, &met, heard_within).await,
            Err(FormingError::IdTwice { address, .. }) => Some(address.to_string()),
            Err(_) => None,
        }
    });
    endpoint.shutdown();
    Ok(found)
}

/// Who the node is, as it says when it asks others.
fn introduction(config: &Config, node: NodeId, cluster: Option<ClusterId>) -> Introduction {
    Introduction {
        node,
        nonce: random_seed(),
        cluster,
        may_coordinate: config.roles.coordinator,
        leader: None,
    }
}

/// What a node may use for messages before it is of a cluster.
fn forming_memory() -> Result<Memory, StartError> {
    Memory::new(MemoryConfig { limit_bytes: FORMING_MEMORY }).map_err(StartError::Memory)
}

/// For questions before the node is of a cluster. They are asked from a client's id, which is nobody's else: nobody takes it for the node itself.
fn asker(memory: &Memory) -> Result<Endpoint, StartError> {
    let me = Member { node: NodeId::client(random_seed()), incarnation: Incarnation(1) };
    small_endpoint(memory, me, Arc::new(NoHandler))
}

fn small_endpoint(
    memory: &Memory,
    me: Member,
    handler: Arc<dyn Handler>,
) -> Result<Endpoint, StartError> {
    let mut settings = EndpointConfig::new(me.node, me.incarnation, memory.clone());
    settings.reactors = 1;
    Endpoint::start(settings, handler).map_err(StartError::Endpoint)
}

/// What a node says of itself that listens there.
pub(super) fn description(config: &Config, listens_at: SocketAddr) -> NodeDescription {
    let reached_at = |address: SocketAddr| match config.advertise {
        Some(advertised) => SocketAddr::new(advertised.ip(), address.port()),
        None => address,
    };
    NodeDescription {
        data_address: config.advertise.unwrap_or(listens_at).to_string(),
        control_address: config
            .control
            .map_or_else(|| "off".to_owned(), |address| reached_at(address).to_string()),
        zone: config.zone.clone(),
        capacity_bytes: if config.roles.storage { config.memory.bytes() } else { 0 },
        is_coordinator: config.roles.coordinator,
        is_diskless: config.data_dir.is_none(),
    }
}

fn random_wide() -> u128 {
    u128::from(random_seed()) << 64 | u128::from(random_seed())
}

/// Not that of no proposal.
pub(super) fn random_proposal() -> ProposalId {
    ProposalId(random_wide().max(1))
}
