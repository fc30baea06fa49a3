//! Hosts that run what production runs: nodes with their coordinators, and clients that keep a history.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_protocol::replication::PEER_VERSION;
use weft_protocol::{ClusterMap, Member, PartitionEntry, PartitionId, Slot, TableOptions};
use weft_server::coordinator::raft::{
    Batch, Identity, LogError, MemoryLog, RaftId, RaftLog as _, begin_life,
};
use weft_server::coordinator::{
    Answer, Ask, ClusterId, Command, Coordinator, CoordinatorSettings, Found, ImmediateWriter,
    Join, NodeDescription, Proposal, ProposalId, Timing, founding_state, raft, serve,
};
use weft_server::handler::{NodeHandler, NodeOptions};
use weft_server::memory::NodeMemory;
use weft_transport::{
    Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeId, Time,
};

use super::{Begins, Builder, Options, Place, Role};
use crate::cluster::{BuildError, Connector};
use crate::history::Recorder;
use crate::nemesis::{Kind, Spares};
use crate::scenario::Failure;
use crate::scenario::requester::{Keys, REQUESTERS_MAX, Requester};
use crate::world::{DiskFate, MemberId, World};

/// Everybody of a run.
pub(super) struct Cluster {
    seed: u64,
    pub(super) recorder: Recorder,
    pub(super) keys: Rc<Keys>,
    failures: Rc<Cell<u64>>,
    pub(super) failed: Rc<RefCell<Option<Failure>>>,
    /// What was in doubt before its time was over.
    doubt: Rc<RefCell<Option<Failure>>>,
    hosts: Rc<RefCell<BTreeMap<MemberId, Host>>>,
    /// Where coordinators listen.
    seeds: Vec<SocketAddr>,
    /// Keys whose partition was lost, as it may be when what held it is gone.
    pub(super) lost: BTreeSet<Vec<u8>>,
}

/// What a node's host has, from life to life.
struct Host {
    role: Role,
    node: NodeId,
    /// The last incarnation, and whether it had joined.
    incarnation: u64,
    has_joined: Rc<Cell<bool>>,
    log: Arc<Mutex<MemoryLog>>,
    handler: Option<Arc<NodeHandler>>,
    replaced: bool,
}

const PORT: u16 = 7400;
const NODE_MEMORY_BYTES: u64 = 64 << 20;
const CLIENT_MEMORY_BYTES: u64 = 64 << 20;
const CLUSTER: ClusterId = ClusterId(0x5eed);

impl Cluster {
    pub(super) fn new(seed: u64, options: &Options) -> Cluster {
        let keys = Rc::new(Keys::new(options.keys, options.keys, options.keys));
        Cluster {
            seed,
            recorder: Recorder::new(),
            keys,
            failures: Rc::default(),
            failed: Rc::default(),
            doubt: Rc::default(),
            hosts: Rc::default(),
            seeds: (1..=options.coordinators as u8)
                .map(|host| SocketAddr::from(([10, 0, 0, host], PORT)))
                .collect(),
            lost: BTreeSet::new(),
        }
    }

    fn spared(&self) -> impl FnMut(&World, MemberId, Kind) -> bool + 'static {
        let hosts = Rc::clone(&self.hosts);
        move |world: &World, member, kind| {
            let mut hosts = hosts.borrow_mut();
            let dies = matches!(kind, Kind::CrashProcess | Kind::CrashMachine | Kind::Replace);
            let Some(host) = hosts.get(&member).filter(|_| dies) else { return false };
            match host.role {
                // A second one that forgets what it voted for, before the first has it again, may end the cluster.
                Role::Coordinator if kind == Kind::Replace => {
                    let is_first = hosts.values().all(|other| !other.replaced);
                    let is_one_of_three = voters(host) >= 3;
                    if is_first && is_one_of_three {
                        hosts.get_mut(&member).expect("it was there").replaced = true;
                    }
                    !is_first || !is_one_of_three
                }
                Role::Coordinator => false,
                Role::Storage => !is_held_elsewhere(&hosts, world, member),
                Role::Client => false,
            }
        }
    }

    fn node(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        let Place { member, role, number, begins } = place;
        let is_coordinator = role == Role::Coordinator;
        let node = NodeId(u64::from(number) + if is_coordinator { 1 } else { 101 });
        let mut hosts = self.hosts.borrow_mut();
        let host = hosts.entry(member).or_insert_with(|| Host {
            role,
            node,
            incarnation: 0,
            has_joined: Rc::default(),
            log: Arc::new(Mutex::new(MemoryLog::new("simulated"))),
            handler: None,
            replaced: false,
        });
        let last = Some(Incarnation(host.incarnation)).filter(|_| host.incarnation > 0);
        let mut last_incarnation = last;
        match begins {
            Begins::Anew | Begins::Again(DiskFate::Kept) => {}
            Begins::Again(DiskFate::Torn) => {
                let mut random = StdRng::seed_from_u64(self.seed ^ world.life(member));
                host.log.lock().lose_power(random.random_range(0..4));
            }
            Begins::Again(DiskFate::Wiped) => {
                host.log = Arc::new(Mutex::new(MemoryLog::new("simulated")));
                last_incarnation = None;
                host.has_joined = Rc::default();
            }
        }
        // A clock of the wall goes on while a machine is down, and is lost with no disk.
        let unix_ms = 1_000_000 + world.clock().now().nanos() / 1_000_000;
        let incarnation = Incarnation(unix_ms.max(host.incarnation + 1));
        host.incarnation = incarnation.0;
        let me = Member { node, incarnation };
        let address = SocketAddr::new(world.address(member), PORT);
        let memory = NodeMemory::divide(NODE_MEMORY_BYTES)?;
        let config = EndpointConfig::new(node, incarnation, memory.network.clone());
        let clock = world.clock_of(member).clone();
        let mut node_options = NodeOptions::new(me, memory, clock, self.seed ^ node.0);
        node_options.has_earlier_life = begins != Begins::Anew;
        let handler = Arc::new(NodeHandler::new(node_options)?);
        handler.belong(CLUSTER, is_coordinator);
        let endpoint = world.add_endpoint(member, config, Arc::clone(&handler) as _)?;
        endpoint.listen(address)?;
        host.handler = Some(Arc::clone(&handler));
        let join = Join {
            cluster: last_incarnation.map(|_| CLUSTER),
            node,
            incarnation,
            last_incarnation,
            complete: Vec::new(),
            wire_version: u16::from(PEER_VERSION),
            description: NodeDescription {
                data_address: address.to_string(),
                control_address: "off".to_owned(),
                zone: String::new(),
                capacity_bytes: if is_coordinator { 0 } else { 1 << 30 },
                is_coordinator,
            },
        };
        let mut random = StdRng::seed_from_u64(self.seed ^ node.0 << 32 ^ incarnation.0);
        let mut proposal = || ProposalId(random.random_range(1..u128::MAX));
        let (joining, admission) = (proposal(), proposal());
        if begins == Begins::Anew && is_coordinator && number == 0 {
            let found = Found {
                cluster: CLUSTER,
                default_table: TableOptions {
                    replicas: options.replicas as u8,
                    ..TableOptions::default()
                },
                partitions_per_class: options.partitions,
                wire_version: u16::from(PEER_VERSION),
                timing: Timing::default(),
                is_kept: true,
            };
            let raft = RaftId(1);
            let identity = Identity { cluster: CLUSTER, node, raft };
            let state = founding_state(found, None).expect("it is drawn within what there may be");
            let first = Batch::founding(identity, &[(raft, node)], state);
            host.log.lock().create(&first).expect("it is empty and has no fault");
        }
        let seeds = self.seeds.iter().copied().filter(|seed| *seed != address).collect();
        world.spawn_background(member, Arc::clone(&handler).take_part(endpoint.clone(), seeds));
        if is_coordinator {
            let (handler, endpoint) = (Arc::clone(&handler), endpoint.clone());
            let (log, seed) = (Arc::clone(&host.log), self.seed ^ node.0);
            let has_joined = Rc::clone(&host.has_joined);
            world.spawn_background(member, async move {
                coordinate(handler, endpoint, log, admission, has_joined, seed).await;
            });
        }
        let has_joined = Rc::clone(&host.has_joined);
        world.spawn_background(member, async move {
            let ask = Ask::Propose(Proposal { id: joining, command: Command::Join(join) });
            loop {
                match handler.ask_coordinators(&endpoint, &ask).await {
                    Answer::Decided(Ok(_)) => return has_joined.set(true),
                    // Its former life is not down yet, perhaps.
                    _ => pause(&endpoint, Duration::from_millis(100)).await,
                }
            }
        });
        Ok(())
    }

    fn client(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        let Place { member, number, .. } = place;
        let connector = self.connector(world, member, number, options.timeout)?;
        for of_client in 0..options.requesters {
            let number = number * REQUESTERS_MAX + of_client;
            let requester = self.requester(world, number, options.timeout, options);
            let random = StdRng::seed_from_u64(self.seed.wrapping_add(u64::from(number)));
            let work = requester.work(connector.clone(), options.operations, options.think, random);
            world.spawn_on(member, work);
        }
        Ok(())
    }

    fn connector(
        &self,
        world: &mut World,
        member: MemberId,
        number: u32,
        timeout: Duration,
    ) -> Result<Connector, BuildError> {
        let memory = Memory::new(MemoryConfig { limit_bytes: CLIENT_MEMORY_BYTES })?;
        let mut config =
            EndpointConfig::new(NodeId::client(u64::from(number)), Incarnation(1), memory);
        config.backoff = weft_client::BACKOFF;
        let endpoint = world.add_endpoint(member, config, Arc::new(NoHandler))?;
        let addresses = self.seeds.iter().map(SocketAddr::to_string);
        Ok(Connector::new(member, endpoint, addresses, timeout))
    }

    fn requester(
        &self,
        world: &World,
        number: u32,
        timeout: Duration,
        options: &Options,
    ) -> Requester {
        Requester {
            number,
            keys: Rc::clone(&self.keys),
            recorder: self.recorder.clone(),
            clock: world.clock().clone(),
            timeout,
            value_bytes_max: options.value_bytes_max,
            versions: RefCell::default(),
            asked_at: Cell::new(Time::ZERO),
            failures: Rc::clone(&self.failures),
            failed: Rc::clone(&self.failed),
            doubt: Rc::clone(&self.doubt),
        }
    }

    /// How often partitions have changed hands since they were placed.
    pub(super) fn epochs_changed(&self) -> u64 {
        let map = newest_map(&self.hosts.borrow());
        let changes = |map: Arc<ClusterMap>| {
            map.partitions().iter().map(|entry| u64::from(entry.epoch.saturating_sub(1))).sum()
        };
        map.map_or(0, changes)
    }

    /// How many partitions are lost.
    pub(super) fn partitions_lost(&self) -> u64 {
        let map = newest_map(&self.hosts.borrow());
        map.map_or(0, |map| map.partitions().iter().filter(|entry| entry.is_lost).count() as u64)
    }

    /// What keeps the cluster from being as it should be.
    fn unsettled(&self, options: &Options) -> Option<String> {
        let hosts = self.hosts.borrow();
        let storage: Vec<&Host> =
            hosts.values().filter(|host| host.role == Role::Storage).collect();
        if let Some(host) = hosts.values().find(|host| !host.has_joined.get()) {
            return Some(format!("{} has not joined", host.node));
        }
        let map = newest_map(&hosts)?;
        let wanted = (options.replicas as usize).min(storage.len());
        let is_full = |entry: &&PartitionEntry| {
            entry.is_lost || (entry.members.len() == wanted && entry.primary.is_some())
        };
        if let Some(entry) = map.partitions().iter().find(|entry| !is_full(entry)) {
            let PartitionEntry { id, members, primary, .. } = entry;
            return Some(format!("{id} has members {members:?} and primary {primary:?}"));
        }
        if map.partitions().is_empty() {
            return Some("there are no partitions".to_owned());
        }
        let digests: BTreeMap<NodeId, BTreeMap<PartitionId, (u128, bool)>> = storage
            .iter()
            .filter_map(|host| {
                let digests = host.handler.as_ref()?.digests();
                let digests = digests.into_iter().map(|(id, digest, sync)| (id, (digest, sync)));
                Some((host.node, digests.collect()))
            })
            .collect();
        for entry in map.partitions().iter().filter(|entry| !entry.is_lost) {
            let held: Vec<_> = entry
                .members
                .iter()
                .map(|member| digests.get(member).and_then(|held| held.get(&entry.id)).copied())
                .collect();
            let are_equal =
                held.iter().all(|one| *one == held[0] && one.is_some_and(|(_, sync)| sync));
            if !are_equal {
                return Some(format!("{} on {:?}: {held:x?}", entry.id, entry.members));
            }
        }
        None
    }
}

impl Builder for Cluster {
    fn build(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        match place.role {
            Role::Coordinator | Role::Storage => self.node(world, place, options),
            Role::Client => self.client(world, place, options),
        }
    }

    /// What a host holds is to be somewhere else too before it goes.
    fn spares(&self) -> Box<Spares> {
        Box::new(self.spared())
    }

    fn failed(&self) -> u64 {
        self.failures.get()
    }

    fn converge(&mut self, world: &mut World, options: &Options) -> Result<(), Failure> {
        let end = world.clock().now() + CONVERGED_AFTER_MAX;
        while let Some(reason) = self.unsettled(options) {
            if world.clock().now() >= end {
                return Err(Failure::NotConverged { reason });
            }
            let next = world.clock().now() + LOOK_EVERY;
            world.go_on_until(next)?;
        }
        let map = newest_map(&self.hosts.borrow()).expect("it was there a moment ago");
        let lost: BTreeSet<PartitionId> =
            map.partitions().iter().filter(|entry| entry.is_lost).map(|entry| entry.id).collect();
        let is_lost = |key: &&Vec<u8>| {
            let slot = Slot::of(key);
            map.partitions().iter().any(|entry| {
                lost.contains(&entry.id) && (entry.first_slot..=entry.last_slot).contains(&slot)
            })
        };
        self.lost = self.keys.all().filter(is_lost).cloned().collect();
        let there = self.keys.all().filter(|key| !is_lost(key)).cloned().collect();
        let member = world.add_host([10, 0, 9, 1].into(), None);
        let connector = self.connector(world, member, READER, HEALED_TIMEOUT)?;
        let reader = self.requester(world, READER * REQUESTERS_MAX, HEALED_TIMEOUT, options);
        world.spawn(reader.read_all(connector, there, None));
        let end = world.clock().now() + 10 * HEALED_TIMEOUT;
        if !world.run_until(end)? {
            return Err(Failure::TooLong { at: end });
        }
        match self.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// Makes the host a member of the coordinator, if it is none, and has it work.
async fn coordinate(
    handler: Arc<NodeHandler>,
    endpoint: Endpoint,
    log: Arc<Mutex<MemoryLog>>,
    admission: ProposalId,
    has_joined: Rc<Cell<bool>>,
    seed: u64,
) {
    let node = endpoint.node();
    log.lock().end_process();
    let begun = begin_life(&mut *log.lock(), node, Some(CLUSTER));
    let recovered = match begun {
        Ok(recovered) => recovered,
        Err(LogError::Missing { .. }) => {
            let raft = admitted(&handler, &endpoint, admission, &has_joined).await;
            let first = Batch::joining(Identity { cluster: CLUSTER, node, raft });
            let mut log = log.lock();
            log.create(&first).expect("it is empty and has no fault");
            begin_life(&mut *log, node, Some(CLUSTER)).expect("it was made a moment ago")
        }
        Err(error) => panic!("what was written can be read: {error}"),
    };
    let mut raft = raft::Settings::default();
    raft.seed = seed;
    let settings = CoordinatorSettings { raft, ..CoordinatorSettings::default() };
    let coordinator = Coordinator::new(settings, recovered, endpoint.clock().now())
        .expect("what was written can be");
    serve(handler, endpoint, coordinator, ImmediateWriter::new(log)).await;
}

/// Asks to be a coordinator until it is one.
async fn admitted(
    handler: &NodeHandler,
    endpoint: &Endpoint,
    id: ProposalId,
    has_joined: &Cell<bool>,
) -> RaftId {
    let admit = Ask::Admit { id, node: endpoint.node() };
    loop {
        if has_joined.get()
            && let Answer::Admitted { raft, .. } = handler.ask_coordinators(endpoint, &admit).await
        {
            return raft;
        }
        pause(endpoint, Duration::from_millis(100)).await;
    }
}

async fn pause(endpoint: &Endpoint, time: Duration) {
    endpoint.sleep_until(endpoint.clock().now() + time).await;
}

fn newest_map(hosts: &BTreeMap<MemberId, Host>) -> Option<Arc<ClusterMap>> {
    let maps = hosts.values().filter_map(|host| host.handler.as_ref()?.map());
    maps.max_by_key(|map| map.epoch())
}

/// How many coordinators vote, as a host's log has it.
fn voters(host: &Host) -> usize {
    let Ok(recovered) = host.log.lock().clone().recover() else { return 0 };
    let members = recovered.snapshot.metadata.and_then(|metadata| metadata.conf_state);
    members.map_or(0, |members| members.voters.len())
}

/// Whether every partition that a host holds is complete on another that is up.
fn is_held_elsewhere(hosts: &BTreeMap<MemberId, Host>, world: &World, member: MemberId) -> bool {
    let Some(map) = newest_map(hosts) else { return false };
    let node = hosts[&member].node;
    let is_up = |other: &NodeId| {
        let host = hosts.iter().find(|(_, host)| host.node == *other);
        *other != node && host.is_some_and(|(member, _)| world.is_up(*member))
    };
    let held = map.partitions().iter().filter(|entry| entry.members.contains(&node));
    held.into_iter().all(|entry| entry.members.iter().any(is_up))
}

/// How long a cluster in which nothing is wrong any more takes to be as it should be, at most.
const CONVERGED_AFTER_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longer than anything takes in a cluster that is well.
const HEALED_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of the client that reads everything in the end.
const READER: u32 = 99;
