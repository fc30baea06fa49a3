//! A cluster as the coordinator could meet it: processes that die and come back with what their disks have, nodes that cannot reach one another,
//! commands that come late or twice. It knows which replicas really have everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weft_protocol::{Configuration, Durability, Member, PartitionId};
use weft_transport::{Incarnation, NodeId, Time};

use super::random::Random;
use super::{CLUSTER, WIRE_VERSION, description, found};
use crate::coordinator::{
    Applied, ClusterState, Command, Join, Liveness, NodeDescription, Outcome, Planner,
    PlannerSettings, Proposal, ProposalId,
};
use crate::handler::{Report, Told};

/// A process and its disk.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) zone: String,
    pub(super) is_running: bool,
    /// In which life it acts.
    pub(super) life: Option<Incarnation>,
    /// The life that its disk is of.
    disk: Option<Incarnation>,
    /// What it asks for until it is answered: the life that it begins is on its disk.
    joining: Option<Join>,
    /// What its disk has all of.
    on_disk: BTreeSet<PartitionId>,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) state: ClusterState,
    pub(super) liveness: Liveness,
    pub(super) planner: Planner,
    pub(super) random: Random,
    pub(super) processes: BTreeMap<NodeId, Process>,
    /// Pairs that cannot reach one another, the smaller id first.
    pub(super) cuts: BTreeSet<(NodeId, NodeId)>,
    /// Nodes that join without a disk for objects.
    pub(super) diskless: BTreeSet<NodeId>,
    /// Nodes that the coordinator does not hear.
    pub(super) unheard: BTreeSet<NodeId>,
    /// Who has all that was acknowledged.
    complete: BTreeMap<PartitionId, BTreeSet<Member>>,
    /// Learners whose acknowledgement their primary waits for.
    counted: BTreeSet<(PartitionId, Member, Member)>,
    pub(super) last_commands: Vec<Command>,
    /// All that was ever applied.
    pub(super) log: Vec<Command>,
    /// How often each configuration was changed.
    pub(super) changes: BTreeMap<PartitionId, usize>,
    pub(super) lost: usize,
}

impl World {
    pub(super) fn new(seed: u64, partitions: u16, options: weft_protocol::TableOptions) -> Self {
        let settings = PlannerSettings::default();
        let mut world = Self {
            now: Time::from_nanos(1),
            state: ClusterState::default(),
            liveness: Liveness::new(settings.down_after),
            planner: Planner::new(settings),
            random: Random(seed),
            processes: BTreeMap::new(),
            cuts: BTreeSet::new(),
            diskless: BTreeSet::new(),
            unheard: BTreeSet::new(),
            complete: BTreeMap::new(),
            counted: BTreeSet::new(),
            last_commands: Vec::new(),
            log: Vec::new(),
            changes: BTreeMap::new(),
            lost: 0,
        };
        world.apply(&found(options, partitions)).unwrap();
        world
    }

    /// The cluster is founded with so many nodes.
    pub(super) fn expect_nodes(&mut self, expected_nodes: usize) {
        let settings = *self.planner.settings();
        self.planner = Planner::new(PlannerSettings { expected_nodes, ..settings });
    }

    pub(super) fn start(&mut self, node: u64, zone: &str) {
        let fresh = Process {
            zone: zone.to_owned(),
            is_running: true,
            life: None,
            disk: None,
            joining: None,
            on_disk: BTreeSet::new(),
        };
        self.processes.entry(NodeId(node)).or_insert(fresh).is_running = true;
    }

    /// Ends a process, in good order or not: what its disk has then depends on the class.
    pub(super) fn stop(&mut self, node: NodeId, in_order: bool) {
        let Some(process) = self.processes.get_mut(&node) else { return };
        process.is_running = false;
        process.joining = None;
        let Some(life) = process.life.take() else { return };
        process.on_disk.clear();
        let member = Member { node, incarnation: life };
        for (id, partition) in self.state.partitions() {
            let is_kept = match partition.class.durability {
                Durability::Memory => false,
                Durability::Disk => in_order,
                Durability::Fsync => true,
            };
            // It may also say so of what it once had all of, and has fallen behind since.
            if is_kept && (partition.involves(node) || self.random.one_in(4)) {
                process.on_disk.insert(id);
            }
            let has_all = self.complete.get(&id).is_some_and(|all| all.contains(&member));
            if !is_kept && has_all {
                // Memory is gone.
                self.complete.entry(id).or_default().remove(&member);
            }
        }
    }

    pub(super) fn wipe(&mut self, node: NodeId) {
        self.stop(node, false);
        if let Some(process) = self.processes.get_mut(&node) {
            (process.disk, process.on_disk) = (None, BTreeSet::new());
            for all in self.complete.values_mut() {
                all.retain(|member| member.node != node);
            }
        }
    }

    pub(super) fn lead_anew(&mut self) {
        let settings = *self.planner.settings();
        self.liveness = Liveness::new(settings.down_after);
        self.planner = Planner::new(settings);
    }

    fn is_acting(&self, member: Member) -> bool {
        let process = self.processes.get(&member.node);
        process
            .is_some_and(|process| process.is_running && process.life == Some(member.incarnation))
    }

    fn can_reach(&self, one: Member, other: Member) -> bool {
        let pair = (one.node.min(other.node), one.node.max(other.node));
        self.is_acting(one) && self.is_acting(other) && !self.cuts.contains(&pair)
    }

    /// Time goes on: nodes join, are heard, write and fill; the leader plans, and what it proposes is applied.
    pub(super) fn step(&mut self, by: Duration) -> Vec<Command> {
        self.now = self.now + by;
        self.join_all();
        for (node, process) in &self.processes {
            if let Some(incarnation) = process.life.filter(|_| !self.unheard.contains(node)) {
                let member = Member { node: *node, incarnation };
                self.liveness.heard(member, self.state.version(), self.now);
            }
        }
        self.serve();
        self.liveness.prune(&self.state, Duration::from_secs(10), self.now);
        let plan = self.planner.plan(&self.state, &self.liveness, self.now);
        for command in &plan.commands {
            self.apply(command).unwrap_or_else(|reason| panic!("{command:?}: {reason}"));
        }
        self.last_commands.clone_from(&plan.commands);
        plan.commands
    }

    fn join_all(&mut self) {
        let joining: Vec<NodeId> = self
            .processes
            .iter()
            .filter(|(node, process)| {
                process.is_running && process.life.is_none() && !self.unheard.contains(node)
            })
            .map(|(node, _)| *node)
            .collect();
        // After the clock was set back, a number that is on the disk may be higher.
        let by_clock = self.now.nanos() / 1_000_000;
        for node in joining {
            let process = self.processes.get_mut(&node).unwrap();
            let (disk, zone) = (process.disk, process.zone.clone());
            let complete = process.on_disk.iter().copied().collect();
            let is_diskless = self.diskless.contains(&node);
            let description = NodeDescription { is_diskless, ..description(node.0, &zone) };
            let incarnation = Incarnation(by_clock.max(disk.map_or(0, |disk| disk.0 + 1)));
            let join = process.joining.get_or_insert_with(|| Join {
                cluster: disk.map(|_| CLUSTER),
                node,
                incarnation,
                last_incarnation: disk,
                complete,
                wire_version: WIRE_VERSION,
                description,
            });
            let join = join.clone();
            process.disk = Some(join.incarnation);
            // The question may be lost, or the answer.
            if self.random.one_in(8) {
                continue;
            }
            let joined = self.apply(&Command::Join(join.clone()));
            if joined.is_err() || self.random.one_in(8) {
                continue;
            }
            let process = self.processes.get_mut(&node).unwrap();
            (process.life, process.joining) = (Some(join.incarnation), None);
        }
    }

    /// What primaries do: they write where everybody answers, tell whom they cannot reach, and fill learners.
    fn serve(&mut self) {
        let partitions: Vec<(PartitionId, Configuration)> = self
            .state
            .partitions()
            .map(|(id, partition)| (id, partition.configuration.clone()))
            .collect();
        for (id, configuration) in partitions {
            let Some(primary) = configuration.primary.filter(|primary| self.is_acting(*primary))
            else {
                continue;
            };
            let is_heard = !self.unheard.contains(&primary.node);
            let others = configuration.members.iter().chain(&configuration.learners);
            for &other in others.filter(|other| **other != primary) {
                if !self.can_reach(primary, other) && is_heard {
                    let report = Report::Unreachable;
                    let (partition, epoch) = (id, configuration.epoch);
                    let told = Told { partition, member: other, report, epoch };
                    self.liveness.told(primary, &told, self.now);
                }
            }
            for &learner in &configuration.learners {
                let key = (id, primary, learner);
                let is_counted = self.counted.contains(&key);
                if self.can_reach(primary, learner) && (is_counted || self.random.one_in(4)) {
                    if !is_counted {
                        self.counted.insert(key);
                        self.complete.entry(id).or_default().insert(learner);
                    }
                    if is_heard {
                        let report = Report::CaughtUp;
                        let (partition, epoch) = (id, configuration.epoch);
                        let told = Told { partition, member: learner, report, epoch };
                        self.liveness.told(primary, &told, self.now);
                    }
                }
            }
            let is_counted = |learner: &&Member| self.counted.contains(&(id, primary, **learner));
            let counted = configuration.learners.iter().filter(is_counted);
            let needed: BTreeSet<Member> =
                configuration.members.iter().chain(counted).copied().collect();
            let all_answer =
                needed.iter().all(|other| *other == primary || self.can_reach(primary, *other));
            if all_answer && configuration.takes_writes() {
                // Whoever else had all has not this write.
                self.complete.insert(id, needed);
            }
        }
    }

    /// Applies a command, and looks at what it led to.
    pub(super) fn apply(&mut self, command: &Command) -> Applied {
        let before = self.state.clone();
        self.log.push(command.clone());
        let id = ProposalId::NONE;
        let applied = self.state.apply(&Proposal { id, command: command.clone() });
        if applied.is_err() {
            assert_eq!(self.state, before, "what is refused changes nothing: {command:?}");
            return applied;
        }
        if let (Command::Join(join), Ok(Outcome::Joined { incarnation, .. })) = (command, &applied)
        {
            assert_eq!(*incarnation, join.incarnation);
            if before.is_current(Member { node: join.node, incarnation: *incarnation }) {
                assert_eq!(self.state, before, "it is answered again, and that is all");
            } else {
                self.reborn(join);
            }
        }
        for (id, partition) in self.state.partitions() {
            let was = before.partition(id).map(|partition| &partition.configuration);
            let is = &partition.configuration;
            if let Command::Place { .. } | Command::AcceptLoss { .. } = command
                && was != Some(is)
            {
                let members = is.members.iter().copied().collect();
                self.complete.insert(id, members);
            }
            if was != Some(is) {
                *self.changes.entry(id).or_default() += 1;
                self.lost += usize::from(is.is_lost);
            }
        }
        // A primary counts on a learner until a configuration says that it is none.
        let state = &self.state;
        self.counted.retain(|(id, primary, learner)| {
            let is = state.partition(*id).map(|partition| &partition.configuration);
            is.is_some_and(|is| is.primary == Some(*primary) && is.learners.contains(learner))
        });
        self.check(&before, command);
        applied
    }

    /// What a node had all of, it has in its next life too, if that is on its disk.
    fn reborn(&mut self, join: &Join) {
        let member = Member { node: join.node, incarnation: join.incarnation };
        let process = &self.processes[&join.node];
        for (id, all) in &mut self.complete {
            let had_all = all.iter().any(|other| other.node == join.node);
            all.retain(|other| other.node != join.node);
            if had_all && process.on_disk.contains(id) {
                all.insert(member);
            }
        }
    }

    /// What has to hold after each command.
    fn check(&self, before: &ClusterState, command: &Command) {
        assert!(self.state.version() >= before.version());
        for (id, partition) in self.state.partitions() {
            let is = &partition.configuration;
            let context = || format!("{id} after {command:?}: {is:?}");
            let all: Vec<Member> = is.members.iter().chain(&is.learners).copied().collect();
            let nodes: BTreeSet<NodeId> = all.iter().map(|member| member.node).collect();
            assert_eq!(nodes.len(), all.len(), "a node is there once: {}", context());
            assert!(all.iter().all(|member| self.state.is_current(*member)), "{}", context());
            assert!(is.primary.is_none_or(|primary| is.has_member(primary)), "{}", context());
            assert_eq!(is.members.is_empty(), is.is_lost, "{}", context());
            for member in &is.members {
                let has_all = self.complete[&id].contains(member) || !self.is_acting(*member);
                assert!(has_all, "{member:?} has not all: {}", context());
            }
            let Some(was) = before.partition(id).map(|partition| &partition.configuration) else {
                assert_eq!(is.epoch, 1);
                continue;
            };
            self.check_change(was, is, partition.class.min_in_sync(), command);
        }
    }

    fn check_change(&self, was: &Configuration, is: &Configuration, asked: u8, command: &Command) {
        let context = || format!("{command:?}: {was:?} became {is:?}");
        if was == is {
            return;
        }
        assert_eq!(is.epoch, was.epoch + 1, "{}", context());
        let is_anew = matches!(command, Command::AcceptLoss { .. });
        for member in is.members.iter().filter(|member| !was.has_member(**member)) {
            let is_allowed = match command {
                Command::PromoteLearner { learner, .. } => {
                    learner == member && was.learners.contains(member)
                }
                Command::Join(join) => {
                    member.node == join.node
                        && !join.complete.is_empty()
                        && was.members.iter().any(|other| other.node == join.node)
                }
                _ => is_anew,
            };
            assert!(is_allowed, "{}", context());
        }
        let may_lose = matches!(command, Command::Join(_) | Command::DeclareLost { .. });
        assert!(!is.members.is_empty() || may_lose, "{}", context());
        let may_lower = matches!(command, Command::Leave { .. }) || is_anew;
        assert!(is.min_in_sync >= was.min_in_sync || may_lower, "{}", context());
        if matches!(command, Command::PromoteLearner { .. }) {
            let count = is.members.len().min(self.state.holder_count());
            let is_reached = count >= usize::from(asked);
            assert!(!is_reached || is.min_in_sync == asked, "{}", context());
        }
        if let Some(primary) = is.primary.filter(|primary| was.primary != Some(*primary)) {
            let node = self.state.node(primary.node).unwrap();
            assert!(node.is_up && (node.is_settled || is_anew), "{}", context());
        }
    }

    /// Everything works again. Steps until nothing was proposed for a while, and fails if that takes longer than `within`.
    pub(super) fn settle(&mut self, within: Duration) {
        let end = self.now + within;
        let mut quiet = 0;
        // For longer than a minute, which is how long a partition is left alone that was changed too often.
        while quiet < 160 {
            assert!(self.now < end, "still proposes {:?}", self.last_commands);
            quiet = if self.step(Duration::from_millis(400)).is_empty() { quiet + 1 } else { 0 };
        }
    }

    /// How many partitions each node has, and of how many it is the primary.
    pub(super) fn loads(&self) -> BTreeMap<NodeId, (i64, i64)> {
        let holders = self.state.nodes().filter(|node| node.is_holder());
        let mut loads: BTreeMap<_, _> = holders.map(|node| (node.id, (0, 0))).collect();
        for (_, partition) in self.state.partitions() {
            for member in &partition.configuration.members {
                loads.entry(member.node).or_default().0 += 1;
            }
            if let Some(primary) = partition.configuration.primary {
                loads.entry(primary.node).or_default().1 += 1;
            }
        }
        loads
    }
}
