//! Coordinators and the nodes that they are for, from a seed: hosts that end and come back with their disks or without, a network that loses, doubles
//! and reorders, operators and clients who ask until they know. Everything in one thread and in simulated time.

mod checker;
mod clients;
mod host;
mod scenarios;
mod trouble;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use weft_protocol::{Member, TableOptions};
use weft_transport::{Incarnation, NodeId, Time};

use self::checker::Checker;
use self::clients::Client;
use self::host::Host;
use super::{Coordinator, CoordinatorSettings, SeatEffects, founding_state};
use crate::coordinator::raft::{self, Batch, Identity, MemberRole, RaftId, begin_life};
use crate::coordinator::tests::random::Random;
use crate::coordinator::{
    Answer, Ask, ClusterId, ClusterState, Found, Heartbeat, Join, NodeDescription, Timing, Update,
    codec,
};

const CLUSTER: ClusterId = ClusterId(77);
const WIRE_VERSION: u16 = 1;

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A host, in one of its lives.
    Host { host: usize, boot: u64 },
    /// A client.
    Client { client: usize },
}

#[derive(Debug)]
enum Event {
    /// A coordinator's timer.
    Tick {
        host: usize,
        boot: u64,
    },
    /// A node's heartbeat, and whatever it is to ask.
    Beat {
        host: usize,
        boot: u64,
    },
    Raft {
        host: usize,
        bytes: Vec<u8>,
    },
    Heartbeat {
        host: usize,
        from: Member,
        bytes: Vec<u8>,
    },
    Update {
        host: usize,
        to: Member,
        bytes: Vec<u8>,
    },
    Ask {
        host: usize,
        asker: Asker,
        attempt: u64,
        bytes: Vec<u8>,
    },
    Answer {
        asker: Asker,
        attempt: u64,
        bytes: Vec<u8>,
    },
    Written {
        host: usize,
        boot: u64,
    },
    Boot {
        host: usize,
    },
    Client {
        client: usize,
    },
    Trouble,
}

struct World {
    now: Time,
    /// Events by time, and by the order in which they were made.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    made: u64,
    random: Random,
    hosts: Vec<Host>,
    clients: Vec<Client>,
    checker: Checker,
    /// Whether things go wrong.
    is_troubled: bool,
    /// Hosts that hear nothing of each other.
    cuts: std::collections::BTreeSet<(usize, usize)>,
    /// Proposals under ids that nobody else has.
    ids: u128,
}

impl World {
    /// A cluster that the first host has founded, and others that are to join it.
    fn new(seed: u64, hosts: usize) -> Self {
        let mut world = Self {
            now: Time::from_nanos(1),
            queue: BinaryHeap::new(),
            events: std::collections::BTreeMap::new(),
            made: 0,
            random: Random(seed),
            hosts: (0..hosts).map(|host| Host::new(NodeId(host as u64 + 1))).collect(),
            clients: Vec::new(),
            checker: Checker::default(),
            is_troubled: false,
            cuts: std::collections::BTreeSet::new(),
            ids: 0,
        };
        let identity = Identity { cluster: CLUSTER, node: NodeId(1), raft: RaftId(1) };
        let default_table = TableOptions { replicas: 3, ..TableOptions::default() };
        let (partitions_per_class, wire_version) = (4, WIRE_VERSION);
        let timing = Timing::default();
        let found = Found {
            cluster: CLUSTER,
            default_table,
            partitions_per_class,
            wire_version,
            timing,
            is_kept: true,
        };
        // Its first life is in the state that it founds.
        let first = world.hosts[0].join(Incarnation(1));
        world.hosts[0].life_on_disk = Some(Incarnation(1));
        world.hosts[0].is_founder_new = true;
        let state = founding_state(found, Some(first)).unwrap();
        let members = [(RaftId(1), NodeId(1))];
        world.hosts[0].disk.create(&Batch::founding(identity, &members, state)).unwrap();
        world.hosts[0].has_log = true;
        for host in 0..hosts {
            world.at(Duration::from_millis(host as u64), Event::Boot { host });
        }
        world
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.made += 1;
        self.queue.push(Reverse(((self.now + after).nanos(), self.made)));
        self.events.insert(self.made, event);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(Reverse((at, number))) = self.queue.peek().copied() {
            if at > end.nanos() {
                break;
            }
            self.queue.pop();
            self.now = Time::from_nanos(at);
            let event = self.events.remove(&number).expect("each is there once");
            self.happen(event);
        }
        self.now = end;
    }

    /// Runs until something is so, and fails if that takes longer than `most`. Returns how long it took.
    fn run_until(&mut self, most: Duration, what: &str, is_so: impl Fn(&Self) -> bool) -> Duration {
        let began = self.now;
        while !is_so(self) {
            let passed = self.now.since(began);
            assert!(passed < most, "not within {most:?}: {what}\n{}", self.describe());
            self.run_for(Duration::from_millis(10));
        }
        self.now.since(began)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Boot { host } => self.boot(host),
            Event::Tick { host, boot } if self.hosts[host].boot == boot => {
                let now = self.now;
                if let Some(coordinator) = &mut self.hosts[host].coordinator {
                    coordinator.tick(now);
                    let next = coordinator.next_tick().since(now);
                    self.at(next.max(Duration::from_millis(1)), Event::Tick { host, boot });
                    self.turn(host);
                }
            }
            Event::Beat { host, boot } if self.hosts[host].boot == boot => {
                self.beat(host);
                self.at(Timing::default().heartbeat(), Event::Beat { host, boot });
            }
            Event::Raft { host, bytes } => {
                let now = self.now;
                if let Some(coordinator) = &mut self.hosts[host].coordinator {
                    coordinator.hear_raft(now, &bytes);
                    self.turn(host);
                }
            }
            Event::Heartbeat { host, from, bytes } => {
                let now = self.now;
                let Ok(crate::coordinator::Notice::Heartbeat(heartbeat)) =
                    codec::decode_notice(&bytes)
                else {
                    panic!("a heartbeat is one")
                };
                if let Some(coordinator) = &mut self.hosts[host].coordinator {
                    coordinator.heartbeat(now, from, &heartbeat);
                    self.turn(host);
                }
            }
            Event::Update { host, to, bytes } => self.take_update(host, to, &bytes),
            Event::Ask { host, asker, attempt, bytes } => self.asked(host, asker, attempt, &bytes),
            Event::Answer { asker, attempt, bytes } => {
                let answer = codec::decode_answer(&bytes).unwrap();
                self.answered(asker, attempt, answer);
            }
            Event::Written { host, boot } if self.hosts[host].boot == boot => self.write(host),
            Event::Client { client } => self.client(client),
            Event::Trouble => self.trouble(),
            Event::Tick { .. } | Event::Beat { .. } | Event::Written { .. } => {}
        }
    }

    fn asked(&mut self, host: usize, asker: Asker, attempt: u64, bytes: &[u8]) {
        let ask = codec::decode_ask(bytes).unwrap();
        let now = self.now;
        let there = &mut self.hosts[host];
        let Some(coordinator) = &mut there.coordinator else {
            if there.is_running {
                let leader = there.leader.clone();
                self.reply(host, asker, attempt, &Answer::NotLeader { leader });
            }
            return;
        };
        there.questions_asked += 1;
        let token = there.questions_asked;
        there.questions.insert(token, (asker, attempt));
        coordinator.ask(now, token, ask);
        self.turn(host);
    }

    fn reply(&mut self, host: usize, asker: Asker, attempt: u64, answer: &Answer) {
        let to = match asker {
            Asker::Host { host, .. } => host,
            // Clients hear everybody.
            Asker::Client { .. } => host,
        };
        let bytes = codec::encode_answer(answer);
        self.send(host, to, move || Event::Answer { asker, attempt, bytes: bytes.clone() });
    }

    fn answered(&mut self, asker: Asker, attempt: u64, answer: Answer) {
        match asker {
            Asker::Host { host, boot } if self.hosts[host].boot == boot => {
                self.host_answered(host, attempt, answer);
            }
            Asker::Host { .. } => {}
            Asker::Client { client } => self.client_answered(client, attempt, answer),
        }
    }

    /// Does what a coordinator wants.
    fn turn(&mut self, host: usize) {
        let now = self.now;
        let Some(coordinator) = &mut self.hosts[host].coordinator else { return };
        let effects = coordinator.poll(now);
        let (leads, version) = (coordinator.leads(), coordinator.state().version());
        if std::mem::replace(&mut self.hosts[host].seen_version, version) != version
            && let Some(coordinator) = self.coordinator(host)
        {
            let known = Checker::known(coordinator.state());
            self.checker.see(known);
        }
        let SeatEffects { messages, writes, answers, updates, leader, is_removed, failure } =
            effects;
        assert_eq!(failure, None, "host {host}");
        for message in messages {
            let (to, bytes) = (host_of(message.node), message.bytes);
            self.send(host, to, move || Event::Raft { host: to, bytes: bytes.clone() });
        }
        let boot = self.hosts[host].boot;
        for write in writes {
            self.hosts[host].writes.push_back(write);
            let took = Duration::from_micros(100 + self.random.below(4_000));
            self.at(took, Event::Written { host, boot });
        }
        for (token, answer) in answers {
            let (asker, attempt) =
                self.hosts[host].questions.remove(&token).expect("a question is answered once");
            self.reply(host, asker, attempt, &answer);
        }
        for (members, update) in updates {
            // One that does not lead speaks to its own node alone.
            assert!(leads || members.iter().all(|member| host_of(member.node) == host));
            assert_eq!(update.version, version);
            let notice = crate::coordinator::Notice::Update(Box::new(update));
            let bytes = codec::encode_notice(&notice);
            for member in members {
                let (to, bytes) = (host_of(member.node), bytes.clone());
                let event = move || Event::Update { host: to, to: member, bytes: bytes.clone() };
                self.send(host, to, event);
            }
        }
        if let Some(leader) = leader {
            self.hosts[host].leader = leader;
        }
        if is_removed {
            // It is to be admitted anew, if it may.
            self.hosts[host].forget_log();
        }
    }

    fn write(&mut self, host: usize) {
        let now = self.now;
        let Some(write) = self.hosts[host].writes.pop_front() else { return };
        raft::RaftLog::write(&mut self.hosts[host].disk, &write.batch).unwrap();
        if let Some(coordinator) = &mut self.hosts[host].coordinator {
            coordinator.on_written(now, write.number);
            self.turn(host);
        }
    }

    /// Something goes from one host to another.
    fn send(&mut self, from: usize, to: usize, event: impl Fn() -> Event) {
        if from == to {
            return self.at(Duration::from_micros(10), event());
        }
        let is_cut = self.cuts.contains(&(from.min(to), from.max(to)));
        if to >= self.hosts.len() || is_cut || (self.is_troubled && self.random.one_in(20)) {
            return;
        }
        let times = if self.is_troubled && self.random.one_in(20) { 2 } else { 1 };
        for _ in 0..times {
            let late = if self.is_troubled && self.random.one_in(30) { 300_000 } else { 2_000 };
            let delay = Duration::from_micros(50 + self.random.below(late));
            self.at(delay, event());
        }
    }

    fn next_id(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    /// The coordinator that leads, in the latest term.
    fn leader(&self) -> Option<usize> {
        let leading = (0..self.hosts.len())
            .filter(|host| self.coordinator(*host).is_some_and(Coordinator::leads));
        leading.max_by_key(|host| {
            self.coordinator(*host).map(|coordinator| coordinator.raft.leadership().term)
        })
    }

    fn coordinator(&self, host: usize) -> Option<&Coordinator> {
        self.hosts[host].coordinator.as_ref()
    }

    /// The state, as the leader knows it.
    fn state(&self) -> Option<&ClusterState> {
        self.leader().and_then(|leader| self.coordinator(leader)).map(Coordinator::state)
    }

    /// How many vote and how many only follow, as the leader knows it.
    fn votes(&self) -> (usize, usize) {
        let leader = self.leader().and_then(|leader| self.coordinator(leader));
        let members = leader.map(|leader| leader.raft.members()).unwrap_or_default();
        let voters = members.iter().filter(|member| member.role == MemberRole::Voter).count();
        (voters, members.len() - voters)
    }

    fn describe(&self) -> String {
        let mut text = format!("at {:?}, leader {:?}\n", self.now, self.leader());
        for (index, host) in self.hosts.iter().enumerate() {
            let coordinator = host.coordinator.as_ref();
            let members = coordinator.map(|coordinator| coordinator.raft.members());
            let term = coordinator.map(|coordinator| coordinator.raft.leadership());
            let version = coordinator.map(|coordinator| coordinator.state().version());
            text += &format!(
                "host {index}: running {}, life {:?}, joined {}, known {}, has log {}; {term:?}, version {version:?}, {members:?}\n",
                host.is_running, host.life, host.has_joined, host.known.version, host.has_log
            );
        }
        for node in self.state().into_iter().flat_map(ClusterState::nodes) {
            text += &format!("{node:?}\n");
        }
        for (id, partition) in self.state().into_iter().flat_map(ClusterState::partitions) {
            text += &format!("{id} {:?}\n", partition.configuration);
        }
        text
    }
}

fn host_of(node: NodeId) -> usize {
    node.0 as usize - 1
}
