//! The host of a node, and how a life of it begins: with what its disk has, as a node of production does.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_protocol::replication::PEER_VERSION;
use weft_protocol::{Member, PartitionId};
use weft_server::coordinator::raft::{Batch, Identity, MemoryLog, RaftId, RaftLog as _};
use weft_server::coordinator::{
    Answer, Ask, ClusterId, Command, Ended, Found, Join, NodeDescription, Proposal, ProposalId,
    Timing, founding_state, raft,
};
use weft_server::durable::{Mode, Settings};
use weft_server::handler::{NodeHandler, NodeOptions};
use weft_server::logs::{Logs, LogsOptions};
use weft_server::memory::NodeMemory;
use weft_transport::{Endpoint, EndpointConfig, Incarnation, NodeId};

use super::coordinating::Coordinating;
use super::leaving::Orders;
use super::nodes::Cluster;
use super::stopping::{Closed, Parting};
use super::{Begins, Options, Place, Role};
use crate::cluster::BuildError;
use crate::logs;
use crate::planted::{Mistake, Planted};
use crate::world::{DiskFate, World};

/// What a node's host has, from life to life.
pub(super) struct Host {
    pub(super) role: Role,
    pub(super) node: NodeId,
    /// Of its last life.
    pub(super) incarnation: u64,
    pub(super) has_joined: Rc<Cell<bool>>,
    /// Why its coordinator works no more, in this life.
    pub(super) ended: Rc<RefCell<Option<Ended>>>,
    /// The coordinator's.
    pub(super) log: Arc<Mutex<MemoryLog>>,
    pub(super) handler: Option<Arc<NodeHandler>>,
    /// Of its last life.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) replaced: bool,
    /// How many lives began with partitions that the disk had whole.
    pub(super) recovered: u64,
    /// Whether it keeps what is to be kept on disk.
    pub(super) has_disk: bool,
    /// How this life ends, if it is told to.
    pub(super) parting: Parting,
    /// What it was told of leaving.
    pub(super) orders: Orders,
    /// Whether a life of it has ended otherwise than in good order.
    pub(super) ended_badly: bool,
}

/// What a life begins with.
struct Beginning {
    me: Member,
    /// Of the last life, if the disk still knows of it.
    last_incarnation: Option<Incarnation>,
    /// What it has of partitions: all of it.
    complete: Vec<PartitionId>,
    /// How the life before has closed its logs, if it has and the disk is the same.
    closed: Option<Closed>,
}

pub(super) const PORT: u16 = 7400;
pub(super) const CLUSTER: ClusterId = ClusterId(0x5eed);
const FIRST_STORAGE_NODE: u64 = 101;
const NODE_MEMORY_BYTES: u64 = 64 << 20;

impl Host {
    fn new(role: Role, node: NodeId) -> Host {
        Host {
            role,
            node,
            incarnation: 0,
            has_joined: Rc::default(),
            ended: Rc::default(),
            log: empty_log(),
            handler: None,
            endpoint: None,
            replaced: false,
            recovered: 0,
            has_disk: false,
            parting: Parting::default(),
            orders: Orders::default(),
            ended_badly: false,
        }
    }

    /// Its number among the storage nodes.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.node.0.saturating_sub(FIRST_STORAGE_NODE)).unwrap_or(u32::MAX)
    }

    /// Whether a log of its objects takes nothing any more.
    pub(super) fn has_failed(&self) -> bool {
        let logs = self.handler.as_ref().and_then(|handler| handler.logs());
        logs.is_some_and(Logs::has_failed)
    }
}

fn empty_log() -> Arc<Mutex<MemoryLog>> {
    Arc::new(Mutex::new(MemoryLog::new("simulated")))
}

impl Cluster {
    /// Whether this is got wrong.
    fn mistakes(&self, mistake: Mistake) -> bool {
        self.planted == Some(Planted::Operator(mistake))
    }

    /// A node begins a life.
    pub(super) fn node(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        let Place { member, role, begins, .. } = place;
        let memory = NodeMemory::divide(NODE_MEMORY_BYTES)?;
        let mut beginning = self.begin(world, place);
        let me = beginning.me;
        let logs = self.logs(world, place, options, &memory);
        if let (Some(closed), Some(logs)) = (&beginning.closed, &logs) {
            self.check_stop(closed, logs.found());
        }
        let found = logs.iter().flat_map(Logs::found);
        let found = found.filter(|found| found.completeness.is_complete());
        beginning.complete.extend(found.map(|found| found.partition));
        let config = EndpointConfig::new(me.node, me.incarnation, memory.network.clone());
        let clock = world.clock_of(member).clone();
        let mut node_options = NodeOptions::new(me, memory, clock, self.seed ^ me.node.0);
        node_options.has_earlier_life =
            begins != Begins::Anew && !self.mistakes(Mistake::ForgetEarlierLife);
        let is_logged = logs.is_some();
        node_options.logs = logs;
        node_options.replica_settings.tail_bytes_max = options.tail_bytes;
        #[cfg(feature = "planted-bugs")]
        if let Some(planted) = self.planted {
            planted.in_node(&mut node_options);
        }
        let handler = Arc::new(NodeHandler::new(node_options)?);
        handler.belong(CLUSTER, role == Role::Coordinator);
        let endpoint = world.add_endpoint(member, config, Arc::clone(&handler) as _)?;
        endpoint.listen(SocketAddr::new(world.address(member), PORT))?;
        self.handlers.push(Arc::clone(&handler));
        if let Some(host) = self.hosts.borrow_mut().get_mut(&member) {
            host.handler = Some(Arc::clone(&handler));
            host.endpoint = Some(endpoint.clone());
            host.recovered += u64::from(is_logged && !beginning.complete.is_empty());
            host.has_disk = is_logged;
        }
        self.losses.borrow_mut().is_back(member, handler.recovered());
        self.start(world, place, options, &handler, &endpoint, beginning);
        Ok(())
    }

    /// Who it is in this life, and what there is of the one before.
    fn begin(&self, world: &World, place: Place) -> Beginning {
        let Place { member, role, number, begins } = place;
        let first = if role == Role::Coordinator { 1 } else { FIRST_STORAGE_NODE };
        let node = NodeId(u64::from(number) + first);
        let mut hosts = self.hosts.borrow_mut();
        let host = hosts.entry(member).or_insert_with(|| Host::new(role, node));
        let mut last_incarnation =
            Some(Incarnation(host.incarnation)).filter(|_| host.incarnation > 0);
        host.has_joined = Rc::default();
        host.ended = Rc::default();
        let parting = std::mem::take(&mut host.parting);
        host.ended_badly |= begins != Begins::Anew && !parting.is_closed_well();
        let is_wiped = begins == Begins::Again(DiskFate::Wiped);
        let closed = parting.closed().filter(|_| !is_wiped);
        host.ended_badly |= is_wiped;
        match begins {
            Begins::Anew | Begins::Again(DiskFate::Kept) => {}
            Begins::Again(DiskFate::Torn) => {
                let mut random = StdRng::seed_from_u64(self.seed ^ world.life(member));
                host.log.lock().lose_power(random.random_range(0..4));
            }
            Begins::Again(DiskFate::Wiped) => {
                let former = std::mem::replace(&mut host.log, empty_log());
                if self.mistakes(Mistake::ReuseRaftId)
                    && let Ok(former) = former.lock().recover()
                {
                    let first = Batch::joining(former.identity);
                    host.log.lock().create(&first).expect("it is empty and has no fault");
                }
                last_incarnation = None;
            }
        }
        // A clock of the wall goes on while a machine is down, and is lost with no disk.
        let unix_ms = 1_000_000 + world.clock().now().nanos() / 1_000_000;
        let is_reused = host.incarnation > 0 && self.mistakes(Mistake::ReuseIncarnation);
        if !is_reused {
            host.incarnation = unix_ms.max(host.incarnation + 1);
        }
        Beginning {
            me: Member { node, incarnation: Incarnation(host.incarnation) },
            last_incarnation,
            complete: Vec::new(),
            closed,
        }
    }

    /// What is on the node's disk, if anything is to be.
    fn logs(
        &self,
        world: &World,
        place: Place,
        options: &Options,
        memory: &NodeMemory,
    ) -> Option<Logs> {
        let Place { member, role, number, .. } = place;
        if role != Role::Storage || !options.has_disk(number) {
            return None;
        }
        let mut settings = Settings::default();
        settings.file_bytes = options.file_bytes;
        #[cfg(feature = "planted-bugs")]
        if let Some(planted) = self.planted {
            settings = planted.in_log(settings);
        }
        let node = NodeId(u64::from(number) + FIRST_STORAGE_NODE);
        let options = LogsOptions {
            cluster: CLUSTER.0,
            node,
            memory: memory.clone(),
            seed: self.seed ^ node.0,
            clock: world.clock_of(member).clone(),
            settings,
        };
        let recover = || logs::recover(&world.disk(member), &options);
        // Whom the disk fails at the start does not start, and is started again; it fails once.
        Some(recover().or_else(|_| recover()).expect("the disk is the node's own"))
    }

    /// Gives the host what it is to do.
    fn start(
        &self,
        world: &mut World,
        place: Place,
        options: &Options,
        handler: &Arc<NodeHandler>,
        endpoint: &Endpoint,
        beginning: Beginning,
    ) {
        let Place { member, role, .. } = place;
        let address = SocketAddr::new(world.address(member), PORT);
        let Beginning { me, .. } = beginning;
        let (log, has_joined, ended, parting) = {
            let hosts = self.hosts.borrow();
            let host = &hosts[&member];
            let (has_joined, ended) = (Rc::clone(&host.has_joined), Rc::clone(&host.ended));
            (Arc::clone(&host.log), has_joined, ended, host.parting.clone())
        };
        if place.begins == Begins::Anew && role == Role::Coordinator && place.number == 0 {
            let first = founding(me.node, options);
            log.lock().create(&first).expect("it is empty and has no fault");
        }
        let mut random = StdRng::seed_from_u64(self.seed ^ me.node.0 << 32 ^ me.incarnation.0);
        let mut proposal = || ProposalId(random.random_range(1..u128::MAX));
        let (joining, admission) = (proposal(), proposal());
        let timer = parting.timer(endpoint);
        for mode in [Mode::Disk, Mode::Fsync].into_iter().filter(|_| handler.logs().is_some()) {
            let (takes, disk) = (options.disk_takes.clone(), world.disk(member));
            let (handler, timer) = (Arc::clone(handler), timer.clone());
            let keeping = logs::keep(handler, mode, disk, timer, takes, random.random());
            world.spawn_background(member, keeping);
        }
        let seeds = self.seeds.iter().copied().filter(|seed| *seed != address).collect();
        let taking_part = Arc::clone(handler).take_part(endpoint.clone(), seeds);
        world.spawn_background(member, parting.clone().unless_told(taking_part));
        if role == Role::Coordinator {
            let mut settings = raft::Settings::default();
            settings.seed = self.seed ^ me.node.0;
            settings.snapshot_entries = options.snapshot_entries;
            settings.kept_entries = options.snapshot_entries / 4;
            #[cfg(feature = "planted-bugs")]
            if let Some(planted) = self.planted {
                settings = planted.in_raft(settings);
            }
            let (handler, endpoint) = (Arc::clone(handler), endpoint.clone());
            let has_joined = Rc::clone(&has_joined);
            let coordinating =
                Coordinating { handler, endpoint, log, admission, has_joined, ended, settings };
            world.spawn_background(member, coordinating.run());
        }
        let keeps_objects = handler.logs().is_some();
        let join = join(beginning, address, role == Role::Coordinator, keeps_objects);
        let (handler, endpoint) = (Arc::clone(handler), endpoint.clone());
        let joining = async move {
            let ask = Ask::Propose(Proposal { id: joining, command: Command::Join(join) });
            loop {
                match handler.ask_coordinators(&endpoint, &ask).await {
                    Answer::Decided(Ok(_)) => return has_joined.set(true),
                    // Its former life is not down yet, perhaps.
                    _ => pause(&endpoint, Duration::from_millis(100)).await,
                }
            }
        };
        world.spawn_background(member, parting.unless_told(joining));
    }
}

/// How the first coordinator founds the cluster.
fn founding(node: NodeId, options: &Options) -> Batch {
    let found = Found {
        cluster: CLUSTER,
        default_table: options.default_table(),
        partitions_per_class: options.partitions,
        wire_version: u16::from(PEER_VERSION),
        timing: Timing::default(),
        is_kept: true,
    };
    let raft = RaftId(1);
    let identity = Identity { cluster: CLUSTER, node, raft };
    let state = founding_state(found, None).expect("it is drawn within what there may be");
    Batch::founding(identity, &[(raft, node)], state)
}

fn join(
    beginning: Beginning,
    address: SocketAddr,
    is_coordinator: bool,
    keeps_objects: bool,
) -> Join {
    let Beginning { me, last_incarnation, complete, .. } = beginning;
    Join {
        cluster: last_incarnation.map(|_| CLUSTER),
        node: me.node,
        incarnation: me.incarnation,
        last_incarnation,
        complete,
        wire_version: u16::from(PEER_VERSION),
        description: NodeDescription {
            data_address: address.to_string(),
            control_address: "off".to_owned(),
            zone: String::new(),
            capacity_bytes: if is_coordinator { 0 } else { 1 << 30 },
            is_coordinator,
            is_diskless: !keeps_objects,
        },
    }
}

pub(super) async fn pause(endpoint: &Endpoint, time: Duration) {
    endpoint.sleep_until(endpoint.clock().now() + time).await;
}
