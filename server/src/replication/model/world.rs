//! Whole clusters in one thread, from one seed: nodes, their network, a coordinator, clients, and what goes wrong.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weft_protocol::Version;
use weft_protocol::replication::PeerMessage;
use weft_protocol::{Configuration, Member};

use super::super::{LeaseSettings, Leases, Settings};
use super::Bug;
use super::checker::{Checker, Outcome};
use super::clients::Clients;
use super::coordinator::{Coordinator, index};
use super::network::{Agenda, Event, MS, Network};
use super::node::{Disk, LocalClock, Node};
use super::random::Random;
use super::situations::{Situation, Situations};

/// A violation, or that the world has not come to rest.
pub(super) type Check = Result<(), String>;

pub(super) struct World {
    pub(super) random: Random,
    pub(super) agenda: Agenda,
    pub(super) network: Network,
    pub(super) coordinator: Coordinator,
    pub(super) nodes: Vec<Node>,
    pub(super) disks: Vec<Vec<Option<Disk>>>,
    pub(super) clients: Clients,
    pub(super) checker: Checker,
    pub(super) situations: Situations,
    pub(super) settings: Settings,
    pub(super) lease: LeaseSettings,
    pub(super) bug: Bug,
    pub(super) partitions: usize,
    /// By partition: the epoch since which the newest primary has served.
    pub(super) served_since: Vec<u32>,
    pub(super) chaos_until: u64,
    pub(super) is_healed: bool,
    pub(super) is_over: bool,
    pub(super) events: u64,
    pub(super) sync_max: u64,
    pub(super) fault_every: u64,
    pub(super) trace: bool,
}

impl World {
    pub(super) fn new(seed: u64, bug: Bug, trace: bool) -> Self {
        let mut random = Random::new(seed);
        let count = random.range(3, 5) as usize;
        let partitions = random.range(1, 2) as usize;
        let lease_ms = [100, 200, 400][random.index(3)];
        let heartbeat = lease_ms / 5;
        let lease =
            LeaseSettings { duration: Duration::from_millis(lease_ms), ..LeaseSettings::default() };
        let is_synced = random.one_in(3);
        let settings = Settings {
            is_synced,
            is_logged: is_synced,
            resend_after: Duration::from_millis(random.range(30, 100)),
            unreachable_after: Duration::from_millis(random.range(lease_ms, 2 * lease_ms)),
            tail_bytes_max: [700, 1 << 14, 1 << 20][random.index(3)],
            append_bytes: random.range(60, 400) as usize,
            early_bytes_max: [100, 4000][random.index(2)],
            pieces_ahead_max: random.range(1, 3) as usize,
            planted: bug.planted(),
        };
        let coordinator = Coordinator::new(count, partitions, &mut random, lease_ms * MS);
        let network = Network::new(count, &mut random);
        let nodes = (0..count).map(|index| Node {
            index,
            life: 1,
            is_up: false,
            is_paused: false,
            held: Vec::new(),
            clock: LocalClock {
                offset: random.range(0, 1 << 40),
                ppm: random.range(0, 20_000) as i64 - 10_000,
            },
            leases: Arc::new(Leases::new(lease, weft_transport::Time::ZERO, false)),
            hosts: Vec::new(),
            map_version: 0,
            tick_every: heartbeat * MS,
        });
        let nodes = nodes.collect();
        let clients = Clients::new(random.range(2, 4) as usize);
        let chaos_until = random.range(1500, 4000) * MS;
        let fault_every = random.range(100, 600) * MS;
        let mut world = Self {
            random,
            agenda: Agenda::default(),
            network,
            coordinator,
            nodes,
            disks: (0..count).map(|_| Vec::new()).collect(),
            clients,
            checker: Checker::default(),
            situations: Situations::default(),
            settings,
            lease,
            bug,
            partitions,
            served_since: vec![0; partitions],
            chaos_until,
            is_healed: false,
            is_over: false,
            events: 0,
            sync_max: 0,
            fault_every,
            trace,
        };
        world.sync_max = [MS, 5 * MS, 60 * MS][world.random.index(3)];
        world.begin();
        world
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() {
            let empty = (0..self.partitions).map(|_| None).collect();
            self.nodes[node].start(0, &self.settings, self.lease, empty, self.bug);
            self.tick_soon(node);
        }
        self.tell_map();
        self.agenda.after(30 * MS, Event::Plan);
        let delay = self.fault_every;
        self.agenda.after(delay, Event::Fault);
        self.agenda.after(self.chaos_until, Event::HealAll);
        for client in 0..self.clients.count() {
            self.agenda.after(MS * client as u64, Event::ClientNext { client });
        }
    }

    pub(super) fn tick_soon(&mut self, node: usize) {
        let (life, every) = (self.nodes[node].life, self.nodes[node].tick_every);
        let delay = self.random.range(0, every);
        self.agenda.after(delay, Event::Tick { node, life });
    }

    /// Runs until the cluster has come to rest.
    pub(super) fn run(&mut self) -> Check {
        while !self.is_over {
            let Some(event) = self.agenda.next() else { return Err("nothing happens".into()) };
            self.events += 1;
            if self.agenda.now > self.chaos_until + 20_000 * MS {
                return Err(format!("no progress after all faults were healed: {}", self.state()));
            }
            self.happen(event)?;
        }
        self.check_end()
    }

    fn happen(&mut self, event: Event) -> Check {
        let of_node = match &event {
            Event::Message { to, .. } => Some((index(*to), to.incarnation.0)),
            Event::Tick { node, life }
            | Event::Map { node, life, .. }
            | Event::Synced { node, life, .. }
            | Event::Connected { node, life, .. }
            | Event::Disconnected { node, life, .. } => Some((*node, *life)),
            Event::Request { node, .. } => Some((*node, self.nodes[*node].life)),
            _ => None,
        };
        let Some((node, life)) = of_node else { return self.happen_outside(event) };
        if !self.nodes[node].is_up || self.nodes[node].life != life {
            return Ok(());
        }
        if self.nodes[node].is_paused {
            self.nodes[node].held.push(event);
            return Ok(());
        }
        self.happen_at(node, event)
    }

    pub(super) fn happen_at(&mut self, node: usize, event: Event) -> Check {
        match event {
            Event::Message { from, to, connection, bytes } => {
                let is_lost = self.network.connection(index(from), index(to)) != connection
                    || self.network.is_cut(index(from), index(to));
                if is_lost { Ok(()) } else { self.receive(node, from, &bytes) }
            }
            Event::Tick { life, .. } => {
                let every = self.nodes[node].tick_every;
                self.agenda.after(every, Event::Tick { node, life });
                self.tick(node)
            }
            Event::Map { version, .. } => self.learn_map(node, version),
            Event::Synced { partition, sequence, .. } => self.synced(node, partition, sequence),
            Event::Connected { peer, .. } => {
                let now = self.local(node);
                let id = weft_transport::NodeId(peer as u64);
                for host in &mut self.nodes[node].hosts {
                    host.replica.connected(id, now);
                }
                self.drive_all(node)
            }
            Event::Disconnected { peer, .. } => {
                let id = weft_transport::NodeId(peer as u64);
                for host in &mut self.nodes[node].hosts {
                    host.replica.disconnected(id);
                }
                Ok(())
            }
            Event::Request { client, operation, partition, key, action, .. } => {
                self.request(node, client, operation, partition, key, action)
            }
            _ => Ok(()),
        }
    }

    fn happen_outside(&mut self, event: Event) -> Check {
        match event {
            Event::ClientNext { client } => self.client_next(client),
            Event::ClientTimeout { client, operation } => {
                return self.client_done(client, operation, Outcome::Unknown);
            }
            Event::Reply { client, operation, outcome } => {
                return self.client_done(client, operation, outcome);
            }
            Event::Heartbeat { node, life, map_version } => {
                let now = self.agenda.now;
                self.coordinator.heard(node, life, now);
                if map_version < self.coordinator.version() {
                    self.tell_map_to(node);
                }
            }
            Event::Plan => {
                self.agenda.after(40 * MS, Event::Plan);
                for partition in 0..self.partitions {
                    let now = self.agenda.now;
                    if let Some(next) = self.coordinator.plan(partition, now, &mut self.random) {
                        let delay = self.random.range(MS, 40 * MS);
                        let (epoch, configuration) = (next.epoch, next);
                        self.agenda.after(delay, Event::Commit { partition, epoch, configuration });
                    }
                }
            }
            Event::Commit { partition, epoch, configuration } => {
                self.commit(partition, epoch, configuration);
            }
            Event::Unreachable { partition, epoch, member } => {
                // Nobody else could be given what a learner was to have, so one that does not answer is waited for.
                let is_learner =
                    self.coordinator.configurations[partition].learners.contains(&member);
                if is_learner {
                    self.situations.note(Situation::LearnerUnreachable);
                } else if let Some(next) = self.coordinator.without(partition, epoch, member) {
                    self.situations.note(Situation::MemberUnreachable);
                    self.commit(partition, epoch, next);
                }
            }
            Event::GivenUp { partition, epoch, learner } => {
                if let Some(next) = self.coordinator.without(partition, epoch, learner) {
                    self.situations.note(Situation::LearnerRemoved);
                    self.commit(partition, epoch, next);
                }
            }
            Event::CaughtUp { partition, epoch, learner } => {
                if let Some(next) = self.coordinator.with(partition, epoch, learner) {
                    self.situations.note(Situation::LearnerPromoted);
                    self.commit(partition, epoch, next);
                } else {
                    self.situations.note(Situation::LearnerPromotionTooLate);
                }
            }
            Event::Fault => self.fault(),
            Event::Crash { node } if !self.is_healed => {
                let down_for = self.random.range(MS, 30 * MS);
                self.crash(node, down_for);
            }
            Event::Restart { node } => self.restart(node),
            Event::Resume { node } => return self.resume(node),
            Event::Heal { first, second } => self.heal(first, second),
            Event::HealAll => return self.heal_all(),
            Event::Converged => self.look_whether_converged(),
            _ => {}
        }
        Ok(())
    }

    fn commit(&mut self, partition: usize, epoch: u32, next: Configuration) {
        let before = self.coordinator.configurations[partition].clone();
        if !self.coordinator.commit(partition, epoch, next.clone()) {
            return;
        }
        if self.trace {
            println!(
                "{:>9.3} commit {partition} {:?}",
                self.agenda.now as f64 / 1e6,
                self.coordinator.configurations[partition]
            );
        }
        if next.is_lost {
            self.situations.note(Situation::PartitionLost);
        } else if next.primary != before.primary {
            self.situations.note(Situation::PrimaryChanged);
            if let Some(primary) = next.primary
                && !self.is_healed
                && self.random.one_in(4)
            {
                // One failure follows another, before all is over that the first brought about.
                let (delay, node) = (self.random.range(20, 250) * MS, index(primary));
                self.agenda.after(delay, Event::Crash { node });
            }
        } else {
            self.situations.note(Situation::EpochChangedWithSamePrimary);
        }
        self.tell_map();
    }

    pub(super) fn tell_map(&mut self) {
        for node in 0..self.nodes.len() {
            self.tell_map_to(node);
        }
    }

    fn tell_map_to(&mut self, node: usize) {
        let coordinator = self.nodes.len();
        if self.network.is_cut(coordinator, node) {
            return;
        }
        let delay = if self.random.one_in(20) {
            self.random.range(50, 800) * MS
        } else {
            self.random.range(MS / 5, 15 * MS)
        };
        let (life, version) = (self.nodes[node].life, self.coordinator.version());
        self.agenda.after(delay, Event::Map { node, life, version });
    }

    pub(super) fn local(&self, node: usize) -> weft_transport::Time {
        self.nodes[node].clock.at(self.agenda.now)
    }

    pub(super) fn send(&mut self, from: usize, to: Member, message: &PeerMessage<'_>) {
        let mut bytes = vec![0; message.encoded_len()];
        message.encode(&mut bytes);
        self.send_bytes(from, to, bytes.into());
    }

    pub(super) fn send_bytes(&mut self, from: usize, to: Member, bytes: Rc<[u8]>) {
        let target = index(to);
        let is_lost = self.network.is_cut(from, target)
            || self.random.permille(self.network.loss_permille)
            || self.nodes[target].life != to.incarnation.0;
        if is_lost {
            return;
        }
        let connection = self.network.connection(from, target);
        let from = self.nodes[from].member();
        if self.random.permille(self.network.twice_permille) {
            let delay = self.network.delay(&mut self.random);
            let bytes = Rc::clone(&bytes);
            self.agenda.after(delay, Event::Message { from, to, connection, bytes });
        }
        let delay = self.network.delay(&mut self.random);
        self.agenda.after(delay, Event::Message { from, to, connection, bytes });
    }

    /// The primary that the coordinator has committed, as it is in truth.
    pub(super) fn serving_host(&self, partition: usize) -> Option<(usize, &super::node::Host)> {
        let primary = self.coordinator.configurations[partition].primary?;
        let node = &self.nodes[index(primary)];
        let is_there = node.is_up && node.life == primary.incarnation.0;
        let host = node.hosts.get(partition).filter(|_| is_there)?;
        host.replica.is_serving().then_some((node.index, host))
    }

    pub(super) fn state(&self) -> String {
        let mut text = String::new();
        for (partition, configuration) in self.coordinator.configurations.iter().enumerate() {
            text += &format!("\n  partition {partition}: {configuration:?}");
            for node in &self.nodes {
                if let Some(host) = node.hosts.get(partition) {
                    let replica = &host.replica;
                    text += &format!(
                        "\n    node {} life {} map {}: epoch {} last {} committed {} serving {} in sync {}",
                        node.index,
                        node.life,
                        node.map_version,
                        replica.epoch(),
                        replica.last(),
                        replica.committed(),
                        replica.is_serving(),
                        replica.is_in_sync(),
                    );
                }
            }
        }
        text
    }

    /// Everything has come to rest: all members have the same, and nothing that a client was told is missing.
    fn check_end(&mut self) -> Check {
        for partition in 0..self.partitions {
            let configuration = &self.coordinator.configurations[partition];
            if configuration.is_lost {
                continue;
            }
            let hosts: Vec<_> = configuration
                .members
                .iter()
                .map(|member| &self.nodes[index(*member)].hosts[partition])
                .collect();
            let first = hosts[0];
            for host in &hosts {
                let is_same = first.store.live().eq(host.store.live())
                    && first.replica.last() == host.replica.last();
                if !is_same {
                    return Err(format!("partition {partition}: members differ: {}", self.state()));
                }
                let from = first.store.base.max(host.store.base).sequence() + 1;
                for sequence in from..=first.replica.last().sequence() {
                    if first.store.version_at(sequence) != host.store.version_at(sequence) {
                        return Err(format!("partition {partition}: logs differ at {sequence}"));
                    }
                }
            }
            for (_, version) in
                self.checker.acknowledged.iter().filter(|(of, _)| usize::from(*of) == partition)
            {
                for host in &hosts {
                    let known = host.store.version_at(version.sequence());
                    if known.is_some_and(|known| known != *version)
                        || version.sequence() > host.replica.last().sequence()
                    {
                        return Err(format!("partition {partition}: {version} is lost"));
                    }
                }
            }
            for (of, key, floor) in self.checker.floors() {
                let (version, value) = first.store.get(key);
                if usize::from(of) == partition
                    && version < floor
                    && (value.is_some() || !self.checker.may_be_absent(of, key, floor))
                {
                    return Err(format!(
                        "partition {partition}: key {key} is {version} at the end, was {floor}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A client is about to be told something by a primary that began to serve in `since`: no newer one may serve, or it
    /// must know of it.
    pub(super) fn check_told(
        &self,
        partition: usize,
        since: u32,
        version: Version,
        is_read: bool,
    ) -> Check {
        if self.served_since[partition] <= since {
            return Ok(());
        }
        if is_read {
            return Err(format!("partition {partition}: a former primary (epoch {since}) reads"));
        }
        let Some((_, host)) = self.serving_host(partition) else { return Ok(()) };
        let known = host.store.version_at(version.sequence());
        let is_behind = version.sequence() > host.replica.last().sequence();
        if is_behind || known.is_some_and(|known| known != version) {
            return Err(format!("partition {partition}: {version} acknowledged after a fence"));
        }
        Ok(())
    }
}
