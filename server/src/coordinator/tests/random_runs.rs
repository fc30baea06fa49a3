//! Clusters to which all kinds of things happen, and which have to be in order afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use weft_protocol::{Configuration, Durability, PartitionId, TableOptions};
use weft_transport::NodeId;

use super::world::World;
use crate::coordinator::{
    Changes, ClientId, ClusterState, Command, Node, Partition, Planner, Proposal, ProposalId,
    WorkerId, codec,
};

const SEEDS: u64 = 400;
const TICK: Duration = Duration::from_millis(50);

#[test]
fn whatever_happens_nothing_is_lost_that_need_not_be_and_all_is_in_order_in_the_end() {
    let (mut lost, mut changes) = (0, 0);
    for seed in 0..SEEDS {
        let _told = Told(seed);
        let world = run(seed);
        lost += world.lost;
        changes += world.changes.values().sum::<usize>();
    }
    // The runs are worth something only if they meet what they are about.
    assert!(lost > 0 && changes > 10 * SEEDS as usize, "{lost} losses, {changes} changes");
}

/// Names the seed of a run that fails.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

fn run(seed: u64) -> World {
    let replicas = 1 + (seed % 3) as u8;
    let durability = Durability::ALL[(seed / 3 % 3) as usize];
    let options = TableOptions { replicas, durability, ..TableOptions::default() };
    let mut world = World::new(seed, 6, options);
    let zones = 1 + world.random.below(3);
    for node in 1..=3 + world.random.below(4) {
        world.start(node, &format!("zone{}", node % zones));
    }
    let mut mirror = Mirror::default();
    for _ in 0..200 {
        happen(&mut world);
        let by = if world.random.one_in(20) { 20 } else { 1 };
        world.step(TICK * by);
        if world.random.one_in(10) {
            mirror.follow(&world.state);
        }
        if world.random.one_in(50) {
            let bytes = codec::encode_snapshot(&world.state).unwrap();
            assert_eq!(codec::decode_snapshot(&bytes).as_ref(), Ok(&world.state));
        }
    }
    heal(&mut world);
    world.settle(Duration::from_secs(600));
    mirror.follow(&world.state);
    check_order(&world, seed);
    check_replay(&world);
    world
}

/// One thing that goes wrong, or right again, or that an operator or a client asks for.
fn happen(world: &mut World) {
    let count = world.processes.len() as u64;
    let node = NodeId(1 + world.random.below(count));
    let other = NodeId(1 + world.random.below(count));
    match world.random.below(60) {
        0 | 1 => world.stop(node, true),
        2..=4 => world.stop(node, false),
        5 => world.wipe(node),
        6..=12 => {
            let zone = world.processes[&node].zone.clone();
            world.start(node.0, &zone);
        }
        13 | 14 if node != other => {
            world.cuts.insert((node.min(other), node.max(other)));
        }
        15..=17 => {
            world.cuts.pop_first();
        }
        18 => {
            world.unheard.insert(node);
        }
        19..=21 => {
            world.unheard.pop_first();
        }
        22 => world.lead_anew(),
        23 => drop(world.apply(&Command::Leave { node })),
        24 => drop(world.apply(&Command::Stay { node })),
        25 => {
            let options = TableOptions { replicas: 2, ..TableOptions::default() };
            let name = format!("table{}", world.random.below(3));
            drop(world.apply(&Command::CreateTable { name, options }));
        }
        26 => drop(world.apply(&Command::DropTable { name: "table1".to_owned() })),
        27 | 28 => drop(world.apply(&Command::OpenClient)),
        29 => {
            let clients = vec![ClientId(1), ClientId(2)];
            drop(world.apply(&Command::RenewClients { clients }));
        }
        38..=40 => {
            let description = super::workers::description("loom:9");
            let former = world.random.one_in(2).then_some(WorkerId(1 + world.random.below(4)));
            drop(world.apply(&Command::RegisterWorker { former, description }));
        }
        41 | 42 => {
            let worker = WorkerId(1 + world.random.below(4));
            drop(world.apply(&Command::RenewWorker { worker }));
        }
        // What was proposed comes again.
        30..=33 => {
            for command in world.last_commands.clone() {
                drop(world.apply(&command));
            }
        }
        34..=36 => accept_losses(world),
        37 => interfere(world),
        _ => {}
    }
}

/// An operator takes something away, or gives something up.
fn interfere(world: &mut World) {
    let count = world.state.partitions().len() as u64;
    if count == 0 {
        return;
    }
    let partition = PartitionId(world.random.below(count) as u16);
    let present = world.state.partition(partition).unwrap().configuration.clone();
    let expected_epoch = present.epoch;
    let command = match (world.random.below(4), present.members.last()) {
        (0, _) => Command::DeclareLost { partition, expected_epoch },
        (1, Some(&member)) => Command::RemoveMember { partition, expected_epoch, member },
        _ => {
            let next = Configuration { epoch: expected_epoch + 1, learners: Vec::new(), ..present };
            Command::Reconfigure { partition, expected_epoch, next }
        }
    };
    drop(world.apply(&command));
}

fn accept_losses(world: &mut World) {
    let lost = world.state.partitions().filter(|(_, partition)| partition.configuration.is_lost);
    let lost: Vec<PartitionId> = lost.map(|(id, _)| id).collect();
    for id in lost {
        if let Some(command) = Planner::accept_loss(&world.state, &world.liveness, id) {
            world.apply(&command).unwrap();
        }
    }
}

fn heal(world: &mut World) {
    world.cuts.clear();
    world.unheard.clear();
    let nodes: Vec<_> =
        world.processes.iter().map(|(node, process)| (node.0, process.zone.clone())).collect();
    for (node, zone) in nodes {
        world.start(node, &zone);
    }
    // All join, which may show that something is lost.
    let is_out = |world: &World| {
        let has_not_joined = world.processes.values().any(|process| process.life.is_none());
        has_not_joined || world.state.nodes().any(|node| !node.is_up)
    };
    while is_out(world) {
        world.step(TICK);
    }
    accept_losses(world);
}

/// All that there can be is there, spread over the zones, and evenly.
fn check_order(world: &World, seed: u64) {
    let state = &world.state;
    let holders: Vec<&Node> = state.nodes().filter(|node| node.is_holder()).collect();
    let zone_of = |id: NodeId| &state.node(id).unwrap().description.zone;
    let zones: BTreeSet<_> = holders.iter().map(|node| zone_of(node.id)).collect();
    assert!(holders.iter().all(|node| node.is_up && node.is_settled), "seed {seed}");
    for (id, partition) in state.partitions() {
        let Configuration { ref members, ref learners, primary, is_lost, .. } =
            partition.configuration;
        let context = format!("seed {seed}, {id}: {:?}", partition.configuration);
        let wanted = ClusterState::replicas_wanted(partition.class, holders.len());
        assert!(!is_lost && primary.is_some() && learners.is_empty(), "{context}");
        assert_eq!(members.len(), wanted, "{context}");
        assert!(partition.configuration.takes_writes(), "{context}");
        let spread: BTreeSet<_> = members.iter().map(|member| zone_of(member.node)).collect();
        assert_eq!(spread.len(), wanted.min(zones.len()), "{context}");
    }
    if zones.len() == 1 {
        let loads = world.loads();
        let gap = |of: fn(&(i64, i64)) -> i64| {
            let values = || loads.values().map(of);
            values().max().unwrap() - values().min().unwrap()
        };
        assert!(gap(|load| load.0) <= 2, "seed {seed}: {loads:?}");
        assert!(gap(|load| load.1) <= 3, "seed {seed}: {loads:?}");
    }
}

/// Another coordinator that was given the same, as bytes, is where this one is.
fn check_replay(world: &World) {
    let mut replica = ClusterState::default();
    for commands in world.log.chunks(32) {
        let id = ProposalId::NONE;
        let proposal = |command: &Command| Proposal { id, command: command.clone() };
        let entry = codec::encode_entry(&commands.iter().map(proposal).collect::<Vec<_>>());
        for proposal in codec::decode_entry(&entry.unwrap()).unwrap() {
            drop(replica.apply(&proposal));
        }
    }
    assert_eq!(replica, world.state);
}

/// Somebody who only ever learns what is different.
#[derive(Default)]
struct Mirror {
    version: u64,
    nodes: std::collections::BTreeMap<NodeId, Node>,
    partitions: std::collections::BTreeMap<PartitionId, Partition>,
    catalog: weft_protocol::Catalog,
    expired: BTreeSet<ClientId>,
}

impl Mirror {
    fn follow(&mut self, state: &ClusterState) {
        let changes = state.changes_since(self.version).unwrap();
        let Changes { version, is_whole, nodes, forgotten, partitions, catalog, .. } = changes;
        if is_whole {
            self.nodes.clear();
            self.partitions.clear();
        }
        self.version = version;
        self.nodes.extend(nodes.into_iter().map(|node| (node.id, node.clone())));
        for node in forgotten {
            self.nodes.remove(&node);
        }
        self.partitions.extend(partitions.into_iter().map(|(id, is)| (id, is.clone())));
        if let Some(catalog) = catalog {
            self.catalog = catalog.clone();
        }
        self.expired.extend(changes.expired);
        assert!(state.nodes().all(|node| alike(&self.nodes[&node.id], node)));
        assert_eq!(state.nodes().len(), self.nodes.len());
        assert!(state.partitions().all(|(id, partition)| self.partitions[&id] == *partition));
        assert_eq!(self.catalog, *state.catalog());
        assert!(state.clients().all(|(client, _)| !self.expired.contains(&client)));
        assert!(state.changes_since(version + 1).is_none());
    }
}

/// But for what nobody has to learn.
fn alike(one: &Node, other: &Node) -> bool {
    Node { is_settled: other.is_settled, ..one.clone() } == *other
}

#[test]
#[ignore = "takes minutes: for changes of the planner"]
fn whatever_happens_many_times_over() {
    for seed in SEEDS..20 * SEEDS {
        let _told = Told(seed);
        run(seed);
    }
}
