//! Whole nodes that hold partitions together, in a world of faults, under a coordinator that is always there.

#[path = "replicas/on_disk.rs"]
mod on_disk;

use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_client::{Client, ClientConfig, Lookup};
use weft_protocol::{Durability, ErrorCode, Eviction, Member, TableAlteration, TableOptions};
use weft_server::coordinator::{
    ClusterId, ClusterState, Command, Found, Join, Liveness, NodeDescription, Outcome, Planner,
    PlannerSettings, Proposal, ProposalId, Timing,
};
use weft_server::durable::{Mode, Settings};
use weft_server::handler::{NodeHandler, NodeOptions, Placement};
use weft_server::logs::{Logs, LogsOptions};
use weft_server::memory::NodeMemory;
use weft_sim::logs;
use weft_sim::world::{DiskFate, MemberId, World};
use weft_transport::{
    Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeId, SimConfig,
    SimCrash,
};

const CLUSTER: ClusterId = ClusterId(7);
const STEP: Duration = Duration::from_millis(10);

fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8], 7400))
}

struct Node {
    id: u64,
    host: MemberId,
    life: Option<(Member, Arc<NodeHandler>)>,
    /// The life that its disk is of.
    last_life: Option<Incarnation>,
    told: u64,
}

struct Play {
    world: World,
    random: StdRng,
    state: ClusterState,
    liveness: Liveness,
    planner: Planner,
    nodes: Vec<Node>,
    default_table: TableOptions,
    /// How long a disk takes for one thing.
    disk_takes: Range<Duration>,
}

impl Play {
    fn new(seed: u64, nodes: u64, replicas: u8) -> Play {
        Play::with(seed, nodes, TableOptions { replicas, ..TableOptions::default() })
    }

    /// A cluster whose one table is like this.
    fn with(seed: u64, nodes: u64, default_table: TableOptions) -> Play {
        let delay = Duration::from_micros(50)..Duration::from_millis(2);
        let mut world = World::new(seed, SimConfig { seed, delay, loss: 0.0, partial: 0.3 });
        let settings = PlannerSettings::default();
        let mut state = ClusterState::default();
        let found = Found {
            cluster: CLUSTER,
            default_table,
            partitions_per_class: 4,
            wire_version: 1,
            timing: Timing::default(),
            is_kept: true,
        };
        state
            .apply(&Proposal { id: ProposalId(1), command: Command::Found(found) })
            .expect("the world is made for it");
        let nodes = (1..=nodes)
            .map(|id| Node {
                id,
                host: world.add_host(address(id).ip(), None),
                life: None,
                last_life: None,
                told: 0,
            })
            .collect();
        let liveness = Liveness::new(settings.down_after);
        let random = StdRng::seed_from_u64(seed);
        let planner = Planner::new(settings);
        let disk_takes = Duration::from_micros(50)..Duration::from_millis(5);
        let mut play =
            Play { world, random, state, liveness, planner, nodes, default_table, disk_takes };
        for index in 0..play.nodes.len() {
            play.begin(index);
        }
        play
    }

    fn apply(&mut self, command: Command) -> Option<Outcome> {
        let id = ProposalId(self.random.random());
        self.state.apply(&Proposal { id, command }).ok()
    }

    /// A node begins a life.
    fn begin(&mut self, index: usize) {
        let (id, host) = (self.nodes[index].id, self.nodes[index].host);
        let node = NodeId(id);
        let memory = NodeMemory::divide(64 << 20).expect("the world is made for it");
        let clock = self.world.clock_of(host).clone();
        let logs = self.logs(node, host, &memory);
        let found = logs.iter().flat_map(Logs::found);
        let complete = found.filter(|found| found.completeness.is_complete());
        let complete = complete.map(|found| found.partition).collect();
        let incarnation = Incarnation(1000 + self.world.life(host));
        let join = Join {
            cluster: self.nodes[index].last_life.map(|_| CLUSTER),
            node,
            incarnation,
            last_incarnation: self.nodes[index].last_life,
            complete,
            wire_version: 1,
            description: NodeDescription {
                data_address: address(id).to_string(),
                control_address: "none:1".to_owned(),
                zone: String::new(),
                capacity_bytes: 1 << 30,
                is_coordinator: true,
                is_diskless: logs.is_none(),
            },
        };
        let outcome = self.apply(Command::Join(join));
        assert!(matches!(outcome, Some(Outcome::Joined { .. })), "{outcome:?}");
        let me = Member { node, incarnation };
        let config = EndpointConfig::new(node, incarnation, memory.network.clone());
        let mut options = NodeOptions::new(me, memory, clock, 7);
        options.has_earlier_life = self.world.life(host) > 1;
        let is_logged = logs.is_some();
        options.logs = logs;
        let handler = Arc::new(NodeHandler::new(options).expect("the world is made for it"));
        let endpoint = self
            .world
            .add_endpoint(host, config, Arc::clone(&handler) as _)
            .expect("the world is made for it");
        endpoint.listen(address(id)).expect("the world is made for it");
        if is_logged {
            self.nodes[index].last_life = Some(incarnation);
            self.keep_logs(host, &handler, &endpoint);
        }
        self.world.spawn_background(host, Arc::clone(&handler).take_part(endpoint, Vec::new()));
        self.nodes[index].life = Some((me, handler));
        self.nodes[index].told = 0;
    }

    /// What is on a node's disk, if anything is to be.
    fn logs(&self, node: NodeId, host: MemberId, memory: &NodeMemory) -> Option<Logs> {
        if self.default_table.durability == Durability::Memory {
            return None;
        }
        let options = LogsOptions {
            cluster: 7,
            node,
            memory: memory.clone(),
            seed: 7,
            clock: self.world.clock_of(host).clone(),
            settings: Settings::default(),
        };
        let logs = logs::recover(&self.world.disk(host), &options);
        Some(logs.expect("the disk is the node's own"))
    }

    fn keep_logs(&mut self, host: MemberId, handler: &Arc<NodeHandler>, endpoint: &Endpoint) {
        for mode in [Mode::Disk, Mode::Fsync] {
            let takes = self.disk_takes.clone();
            let (handler, endpoint) = (Arc::clone(handler), endpoint.clone());
            let (disk, seed) = (self.world.disk(host), self.random.random());
            let timer = logs::Timer::of(endpoint);
            let keeping = logs::keep(handler, mode, disk, timer, takes, seed);
            self.world.spawn_background(host, keeping);
        }
    }

    fn crash(&mut self, index: usize) {
        self.world.crash(self.nodes[index].host, SimCrash::Process);
        self.nodes[index].life = None;
    }

    fn restart(&mut self, index: usize) {
        self.nodes[index].last_life = None;
        self.restart_with(index, DiskFate::Wiped);
    }

    fn restart_with(&mut self, index: usize, fate: DiskFate) {
        let host = self.nodes[index].host;
        self.world.restart(host, fate, |_| {});
        self.begin(index);
    }

    /// Lets the world go on, with the coordinator doing its part.
    fn go_on(&mut self, duration: Duration) {
        let end = self.world.clock().now() + duration;
        while self.world.clock().now() < end {
            let next = self.world.clock().now() + STEP;
            self.world.go_on_until(next).expect("the world is made for it");
            self.coordinate();
        }
    }

    fn coordinate(&mut self) {
        let now = self.world.clock().now();
        for node in &self.nodes {
            let Some((me, handler)) = &node.life else { continue };
            self.liveness.heard(*me, self.state.version(), now);
            let (told, _) = handler.reports(Waker::noop());
            told.iter().for_each(|told| self.liveness.told(*me, told, now));
        }
        let plan = self.planner.plan(&self.state, &self.liveness, now);
        for command in plan.commands {
            // One that is out of date by now is refused, and planned anew if need be.
            let _ = self.state.apply(&Proposal { id: ProposalId::NONE, command });
        }
        let Some(map) = self.state.cluster_map() else { return };
        for node in &mut self.nodes {
            let Some((_, handler)) = &node.life else { continue };
            if node.told == map.epoch() {
                continue;
            }
            let placements = placements(&self.state);
            handler.learn_catalog(self.state.catalog()).expect("the world is made for it");
            handler.learn(map.clone(), &placements).expect("the world is made for it");
            node.told = map.epoch();
        }
    }

    /// A client that finds the cluster.
    fn client(&mut self, number: u64) -> impl Future<Output = Client> + 'static {
        let memory =
            Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).expect("the world is made for it");
        let node = NodeId::client(number);
        let mut config = EndpointConfig::new(node, weft_transport::Incarnation(1), memory);
        config.backoff = weft_client::BACKOFF;
        let (_, endpoint) =
            self.world.add(config, Arc::new(NoHandler)).expect("the world is made for it");
        let addresses = self.nodes.iter().map(|node| address(node.id).to_string());
        let mut config = ClientConfig::new(addresses.collect::<Vec<_>>());
        config.timeout = Duration::from_secs(5);
        async move {
            loop {
                if let Ok(client) = Client::with_endpoint(endpoint.clone(), config.clone()).await {
                    return client;
                }
            }
        }
    }

    fn check_digests(&self) {
        for (id, partition) in self.state.partitions() {
            let mut digests = Vec::new();
            for node in &self.nodes {
                let Some((me, handler)) = &node.life else { continue };
                if partition.configuration.has_member(*me) {
                    let all = handler.digests();
                    let found = all.iter().find(|(other, ..)| *other == id);
                    let (_, digest, is_in_sync) = found.expect("a member holds it");
                    assert!(*is_in_sync, "{id} on {me:?} is a member");
                    digests.push((*me, *digest));
                }
            }
            assert!(
                digests.iter().all(|(_, digest)| *digest == digests[0].1),
                "{id}: {digests:x?}"
            );
        }
    }
}

fn placements(state: &ClusterState) -> Vec<Placement> {
    state.partitions().map(|(id, partition)| Placement::of(id, partition)).collect()
}

#[test]
fn what_is_written_is_on_three_nodes_and_outlives_their_primary() {
    let mut play = Play::new(1, 3, 3);
    play.go_on(Duration::from_secs(3));
    let connected = play.client(1);
    let (written, read) = (Rc::new(Cell::new(0_u32)), Rc::new(Cell::new(0_u32)));
    let (counts, reads) = (Rc::clone(&written), Rc::clone(&read));
    play.world.spawn(async move {
        let client = connected.await;
        for number in 0..2000_u32 {
            let key = format!("key-{}", number % 50);
            match client.put(&key, number.to_string()).await {
                Ok(_) => counts.set(counts.get() + 1),
                Err(error) => panic!("put {number}: {error}"),
            }
            match client.get(&key).await {
                Ok(Lookup::Found(value)) => {
                    assert_eq!(*value, *number.to_string().as_bytes());
                    reads.set(reads.get() + 1);
                }
                Ok(Lookup::Absent { .. }) => panic!("{key} was written"),
                Err(error) => panic!("get {number}: {error}"),
            }
            client
                .endpoint()
                .sleep_until(client.endpoint().clock().now() + Duration::from_millis(1))
                .await;
        }
    });
    play.go_on(Duration::from_secs(2));
    let before = written.get();
    assert!(before > 100, "{before}");
    play.check_digests();
    play.crash(0);
    play.go_on(Duration::from_secs(3));
    assert!(written.get() > before + 100, "{before} {}", written.get());
    play.restart(0);
    play.go_on(Duration::from_secs(20));
    assert_eq!((written.get(), read.get()), (2000, 2000));
    play.check_digests();
    let members = |(_, partition): (_, &weft_server::coordinator::Partition)| {
        partition.configuration.members.len()
    };
    assert!(play.state.partitions().map(members).all(|members| members == 3));
}

/// Tables come and go while nodes crash and come back: what each member has follows from the entries alone, and nobody is told of a table that is gone.
#[test]
fn tables_come_and_go_with_their_partitions() {
    for seed in 1..=4 {
        let mut play = Play::new(seed, 4, 3);
        play.go_on(Duration::from_secs(3));
        let mut tables = Vec::new();
        for round in 0..6 {
            let name = format!("table-{round}");
            let options = TableOptions {
                ordered: round % 2 == 0,
                quota_bytes: Some(1 << 20),
                ..TableOptions::default()
            };
            // A node that crashes at this moment has made the entries of some partitions, or of none.
            play.apply(Command::CreateTable { name: name.clone(), options }).expect("it is new");
            if round % 3 == 1 {
                play.apply(Command::DropTable { name: tables.remove(0) }).expect("it was made");
            }
            tables.push(name);
            play.coordinate();
            let victim = play.random.random_range(0..4);
            let delay = Duration::from_millis(play.random.random_range(0..4));
            play.go_on(delay);
            play.crash(victim);
            play.go_on(Duration::from_secs(3));
            write_to_each(&mut play, round, &tables);
            play.restart(victim);
            play.go_on(Duration::from_secs(12));
            play.check_digests();
        }
        let alter =
            TableAlteration { quota_bytes: Some(Some(1)), eviction: Some(Eviction::SoonestExpiry) };
        play.apply(Command::AlterTable { name: tables[0].clone(), change: alter });
        for gone in tables.drain(1..) {
            play.apply(Command::DropTable { name: gone }).expect("it was made");
        }
        play.go_on(Duration::from_secs(1));
        play.check_digests();
        write_to_each(&mut play, 6, &tables);
    }
}

/// Each table takes objects of every partition, and has those of the rounds before.
fn write_to_each(play: &mut Play, round: u64, tables: &[String]) {
    let connected = play.client(100 + round);
    let done = Rc::new(Cell::new(false));
    let (is_done, tables) = (Rc::clone(&done), tables.to_vec());
    play.world.spawn(async move {
        let client = connected.await;
        for name in &tables {
            let table = client.table(name).await.expect("it is there");
            for number in 0..20_u32 {
                let key = format!("key-{number}");
                // Too much is refused by an eviction's quota, and that is all that may be.
                match table.put(&key, number.to_string()).await {
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.code(), ErrorCode::QuotaReached, "{name}: {error}")
                    }
                }
            }
        }
        is_done.set(true);
    });
    play.go_on(Duration::from_secs(3));
    assert!(done.get(), "round {round}");
}

/// Two nodes may have made a connection to each other at once, and the one that makes way may be lost before it has ended in good order.
#[test]
fn nodes_hear_each_other_again_whichever_connections_were_lost() {
    for seed in 0..SEEDS_OF_LOSSES {
        let mut play = Play::new(seed, 3, 3);
        play.go_on(Duration::from_secs(1));
        play.world.network().configure(|config| config.loss = 0.02);
        play.go_on(Duration::from_secs(2));
        play.world.network().configure(|config| config.loss = 0.0);
        play.go_on(Duration::from_secs(30));
        for (id, partition) in play.state.partitions() {
            let members = &partition.configuration.members;
            assert_eq!(members.len(), 3, "seed {seed}: {id} has {members:?}");
        }
        play.check_digests();
    }
}

const SEEDS_OF_LOSSES: u64 = 30;
