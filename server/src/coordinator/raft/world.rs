//! A whole coordinator in one thread, from one seed: members over disks that forget, a network that loses, and somebody who breaks things.
//!
//! It links the production core and holds no protocol of its own: it hands writes to disks, messages to members and time to everybody, and
//! compares what they say. What it checks is in `checker`, what it breaks in `nemesis`, what is asked of the members in `clients` and
//! `operator`.

mod checker;
mod clients;
mod nemesis;
mod network;
mod operator;
mod random;
mod scenarios;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use weft_transport::{NodeId, Time};

use self::checker::{Checker, Model};
use self::clients::Clients;
use self::nemesis::Nemesis;
use self::network::Network;
use self::operator::Operator;
use self::random::Random;
use super::planted::{Planted, PlantedBug};
use super::{
    Batch, ClusterId, Effects, Failure, Identity, LogError, MemoryLog, RaftId, RaftLog, RaftNode,
    Settings, StateMachine, Write, begin_life,
};

const CLUSTER: ClusterId = ClusterId(0x5eed);
/// While things are broken.
const TROUBLE: Duration = Duration::from_secs(10);
/// After everything was mended, for all to agree again.
const CALM: Duration = Duration::from_secs(9);
/// Of that, the end, in which nobody asks for anything.
const SILENCE: Duration = Duration::from_secs(2);

/// What a run is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) bug: Option<PlantedBug>,
}

/// What a run came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) violations: Vec<String>,
    /// How often each thing happened: a fault that never happens was not tried.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// Follows from all that happened: the same for the same seed.
    pub(super) digest: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick { node: usize, boot: u64 },
    Deliver { node: usize, bytes: Vec<u8> },
    DiskWrites { node: usize, boot: u64 },
    DiskWrote { node: usize, boot: u64, number: u64 },
    Boot { node: usize },
    Resume { node: usize },
    Client { client: usize },
    Operate,
    Break,
}

struct Node {
    disk: MemoryLog,
    raft: Option<RaftNode<Model>>,
    /// Counts starts: events of an earlier one are void.
    boot: u64,
    writes: VecDeque<Write>,
    paused_until: u64,
    stalled_until: u64,
    /// Whether there is a log on the disk.
    has_log: bool,
    identity: Option<Identity>,
}

struct World {
    plan: Plan,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Makes events of one moment come in the order in which they were made.
    order: u64,
    nodes: Vec<Node>,
    network: Network,
    random: Random,
    checker: Rc<RefCell<Checker>>,
    clients: Clients,
    operator: Operator,
    nemesis: Nemesis,
}

/// Runs a plan to its end.
pub(super) fn run(plan: Plan) -> Report {
    let mut world = World::new(plan);
    world.go();
    world.finish()
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let checker = Rc::new(RefCell::new(Checker::default()));
        let members: Vec<_> = (0..plan.nodes).map(|n| (RaftId(n as u64 + 1), node_id(n))).collect();
        // Some clusters begin with one member that admits the others.
        let founders = if plan.nodes > 1 && random.chance(0.2) { 1 } else { plan.nodes };
        let founding = &members[..founders];
        let nodes = (0..plan.nodes).map(|n| {
            let mut disk = MemoryLog::new(&format!("disk {n}"));
            let identity =
                Identity { cluster: CLUSTER, node: node_id(n), raft: RaftId(n as u64 + 1) };
            let has_log = n < founders;
            if has_log {
                let state = Model::new(Rc::clone(&checker)).snapshot();
                disk.create(&Batch::founding(identity, founding, state)).unwrap();
            }
            let identity = has_log.then_some(identity);
            let (writes, raft) = (VecDeque::new(), None);
            Node {
                disk,
                raft,
                boot: 0,
                writes,
                paused_until: 0,
                stalled_until: 0,
                has_log,
                identity,
            }
        });
        World {
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            nodes: nodes.collect(),
            network: Network::new(plan.nodes, &mut random),
            clients: Clients::new(),
            operator: Operator::default(),
            nemesis: Nemesis::default(),
            random,
            checker,
            plan,
        }
    }

    fn go(&mut self) {
        for node in 0..self.nodes.len() {
            self.at(0, Event::Boot { node });
        }
        for client in 0..clients::CLIENTS {
            self.after(Duration::from_millis(300 * client as u64), Event::Client { client });
        }
        self.after(Duration::from_millis(500), Event::Operate);
        self.after(Duration::from_millis(1500), Event::Break);
        let end_of_trouble = nanos(TROUBLE);
        let end = nanos(TROUBLE + CALM);
        let mut is_calm = false;
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > end || !self.checker.borrow().violations.is_empty() {
                break;
            }
            if at >= end_of_trouble && !is_calm {
                is_calm = true;
                self.mend();
            }
            self.now = self.now.max(at);
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick { node, boot } => self.tick(node, boot),
            Event::Deliver { node, bytes } => self.deliver(node, bytes),
            Event::DiskWrites { node, boot } => self.disk_writes(node, boot),
            Event::DiskWrote { node, boot, number } => {
                let now = self.time();
                self.with(node, boot, |raft| raft.on_written(now, number));
            }
            Event::Boot { node } => self.boot(node),
            Event::Resume { node } => self.resume(node),
            Event::Client { client } => self.client(client),
            Event::Operate => self.operate(),
            Event::Break => self.do_damage(),
        }
    }

    fn tick(&mut self, node: usize, boot: u64) {
        if self.nodes[node].boot != boot || self.nodes[node].raft.is_none() {
            return;
        }
        let until = self.nodes[node].paused_until;
        if until > self.now {
            return self.at(until, Event::Tick { node, boot });
        }
        let now = self.time();
        self.with(node, boot, |raft| raft.tick(now));
        // A real timer is late now and then.
        let late = if self.random.chance(0.02) { self.random.below(40_000_000) } else { 0 };
        let next = self.nodes[node].raft.as_ref().map(|raft| raft.next_tick().nanos() + late);
        if let Some(next) = next {
            self.at(next.max(self.now + 1), Event::Tick { node, boot });
        }
    }

    fn deliver(&mut self, node: usize, bytes: Vec<u8>) {
        let until = self.nodes[node].paused_until;
        if until > self.now {
            return self.at(until, Event::Deliver { node, bytes });
        }
        let (now, boot) = (self.time(), self.nodes[node].boot);
        let mut dropped = None;
        self.with(node, boot, |raft| dropped = raft.step(now, &bytes).err());
        if let Some(dropped) = dropped {
            self.checker.borrow_mut().note_dropped(node, &dropped);
        }
    }

    /// The oldest write reaches the disk.
    fn disk_writes(&mut self, node: usize, boot: u64) {
        let state = &mut self.nodes[node];
        if state.boot != boot || state.raft.is_none() {
            return;
        }
        if state.stalled_until > self.now {
            let until = state.stalled_until;
            return self.at(until, Event::DiskWrites { node, boot });
        }
        let Some(write) = state.writes.pop_front() else { return };
        let written = state.disk.write(&write.batch);
        let is_snapshot = write.batch.snapshot.is_some();
        if written.is_ok() && self.nemesis.strikes_at_write(&mut self.random, is_snapshot) {
            return self.crash_at_write(node);
        }
        let word = self.random.below(300_000);
        match written {
            Ok(()) => {
                self.at(self.now + word, Event::DiskWrote { node, boot, number: write.number })
            }
            Err(error) => self.disk_failed(node, boot, error),
        }
    }

    fn disk_failed(&mut self, node: usize, boot: u64, error: LogError) {
        self.count("disk failed");
        self.nodes[node].writes.clear();
        self.with(node, boot, |raft| raft.on_write_failed(error));
        let rest = self.random.between(50, 1500);
        self.power_off(node);
        self.after(Duration::from_millis(rest), Event::Boot { node });
    }

    fn boot(&mut self, node: usize) {
        let now = self.time();
        let state = &mut self.nodes[node];
        if state.raft.is_some() || !state.has_log {
            return;
        }
        state.boot += 1;
        state.writes.clear();
        let boot = state.boot;
        let seed = self.plan.seed ^ (node as u64 + 1) << 40;
        let settings = Settings {
            seed,
            snapshot_entries: 24,
            kept_entries: 8,
            planted: Planted { bug: self.plan.bug },
            ..Settings::default()
        };
        let model = Model::new(Rc::clone(&self.checker));
        let started = begin_life(&mut state.disk, node_id(node), Some(CLUSTER))
            .map_err(Failure::Disk)
            .and_then(|recovered| RaftNode::new(settings, recovered, model, now));
        match started {
            Ok(raft) => {
                state.identity = Some(raft.identity());
                state.raft = Some(raft);
                self.with(node, boot, |_| ());
                self.after(Duration::from_millis(50), Event::Tick { node, boot });
            }
            Err(Failure::Disk(error @ LogError::Write { .. })) => {
                self.disk_failed(node, boot, error)
            }
            Err(error) => self.violation(format!("node {node} does not start: {error}")),
        }
    }

    /// Something happens to a member, and all that follows from it.
    fn with(&mut self, node: usize, boot: u64, event: impl FnOnce(&mut RaftNode<Model>)) {
        let now = self.time();
        let state = &mut self.nodes[node];
        let Some(raft) = state.raft.as_mut().filter(|_| state.boot == boot) else { return };
        event(raft);
        let effects = raft.poll(now);
        self.follow(node, boot, effects);
    }

    fn follow(&mut self, node: usize, boot: u64, effects: Effects) {
        if let Some(leadership) = effects.leadership {
            let own = self.nodes[node].identity.map(|identity| identity.raft);
            self.checker.borrow_mut().note_leadership(own, leadership);
        }
        for write in effects.writes {
            let latency = self.random.between(50, 3000) * 1000;
            let state = &mut self.nodes[node];
            state.writes.push_back(write);
            self.at(self.now + latency, Event::DiskWrites { node, boot });
        }
        for message in effects.messages {
            self.send(node, message);
        }
        for decided in effects.decided {
            self.decided(node, decided);
        }
        for read in effects.reads {
            self.read_answered(node, read);
        }
    }

    /// The process ends: what was written stays, synced or not.
    fn kill(&mut self, node: usize) {
        self.stop(node);
        self.nodes[node].disk.end_process();
    }

    /// The power goes: some of what was not synced goes with it.
    fn power_off(&mut self, node: usize) {
        self.stop(node);
        let pending = self.nodes[node].disk.pending();
        let kept = self.random.below(pending as u64 + 1) as usize;
        if kept < pending {
            self.count("writes lost");
        }
        self.nodes[node].disk.lose_power(kept);
    }

    fn stop(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.raft = None;
        state.writes.clear();
        (state.paused_until, state.stalled_until) = (0, 0);
        self.clients.forget_node(node);
        self.operator.forget_node(node);
    }

    fn finish(mut self) -> Report {
        if self.checker.borrow().violations.is_empty() {
            self.check_end();
        }
        let checker = self.checker.borrow();
        Report {
            violations: checker.violations.clone(),
            counts: checker.counts.clone(),
            digest: checker.digest(self.order),
        }
    }

    /// After a time of calm everybody has what was ever acknowledged, and leads or follows.
    fn check_end(&mut self) {
        let leader = (0..self.nodes.len()).find(|node| self.leads(*node));
        let Some(leader) = leader else {
            return self.violation("nobody leads after the calm".to_owned());
        };
        let reference =
            self.nodes[leader].raft.as_ref().map(|raft| (raft.applied(), raft.machine().digest()));
        for node in 0..self.nodes.len() {
            let found = self.nodes[node]
                .raft
                .as_ref()
                .map(|raft| (raft.applied(), raft.machine().digest()));
            if found != reference {
                self.violation(format!("node {node} is at {found:?}, the leader at {reference:?}"));
            }
            let voters = self.nodes[leader].raft.as_ref().map_or(0, |raft| {
                raft.members()
                    .iter()
                    .filter(|member| member.role == super::MemberRole::Voter)
                    .count()
            });
            if voters != self.nodes.len() {
                self.violation(format!(
                    "{voters} voters after the calm, of {} nodes",
                    self.nodes.len()
                ));
            }
        }
        let state = self.nodes[leader].raft.as_ref().map(|raft| raft.machine().positions().clone());
        self.checker.borrow_mut().check_ledger(&state.unwrap_or_default());
        if self.clients.done_since_calm() < 5 {
            self.violation("clients got nothing done after the calm".to_owned());
        }
    }

    fn leads(&self, node: usize) -> bool {
        self.nodes[node].raft.as_ref().is_some_and(|raft| raft.leadership().is_own)
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn after(&mut self, duration: Duration, event: Event) {
        self.at(self.now + nanos(duration), event);
    }

    fn count(&self, what: &'static str) {
        self.checker.borrow_mut().count(what);
    }

    fn violation(&self, what: String) {
        self.checker.borrow_mut().violations.push(what);
    }
}

fn node_id(node: usize) -> NodeId {
    NodeId(node as u64 + 100)
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
